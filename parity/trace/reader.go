package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"lockstep/parity/schema"
)

// An Error is a fault of a trace file. Record counts the records from 1; 0 is the
// header. Offset is where the record begins.
type Error struct {
	File   string
	Record int64
	Offset int64
	Err    error
}

func (e *Error) Error() string {
	if e.Record == 0 {
		return fmt.Sprintf("%s: header: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: record %d at offset %d: %v", e.File, e.Record, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// A Record is one record of a trace: of its three pointers one is set.
type Record struct {
	ID      int // of the rollout
	Offset  int64
	Rollout *Rollout
	Step    *schema.Step // valid until the next record is read
	End     *End
}

// A Reader reads a trace record by record, and checks it as it does: structure,
// counts, and at its end the checksum.
type Reader struct {
	name   string
	r      *bufio.Reader
	header Header

	crc     uint32 // of all that was read
	record  int64
	offset  int64 // of the next record
	begun   int64 // of the current one
	payload []byte
	step    *schema.Step
	steps   uint64
	running []progress // by rollout
	done    bool
}

// progress is what a reader remembers of a rollout.
type progress struct {
	steps uint32
	last  int32
	ended bool
}

// NewReader reads the header. The name is the file's, for errors.
func NewReader(r io.Reader, name string) (*Reader, error) {
	t := &Reader{name: name, r: bufio.NewReaderSize(r, 1<<16)}
	var fixed [16]byte
	if err := t.read(fixed[:]); err != nil || string(fixed[:8]) != magic {
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("not a trace: it does not begin with " + fmt.Sprintf("%q", magic))
		}
		return nil, t.fail(err)
	}
	if v := binary.LittleEndian.Uint32(fixed[8:]); v != version {
		return nil, t.fail(fmt.Errorf("version %d of the format, want %d: record it again", v, version))
	}
	n := binary.LittleEndian.Uint32(fixed[12:])
	if n > maxHeader {
		return nil, t.fail(fmt.Errorf("%d bytes of description, want %d at most", n, maxHeader))
	}
	text := make([]byte, n)
	if err := t.read(text); err != nil {
		return nil, t.fail(cut(err))
	}
	if err := unmarshal(text, &t.header); err != nil {
		return nil, t.fail(err)
	}
	if err := t.header.Schema.Validate(); err != nil {
		return nil, t.fail(err)
	}
	t.step = t.header.Schema.NewStep()
	t.offset = int64(len(fixed)) + int64(n)
	return t, nil
}

// Header is the trace's.
func (t *Reader) Header() *Header { return &t.header }

// read reads bytes and goes on with the checksum.
func (t *Reader) read(b []byte) error {
	_, err := io.ReadFull(t.r, b)
	t.crc = crc32.Update(t.crc, crc32.IEEETable, b)
	return err
}

// cut names the end of a file that is too short.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file is cut off here")
	}
	return err
}

func (t *Reader) fail(err error) error {
	return &Error{File: t.name, Record: t.record, Offset: t.begun, Err: err}
}

// Next returns the next record. At the end of a trace that is whole the error is
// io.EOF.
func (t *Reader) Next() (Record, error) {
	if t.done {
		return Record{}, io.EOF
	}
	t.record++
	t.begun = t.offset
	r := Record{Offset: t.begun}
	if err := t.next(&r); err == io.EOF && t.done {
		return Record{}, io.EOF
	} else if err != nil {
		return Record{}, t.fail(cut(err))
	}
	return r, nil
}

func (t *Reader) next(r *Record) error {
	var head [5]byte
	if err := t.read(head[:]); err != nil {
		return err
	}
	kind, n := head[0], binary.LittleEndian.Uint32(head[1:])
	if n < 4 || n > maxRecord {
		return fmt.Errorf("a record of %d bytes, want 4 at least and %d at most", n, maxRecord)
	}
	if kind == kindClose {
		return t.close(n)
	}
	t.payload = slices.Grow(t.payload[:0], int(n))[:n]
	if err := t.read(t.payload); err != nil {
		return err
	}
	t.offset += int64(len(head)) + int64(n)
	id, rest := binary.LittleEndian.Uint32(t.payload), t.payload[4:]
	r.ID = int(id)
	if kind == kindBegin {
		return t.begin(r, rest)
	}
	if int64(id) >= int64(len(t.running)) || t.running[id].ended {
		return fmt.Errorf("rollout %d is not under way", id)
	}
	run := &t.running[id]
	switch kind {
	case kindStep:
		if err := decodeStep(&t.header.Schema, t.step, rest); err != nil {
			return err
		}
		t.step.Sum(t.header.Digest)
		if int32(t.step.Index) <= run.last {
			return fmt.Errorf("step %d after step %d", t.step.Index, run.last)
		}
		run.last = int32(t.step.Index)
		run.steps++
		t.steps++
		r.Step = t.step
	case kindEnd:
		end, err := decodeEnd(rest, len(t.header.Schema.Outcome.Elements))
		if err != nil {
			return err
		}
		if end.Steps != int(run.steps) {
			return fmt.Errorf("rollout %d ends after %d steps, the trace holds %d", id, end.Steps, run.steps)
		}
		run.ended = true
		r.End = end
	default:
		return fmt.Errorf("a record of unknown kind %q", kind)
	}
	return nil
}

func (t *Reader) begin(r *Record, text []byte) error {
	if r.ID != len(t.running) {
		return fmt.Errorf("rollout %d begins, want %d next", r.ID, len(t.running))
	}
	r.Rollout = new(Rollout)
	if err := unmarshal(text, r.Rollout); err != nil {
		return err
	}
	if want := t.header.Schema.Key; len(r.Rollout.Key) != len(want) {
		return fmt.Errorf("a key of %d words, want %.100s", len(r.Rollout.Key), fmt.Sprint(want))
	}
	t.running = append(t.running, progress{last: -1})
	return nil
}

// close checks the record of n bytes that ends the file; all well it returns io.EOF.
func (t *Reader) close(n uint32) error {
	var counts [12]byte
	var sum [4]byte
	if n != uint32(len(counts)+len(sum)) {
		return fmt.Errorf("an end of %d bytes, want %d", n, len(counts)+len(sum))
	}
	if err := t.read(counts[:]); err != nil {
		return err
	}
	crc := t.crc
	if err := t.read(sum[:]); err != nil {
		return err
	}
	if rollouts := binary.LittleEndian.Uint32(counts[:]); int64(rollouts) != int64(len(t.running)) {
		return fmt.Errorf("the trace holds %d rollouts, its end says %d", len(t.running), rollouts)
	}
	if n := binary.LittleEndian.Uint64(counts[4:]); n != t.steps {
		return fmt.Errorf("the trace holds %d steps, its end says %d", t.steps, n)
	}
	for id, run := range t.running {
		if !run.ended {
			return fmt.Errorf("rollout %d was not ended", id)
		}
	}
	if want := binary.LittleEndian.Uint32(sum[:]); want != crc {
		return fmt.Errorf("the file is damaged: its checksum is %08x, its end says %08x", crc, want)
	}
	if _, err := t.r.ReadByte(); err == nil {
		return errors.New("more follows after the end of the trace")
	} else if err != io.EOF {
		return err
	}
	t.done = true
	return io.EOF
}

// decodeStep decodes a step's payload after the rollout. Data aliases it; digests of
// what is there in full are left to Sum.
func decodeStep(s *schema.Schema, to *schema.Step, p []byte) error {
	if len(p) < 12 {
		return errors.New("a step record that is too short")
	}
	index, flags := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint64(p[4:])
	p = p[12:]
	if index > math.MaxInt32 {
		return fmt.Errorf("step %d", index)
	}
	if n := 2 * len(s.Stages); n < 64 && flags>>n != 0 {
		return fmt.Errorf("flags %016x name stages that are not in the schema", flags)
	}
	to.Clear()
	to.Index = int(index)
	for i := range s.Stages {
		g, mode := &s.Stages[i], flags>>(2*i)&3
		size := g.Size()
		switch {
		case mode == 0:
			continue
		case mode == 1 && g.IsArray():
			size = 8
		case mode != 2:
			return fmt.Errorf("stage %.60s cannot be held in mode %d", g.Name, mode)
		}
		if len(p) < size {
			return fmt.Errorf("stage %.60s: %d bytes are left of the record, want %d", g.Name, len(p), size)
		}
		data := p[:size:size]
		p = p[size:]
		to.Has |= 1 << i
		switch {
		case mode == 1:
			to.Bits[i] = binary.LittleEndian.Uint64(data)
		case g.IsArray():
			to.Data[i] = data
		default:
			to.Bits[i] = g.Type.Bits(data)
		}
	}
	if len(p) > 0 {
		return fmt.Errorf("%d bytes too many in a step record", len(p))
	}
	return nil
}

// decodeEnd decodes an end's payload after the rollout.
func decodeEnd(p []byte, outcome int) (*End, error) {
	if len(p) < 5 {
		return nil, errors.New("an end record that is too short")
	}
	end, has, rest := &End{Steps: int(binary.LittleEndian.Uint32(p))}, p[4], p[5:]
	switch {
	case has == endOutcome && len(rest) == 8*outcome:
		end.Outcome = append([]float64{}, schema.Elements[float64](rest)...)
	case has == endError:
		if end.Error = string(rest); end.Error == "" {
			end.Error = "unknown error"
		}
	case has != 0 || len(rest) != 0:
		return nil, fmt.Errorf("an end record of %d bytes after flags %02x", len(rest), has)
	}
	return end, nil
}
