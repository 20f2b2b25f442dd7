package classic

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

//go:embed testdata/numpy2.json.gz
var numpy2 []byte

//go:embed testdata/numpy1.json.gz
var numpy1 []byte

//go:embed testdata/functions.json.gz
var functions []byte

// Function returns arguments and values of a function: "pow" and "powf" with
// exponent 2, "sin" and "cos", "sin32" and "cos32", which are NumPy's of a float32.
func Function(name string) (x, y []float64, err error) {
	var all map[string][][2]string
	z, err := gzip.NewReader(bytes.NewReader(functions))
	if err != nil {
		return nil, nil, err
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		return nil, nil, err
	}
	if len(all[name]) < 400 {
		return nil, nil, fmt.Errorf(
			"%d values of %s were recorded, 400 are wanted", len(all[name]), name,
		)
	}
	for _, pair := range all[name] {
		var value [2]float64
		for i, text := range pair {
			if value[i], err = strconv.ParseFloat(text, 64); err != nil {
				return nil, nil, err
			}
		}
		x, y = append(x, value[0]), append(y, value[1])
	}
	return x, y, nil
}

// Goldens are the cases that are committed: those of Cases, with NumPy 2 and with
// NumPy 1.
func Goldens() ([]RecordedCase, error) {
	var all []RecordedCase
	for i, data := range [][]byte{numpy2, numpy1} {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		r, err := Read(z)
		if err != nil {
			return nil, err
		}
		want := Cases(i == 1)
		if !strings.HasPrefix(r.NumPy, []string{"2.", "1."}[i]) || len(r.Cases) != len(want) {
			return nil, fmt.Errorf(
				"recording with NumPy %s of %d cases: there should be %d", r.NumPy, len(r.Cases),
				len(want),
			)
		}
		for k, c := range r.Cases {
			if asked, wanted := c.asked(), want[k].asked(); asked != wanted {
				return nil, fmt.Errorf(
					"case %d was recorded as %s, and should be %s: asked for %.900s, not %.900s", k,
					c.Name(), want[k].Name(), asked, wanted,
				)
			}
		}
		all = append(all, r.Cases...)
	}
	return all, nil
}

// asked is all of a case but what was answered.
func (c RecordedCase) asked() string {
	c.Hashes, c.First = nil, nil
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // numbers and words
	}
	return string(text)
}
