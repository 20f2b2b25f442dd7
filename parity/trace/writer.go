package trace

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"lockstep/internal/fileio"
	"lockstep/internal/plain"
	"lockstep/parity/schema"
)

// A Writer writes a trace. Its methods may be called from several goroutines at
// once.
type Writer struct {
	header Header
	full   schema.StageSet

	mutex    sync.Mutex
	w        io.Writer
	crc      uint32
	rollouts uint32
	open     int // rollouts that have not ended
	steps    uint64
	err      error // the first; after it nothing is written
}

// NewWriter writes the header. Arrays of the stages in full are written as they
// are, others as digests.
func NewWriter(w io.Writer, h Header, full schema.StageSet) (*Writer, error) {
	if err := h.Schema.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeader {
		return nil, fmt.Errorf(
			"a trace's header of %d bytes, want %d at most", len(text), maxHeader,
		)
	}
	b := binary.LittleEndian.AppendUint32([]byte(magic), version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	t := &Writer{header: h, full: full & h.Schema.Arrays(), w: w}
	t.write(append(b, text...), nil)
	return t, t.err
}

// WriteFile writes a trace with what record tells the writer. The file appears whole
// or not at all: not if record or the writer fails.
func WriteFile(path string, h Header, full schema.StageSet, record func(*Writer) error) error {
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
	for i := 0; err == nil && i < len(r.Key); i++ {
		err = plain.Kept("rollout", r.Key[i])
	}
	if err == nil && len(r.Key) != len(w.header.Schema.Key) {
		err = fmt.Errorf(
			"%.40s: a key of %d words, want %v", r.Name(), len(r.Key), w.header.Schema.Key,
		)
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	o := &RolloutWriter{writer: w, id: w.rollouts, name: r.Name(), last: -1}
	w.rollouts++
	w.open++
	o.put(append(begin(kindBegin, o.id), text...), err)
	return o
}

// Close writes the end of the file. It returns the first error of all that was
// written; a rollout that was not ended is one.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	var err error
	if w.open > 0 {
		err = fmt.Errorf("%d rollouts of the trace were not ended", w.open)
	}
	b := binary.LittleEndian.AppendUint64(begin(kindClose, w.rollouts), w.steps)
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)+4-payload))
	w.write(b, err)
	w.write(binary.LittleEndian.AppendUint32(nil, w.crc), nil)
	err = w.err
	w.err = cmp.Or(err, errors.New("the trace is closed"))
	return err
}

// write writes unless there is an error, with the mutex held.
func (w *Writer) write(b []byte, err error) {
	if w.err = cmp.Or(w.err, err); w.err == nil {
		w.crc = crc32.Update(w.crc, crc32.IEEETable, b)
		_, w.err = w.w.Write(b)
	}
}

// begin begins a record, whose length is not known.
func begin(kind byte, first uint32) []byte {
	return binary.LittleEndian.AppendUint32(append(make([]byte, 0, 512), kind, 0, 0, 0, 0), first)
}

// A RolloutWriter writes one rollout, from one goroutine at a time. It has no buffer:
// there may be many.
type RolloutWriter struct {
	writer *Writer
	id     uint32
	name   string
	steps  uint32
	last   int
	ended  bool
}

// put writes a record, unless it is none for err, or no reader would take it, with the
// mutex held.
func (r *RolloutWriter) put(b []byte, err error) {
	w := r.writer
	n := len(b) - payload
	if err == nil && n > maxRecord {
		err = fmt.Errorf("%.40s: a record of %d bytes, want %d at most", r.name, n, maxRecord)
	}
	binary.LittleEndian.PutUint32(b[1:], uint32(n))
	w.write(b, err)
}

// Observe writes a step, whose digests it makes.
func (r *RolloutWriter) Observe(s *schema.Step) {
	w := r.writer
	s.Sum(w.header.Digest)
	var err error
	switch {
	case r.ended:
		err = fmt.Errorf("%s: step %d after its end", r.name, s.Index)
	case s.Index <= r.last:
		err = fmt.Errorf("%s: step %d after step %d", r.name, s.Index, r.last)
	case s.Index > math.MaxInt32:
		err = fmt.Errorf("%s: step %d, want %d at most", r.name, s.Index, math.MaxInt32)
	}
	r.steps++
	r.last = s.Index
	b := binary.LittleEndian.AppendUint32(begin(kindStep, r.id), uint32(s.Index))
	flags, place := uint64(0), len(b)
	b = binary.LittleEndian.AppendUint64(b, flags)
	stages := w.header.Schema.Stages
	for i := range stages {
		g := &stages[i]
		switch {
		case !s.Has.Has(i):
		case !g.IsArray():
			flags |= 2 << (2 * i)
			b = g.Type.AppendBits(b, s.Bits[i])
		case !w.full.Has(i) || s.Data[i] == nil || g.Varies && len(s.Data[i]) != g.Size():
			flags |= 1 << (2 * i)
			b = binary.LittleEndian.AppendUint64(b, s.Bits[i])
		case len(s.Data[i]) != g.Size():
			err = fmt.Errorf(
				"%s, step %d: stage %s has %d bytes, want %d", r.name, s.Index, g.Name,
				len(s.Data[i]), g.Size(),
			)
		default:
			flags |= 2 << (2 * i)
			b = append(b, s.Data[i]...)
		}
	}
	binary.LittleEndian.PutUint64(b[place:], flags)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.steps++
	r.put(b, err)
}

// End ends the rollout with what came of it: an error, or the outcome if it is known.
func (r *RolloutWriter) End(outcome []float64, failure error) {
	w := r.writer
	b := binary.LittleEndian.AppendUint32(begin(kindEnd, r.id), r.steps)
	want := len(w.header.Schema.Outcome.Elements)
	var err error
	switch {
	case r.ended:
		err = fmt.Errorf("%s: ended twice", r.name)
	case failure != nil:
		text := failure.Error()
		b = append(append(b, endError), text[:min(len(text), 1<<16)]...)
	case outcome == nil:
		b = append(b, 0)
	case len(outcome) != want:
		err = fmt.Errorf("%s: an outcome of %d numbers, want %d", r.name, len(outcome), want)
	default:
		b = append(append(b, endOutcome), schema.Bytes(outcome)...)
	}
	r.ended = true
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.open--
	r.put(b, err)
}
