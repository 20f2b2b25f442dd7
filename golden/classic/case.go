// Package classic holds recordings of Gymnasium's classic control environments,
// and compares implementations with them. record.py makes them of unmodified
// Gymnasium: `make golden-classic`.
package classic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"lockstep/classic"
)

// A RecordedCase is a rollout, and what Gymnasium answered: see record.py.
type RecordedCase struct {
	Env       string              `json:"env"`
	Options   map[string]string   `json:"options"`
	Num       int                 `json:"num"`
	Autoreset string              `json:"autoreset"`
	NumPy1    bool                `json:"numpy1"`
	Seed      int64               `json:"seed"`
	Bounds    map[string]float64  `json:"bounds,omitempty"`
	Uniform   uint64              `json:"uniform"`
	Network   *classic.Perceptron `json:"network,omitempty"` // in place of Uniform
	Steps     int                 `json:"steps"`
	Every     int                 `json:"every"`  // steps between hashes
	Values    int                 `json:"values"` // steps whose values are kept

	Hashes []string     `json:"hashes,omitempty"`
	First  [][][]string `json:"first,omitempty"` // step, column, element
}

// RecordedCases are what record.py prints.
type RecordedCases struct {
	Gymnasium string         `json:"gymnasium"`
	NumPy     string         `json:"numpy"`
	Cases     []RecordedCase `json:"cases"`
}

// Record has a Python with Gymnasium run the cases.
func Record(
	ctx context.Context, python, script string, cases []RecordedCase,
) (RecordedCases, error) {
	var r RecordedCases
	input, err := json.Marshal(cases)
	if err != nil {
		return r, err
	}
	var complaint strings.Builder
	c := exec.CommandContext(ctx, python, script)
	c.Stdin, c.Stderr = strings.NewReader(string(input)), &complaint
	output, err := c.Output()
	if err != nil {
		return r, fmt.Errorf(
			"%s %s: %w\n%s", python, script, err, strings.TrimSpace(complaint.String()),
		)
	}
	return r, json.Unmarshal(output, &r)
}

// Name says what the case is.
func (c RecordedCase) Name() string {
	name := fmt.Sprintf("%s/%s/n%d/seed%d", c.Env, c.Autoreset, c.Num, c.Seed)
	for _, key := range slices.Sorted(keys(c.Options)) {
		name += "/" + key + "=" + c.Options[key]
	}
	for _, key := range slices.Sorted(keys(c.Bounds)) {
		name += fmt.Sprintf("/%s=%g", key, c.Bounds[key])
	}
	if c.Network != nil {
		name += "/network"
	}
	if c.NumPy1 {
		name += "/numpy1"
	}
	return name
}

func keys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Task is the case's.
func (c RecordedCase) Task() (classic.Task, error) {
	t, err := classic.Make(c.Env, c.Num, c.Options)
	if err != nil {
		return t, err
	}
	t.NumPy1 = c.NumPy1
	t.Autoreset, err = classic.ParseAutoreset(c.Autoreset)
	return t, err
}

// reset is the case's first one.
func (c RecordedCase) reset(t classic.Task) classic.Reset {
	r := classic.Reset{Seed: c.Seed}
	if c.Bounds == nil {
		return r
	}
	if t.Dynamics == classic.Pendulum { // symmetric
		x, y := c.Bounds["x_init"], c.Bounds["y_init"]
		r.Low, r.High = []float64{-x, -y}, []float64{x, y}
		return r
	}
	r.Low = slices.Repeat([]float64{c.Bounds["low"]}, len(t.Low))
	r.High = slices.Repeat([]float64{c.Bounds["high"]}, len(t.High))
	return r
}

// Compare runs the case on an engine and tells the first difference, or nil.
// Every step of the recording is compared.
func (c RecordedCase) Compare(engine classic.Maker) error {
	t, err := c.Task()
	if err != nil {
		return err
	}
	if c.Every < 1 || len(c.Hashes) != c.Steps/c.Every || len(c.Hashes) == 0 ||
		c.Steps%c.Every != 0 {
		return fmt.Errorf(
			"%s: %d hashes of %d steps, one in %d, were recorded", c.Name(), len(c.Hashes), c.Steps,
			c.Every,
		)
	}
	v, err := engine.Make(t)
	if err != nil {
		return err
	}
	defer v.Close()
	run := comparison{RecordedCase: c, hash: sha256.New()}
	if err := run.all(t, v); err != nil {
		return fmt.Errorf("%s: %s: %w", engine.Name(), c.Name(), err)
	}
	return nil
}

type comparison struct {
	RecordedCase
	hash hash.Hash
	rows int // that were put
}

func (c *comparison) all(t classic.Task, v classic.Vector) error {
	if err := v.Reset(c.reset(t)); err != nil {
		return err
	}
	if err := c.observed(t, v, 0); err != nil {
		return err
	}
	policy := classic.Policy{Network: c.Network}
	if c.Network == nil {
		policy.Uniform = &c.Uniform
	}
	record := make([]classic.Transition, c.Every)
	if t.Autoreset == classic.Disabled {
		record = record[:1]
	}
	for i := range record {
		record[i] = classic.NewTransition(t)
	}
	ended := make([]bool, t.Num)
	for done := 0; done < c.Steps; done += len(record) {
		if t.Autoreset == classic.Disabled && slices.Contains(ended, true) {
			if err := v.Reset(classic.Reset{Continue: true, Mask: ended}); err != nil {
				return err
			}
			if err := c.observed(t, v, done+1); err != nil {
				return err
			}
		}
		if err := v.Run(context.Background(), policy, len(record), record); err != nil {
			return err
		}
		for i := range record {
			if err := c.answered(t, &record[i], done+i, ended); err != nil {
				return err
			}
		}
		if step := done + len(record); step%c.Every == 0 {
			if got, want := hex.EncodeToString(c.hash.Sum(nil)),
				c.Hashes[step/c.Every-1]; got != want {
				return fmt.Errorf(
					"steps %d to %d differ from Gymnasium's (their hash)", step-c.Every, step-1,
				)
			}
		}
	}
	if want := len(c.First); c.rows < want {
		return fmt.Errorf("%d rows of values were compared, %d were recorded", c.rows, want)
	}
	return nil
}

// answered puts one step, and notes what has ended.
func (c *comparison) answered(t classic.Task, r *classic.Transition, step int, ended []bool) error {
	columns := []any{
		r.Actions.Discrete, r.States, r.Observations, r.Rewards, r.Terminated, r.Truncated,
	}
	if t.Actions == 0 {
		columns[0] = r.Actions.Continuous
	}
	var finals []int
	for i := range ended {
		ended[i] = r.Terminated[i] || r.Truncated[i]
		if ended[i] {
			finals = append(finals, i)
		}
	}
	if t.Autoreset == classic.SameStep && len(finals) > 0 {
		var final []float32
		for d := range t.Observation {
			for _, i := range finals {
				final = append(final, r.Final[d*t.Num+i])
			}
		}
		columns = append(columns, final)
	}
	return c.put(step+1, columns...)
}

func (c *comparison) observed(t classic.Task, v classic.Vector, step int) error {
	states, observations := make([]float64, len(t.State)*t.Num),
		make([]float32, len(t.Observation)*t.Num)
	v.Observe(observations, states)
	return c.put(step, states, observations)
}

// put hashes a row and compares it with the recorded values, if there are.
func (c *comparison) put(step int, columns ...any) error {
	for k, column := range columns {
		binary.Write(c.hash, binary.LittleEndian, oneNaN(column))
		if c.rows >= len(c.First) {
			continue
		}
		if len(columns) != len(c.First[c.rows]) {
			return fmt.Errorf(
				"step %d has %d columns, %d were recorded", step, len(columns),
				len(c.First[c.rows]),
			)
		}
		if err := same(column, c.First[c.rows][k]); err != nil {
			return fmt.Errorf("step %d, column %d: %w", step, k, err)
		}
	}
	c.rows++
	return nil
}

// oneNaN is a column in which there is one NaN only: which of them an operation gives nothing
// prescribes, and processors differ in its sign.
func oneNaN(column any) any {
	switch column := column.(type) {
	case []float64:
		return replaceNaN(column, math.Float64frombits(0x7ff8000000000000))
	case []float32:
		return replaceNaN(column, math.Float32frombits(0x7fc00000))
	}
	return column
}

func replaceNaN[T float32 | float64](column []T, nan T) []T {
	isNaN := func(x T) bool { return x != x }
	if !slices.ContainsFunc(column, isNaN) {
		return column
	}
	column = slices.Clone(column)
	for i, x := range column {
		if isNaN(x) {
			column[i] = nan
		}
	}
	return column
}

func same(column any, want []string) error {
	got := numbers(column)
	if len(got) != len(want) {
		return fmt.Errorf("%d values were computed, %d were recorded", len(got), len(want))
	}
	for i, text := range want {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		if math.Float64bits(got[i]) != math.Float64bits(x) &&
			!(math.IsNaN(got[i]) && math.IsNaN(x)) {
			return fmt.Errorf("element %d is %x, Gymnasium has %x", i, got[i], x)
		}
	}
	return nil
}

func numbers(column any) []float64 {
	var all []float64
	switch column := column.(type) {
	case []float64:
		return column
	case []float32:
		for _, x := range column {
			all = append(all, float64(x))
		}
	case []int32:
		for _, x := range column {
			all = append(all, float64(x))
		}
	case []bool:
		for _, x := range column {
			if x {
				all = append(all, 1)
			} else {
				all = append(all, 0)
			}
		}
	}
	return all
}

// Read reads a recording.
func Read(r io.Reader) (RecordedCases, error) {
	var rec RecordedCases
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	return rec, d.Decode(&rec)
}
