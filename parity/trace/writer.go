package trace

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/fileio"
)

const (
	magic   = "lstrace\n"
	version = 1

	// Bounds on what a reader takes into memory at once.
	maxHeader = 1 << 20
	maxRecord = 1 << 20
)

// Kinds of records.
const (
	kindBegin = 'B'
	kindStep  = 'S'
	kindEnd   = 'E'
	kindClose = 'Z'
)

// What an end record holds.
const (
	endCosts = 1 << iota
	endRolling
	endError
)

// Header says what a trace is of. All of it may be empty.
type Header struct {
	Producer    string    `json:"producer,omitempty"`     // the program that wrote it
	Engine      string    `json:"engine,omitempty"`       // the implementation that computed it
	Profile     string    `json:"profile,omitempty"`      // its arithmetic, see lockstep.Profile
	ModelSHA256 string    `json:"model_sha256,omitempty"` // of the network's file
	Digest      Hash      `json:"digest"`                 // of arrays, xxh64 if not given
	Shortcuts   Shortcuts `json:"shortcuts,omitempty"`    // what was left out
	Comment     string    `json:"comment,omitempty"`
}

// Shortcuts are lockstep.Shortcuts whose JSON form is a list of words.
type Shortcuts lockstep.Shortcuts

var shortcutNames = []struct {
	name string
	bit  lockstep.Shortcuts
}{
	{"skip_warmup", lockstep.SkipWarmup},
	{"stop_at_cost_end", lockstep.StopAtCostEnd},
	{"last_position", lockstep.LastPosition},
}

// MarshalJSON writes the words.
func (s Shortcuts) MarshalJSON() ([]byte, error) {
	words := []string{}
	for _, n := range shortcutNames {
		if lockstep.Shortcuts(s)&n.bit != 0 {
			words = append(words, n.name)
		}
	}
	return json.Marshal(words)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Shortcuts) UnmarshalJSON(data []byte) error {
	var words []string
	if err := json.Unmarshal(data, &words); err != nil {
		return err
	}
	*s = 0
next:
	for _, word := range words {
		for _, n := range shortcutNames {
			if n.name == word {
				*s |= Shortcuts(n.bit)
				continue next
			}
		}
		return fmt.Errorf("shortcut %.60q is not known", word)
	}
	return nil
}

// Rollout says which job a rollout was of. Only Route and Policy need to be known.
type Rollout struct {
	Route  string  `json:"route"`
	Policy string  `json:"policy"` // the controller's name, with its gains
	Rows   int     `json:"rows,omitempty"`
	Seed   *uint32 `json:"seed,omitempty"`

	// Columns are the hashes of the route's columns, see golden.HashRoute.
	Columns []Hex `json:"columns,omitempty"`
}

// Of describes a job.
func Of(job lockstep.Job) Rollout {
	r := Rollout{Route: job.Route.Name, Policy: PolicyName(job.Policy), Rows: job.Route.Len(), Seed: &job.Route.Seed}
	for _, hash := range golden.HashRoute(job.Route) {
		r.Columns = append(r.Columns, Hex(hash))
	}
	return r
}

// PolicyName is the policy's name; no policy has none.
func PolicyName(p lockstep.Policy) string {
	if p == nil {
		return ""
	}
	return p.String()
}

// Key tells rollouts of a trace apart: route and policy.
func (r *Rollout) Key() string { return r.Route + "/" + r.Policy }

// Hex is a hash whose JSON form is 16 hexadecimal digits, since JSON's numbers do
// not hold it in every program.
type Hex uint64

// MarshalText writes the digits.
func (h Hex) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hex) UnmarshalText(text []byte) error {
	var x uint64
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			x = x<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			x = x<<4 | uint64(c-'a'+10)
		default:
			return fmt.Errorf("hash %.60q: want 16 hexadecimal digits", text)
		}
	}
	if len(text) != 16 {
		return fmt.Errorf("hash %.60q: want 16 hexadecimal digits", text)
	}
	*h = Hex(x)
	return nil
}

// A Writer writes a trace. Its methods may be called from several goroutines at
// once.
type Writer struct {
	hash Hash
	full Stages

	mutex    sync.Mutex
	w        io.Writer
	rollouts uint32
	open     int // rollouts that have not ended
	steps    uint64
	err      error // the first; after it nothing is written
}

// NewWriter writes the header. Arrays of the stages in full are written as they
// are, others as digests.
func NewWriter(w io.Writer, h Header, full Stages) (*Writer, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf("a trace's header of %d bytes, want %d at most", len(text), maxHeader)
	}
	b := append([]byte(magic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(text)))
	if _, err := w.Write(append(b, text...)); err != nil {
		return nil, err
	}
	return &Writer{hash: h.Digest, full: full & Arrays, w: w}, nil
}

// WriteFile writes a trace with what record tells the writer. The file appears whole
// or not at all: not if record or the writer fails.
func WriteFile(path string, h Header, full Stages, record func(*Writer) error) error {
	return fileio.Write(path, func(w io.Writer) error {
		t, err := NewWriter(w, h, full)
		if err != nil {
			return err
		}
		if err := record(t); err != nil {
			return err
		}
		return t.Close()
	})
}

// Begin begins a rollout.
func (w *Writer) Begin(r Rollout) *RolloutWriter {
	text, err := json.Marshal(r)
	if err == nil && len(text)+4 > maxRecord {
		err = fmt.Errorf("route %.40s: its description has %d bytes, want %d at most", r.Route, len(text), maxRecord-4)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err != nil && w.err == nil {
		w.err = err
	}
	id := w.rollouts
	w.rollouts++
	w.open++
	b := record(nil, kindBegin, id)
	w.write(seal(append(b, text...)))
	return &RolloutWriter{writer: w, id: id, key: r.Key(), last: -1}
}

// Close writes the end of the file. It returns the first error of all that was
// written; a rollout that was not ended is one.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.open > 0 && w.err == nil {
		w.err = fmt.Errorf("%d rollouts of the trace were not ended", w.open)
	}
	b := record(nil, kindClose, w.rollouts)
	w.write(seal(binary.LittleEndian.AppendUint64(b, w.steps)))
	if w.err != nil {
		return w.err
	}
	w.err = errors.New("the trace is closed")
	return nil
}

// write writes a record, with the mutex held.
func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
}

// record begins a record; seal enters its length.
func record(b []byte, kind byte, first uint32) []byte {
	b = append(b[:0], kind, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(b, first)
}

func seal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-5))
	return b
}

// A RolloutWriter writes one rollout, from one goroutine at a time. Its Observe is
// a Job's.
type RolloutWriter struct {
	writer  *Writer
	id      uint32
	key     string
	steps   uint32
	last    int32
	rolling uint64
	record  []byte
	step    Step
}

// Observe writes a step that an engine computed.
func (r *RolloutWriter) Observe(s *lockstep.Step) {
	r.step.Of(s, r.writer.hash)
	r.Step(&r.step)
}

// Step writes a step. Its digests are those of the writer's Hash.
func (r *RolloutWriter) Step(s *Step) {
	flags := uint32(0)
	b := record(r.record, kindStep, r.id)
	b = binary.LittleEndian.AppendUint32(b, uint32(s.Index))
	b = append(b, 0, 0, 0, 0)
	var err error
	if s.Index <= r.last {
		err = fmt.Errorf("%s: step %d after step %d", r.key, s.Index, r.last)
	}
	array := func(stage Stage, n int, data []byte) {
		switch {
		case !s.Has.Has(stage):
		case !r.writer.full.Has(stage) || data == nil:
			flags |= 1 << (2 * stage)
			b = binary.LittleEndian.AppendUint64(b, s.Value(stage))
		case n != shapes[stage].length:
			err = fmt.Errorf("%s, step %d: stage %s has %d values, want %d", r.key, s.Index, stage, n, shapes[stage].length)
		default:
			flags |= 2 << (2 * stage)
			b = append(b, data...)
		}
	}
	scalar := func(stage Stage) {
		if s.Has.Has(stage) {
			flags |= 2 << (2 * stage)
			b = binary.LittleEndian.AppendUint64(b, s.Value(stage))
		}
	}
	scalar(Action)
	array(Tokens, len(s.Tokens), bytesOf(s.Tokens))
	array(States, len(s.States), bytesOf(s.States))
	array(Logits, len(s.Logits), bytesOf(s.Logits))
	array(Probs, len(s.Probs), bytesOf(s.Probs))
	array(CDF, len(s.CDF), bytesOf(s.CDF))
	scalar(Draw)
	scalar(Sample)
	scalar(Prediction)
	scalar(Lataccel)
	binary.LittleEndian.PutUint32(b[13:], flags)
	r.record = b
	r.rolling = r.writer.hash.Roll(r.rolling, &s.Digest)
	r.steps++
	r.last = s.Index

	w := r.writer
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err != nil && w.err == nil {
		w.err = err
	}
	w.write(seal(b))
	w.steps++
}

// End ends the rollout with what came of it.
func (r *RolloutWriter) End(result lockstep.Result) {
	b := record(r.record, kindEnd, r.id)
	b = binary.LittleEndian.AppendUint32(b, r.steps)
	if result.Err != nil {
		b = append(b, endRolling|endError)
	} else {
		b = append(b, endRolling|endCosts)
		for _, c := range []float64{result.Costs.Lataccel, result.Costs.Jerk, result.Costs.Total} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(c))
		}
	}
	b = binary.LittleEndian.AppendUint64(b, r.rolling)
	if result.Err != nil {
		text := result.Err.Error()
		b = append(b, text[:min(len(text), 1<<16)]...)
	}
	w := r.writer
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.write(seal(b))
	w.open--
}
