package runs

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"

	"lockstep/internal/fileio"
)

// curveName is the file of a curve.
const curveName = "curve.csv"

// Curve is what a search or a training came to so far, in the file curve.csv of its
// folder: a line of names, then a line of numbers for each generation or epoch, of
// which the first counts. A line without its end is not there yet; a cell may be empty
// or nan. Whatever writes such a file is watched.
type Curve struct {
	Names []string
	Rows  [][]float64
}

// Write writes the curve into a folder.
func (c *Curve) Write(dir string) error {
	return fileio.Write(filepath.Join(dir, curveName), func(w io.Writer) error {
		out := csv.NewWriter(w)
		out.Write(c.Names)
		for _, row := range c.Rows {
			cells := make([]string, len(row))
			for i, x := range row {
				cells[i] = strconv.FormatFloat(x, 'g', -1, 64)
			}
			out.Write(cells)
		}
		out.Flush()
		return out.Error()
	})
}

// Columns are the numbers of each name.
func (c *Curve) Columns() [][]float64 {
	columns := make([][]float64, len(c.Names))
	for _, row := range c.Rows {
		for i, x := range row {
			columns[i] = append(columns[i], x)
		}
	}
	return columns
}

// WriteText draws each column in a line: its first and its last number, and bars in
// between. The writer keeps its own errors.
func (c *Curve) WriteText(w io.Writer) {
	if len(c.Rows) == 0 {
		return
	}
	fmt.Fprintf(w, "%s %.6g\n", c.Names[0], c.Rows[len(c.Rows)-1][0])
	for i, values := range c.Columns()[1:] {
		fmt.Fprintf(
			w, "%-20s %9.6g to %9.6g  %s\n", c.Names[i+1], values[0], values[len(values)-1],
			bars(values),
		)
	}
}

// bars draws numbers, as many of them as fit into a line, evenly picked and the last
// among them. One that is none has a gap.
func bars(values []float64) string {
	const most = 60
	heights := []rune("▁▂▃▄▅▆▇█")
	low, high := math.Inf(1), math.Inf(-1)
	for _, x := range values {
		if !math.IsNaN(x) {
			low, high = min(low, x), max(high, x)
		}
	}
	n := min(len(values), most)
	line := make([]rune, n)
	for i := range line {
		x := values[(i+1)*len(values)/n-1]
		switch part := (x - low) / (high - low); {
		case math.IsNaN(x):
			line[i] = ' '
		case part >= 0 && part <= 1:
			line[i] = heights[int(part*float64(len(heights)-1))]
		default: // all are one, or not finite
			line[i] = heights[0]
		}
	}
	return string(line)
}

// ReadCurve reads the curve of a folder.
func ReadCurve(dir string) (*Curve, error) {
	path := filepath.Join(dir, curveName)
	data, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return nil, err
	}
	in := csv.NewReader(bytes.NewReader(data[:bytes.LastIndexByte(data, '\n')+1]))
	c := &Curve{}
	for {
		cells, err := in.Read()
		switch {
		case err == io.EOF:
			return c, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		case c.Names == nil:
			c.Names = cells
			continue
		}
		row := make([]float64, len(cells))
		for k, cell := range cells {
			if row[k], err = strconv.ParseFloat(cell, 64); cell == "" {
				row[k] = math.NaN()
			} else if err != nil {
				line, _ := in.FieldPos(k)
				return nil, fmt.Errorf("%s:%d: %.30q is not a number", path, line, cell)
			}
		}
		c.Rows = append(c.Rows, row)
	}
}
