package trace

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"lockstep"
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

// End is the end of a rollout.
type End struct {
	Steps   int             // number of its step records
	Costs   *lockstep.Costs // nil if not known
	Rolling *Hex            // the rolling hash, nil if the writer gave none
	Error   string          // not empty if the rollout failed
}

// A Record is one record of a trace: of its three pointers one is set.
type Record struct {
	ID      int // of the rollout
	Offset  int64
	Rollout *Rollout
	Step    *Step // valid until the next record is read
	End     *End
}

// A Reader reads a trace record by record, and checks it as it does: structure,
// counts, rolling hashes.
type Reader struct {
	name   string
	r      *bufio.Reader
	header Header
	hash   Hash

	record  int64
	offset  int64 // of the next record
	begun   int64 // of the current one
	payload []byte
	step    Step
	steps   uint64
	running []progress // by rollout
	done    bool
}

// progress is what a reader remembers of a rollout.
type progress struct {
	steps   uint32
	last    int32
	rolling uint64
	ended   bool
}

// NewReader reads the header. The name is the file's, for errors.
func NewReader(r io.Reader, name string) (*Reader, error) {
	t := &Reader{name: name, r: bufio.NewReaderSize(r, 1<<16)}
	var fixed [16]byte
	if _, err := io.ReadFull(t.r, fixed[:]); err != nil || string(fixed[:8]) != magic {
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("not a trace: it does not begin with " + fmt.Sprintf("%q", magic))
		}
		return nil, t.fail(err)
	}
	if v := binary.LittleEndian.Uint32(fixed[8:]); v != version {
		return nil, t.fail(fmt.Errorf("version %d of the format, want %d", v, version))
	}
	n := binary.LittleEndian.Uint32(fixed[12:])
	if n > maxHeader {
		return nil, t.fail(fmt.Errorf("%d bytes of description, want %d at most", n, maxHeader))
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(t.r, text); err != nil {
		return nil, t.fail(cut(err))
	}
	if err := unmarshal(text, &t.header); err != nil {
		return nil, t.fail(err)
	}
	t.hash = t.header.Digest
	t.offset = int64(len(fixed)) + int64(n)
	return t, nil
}

// Header is the trace's.
func (t *Reader) Header() Header { return t.header }

// unmarshal decodes JSON. Its error is a line, however long the value that does
// not fit.
func unmarshal(data []byte, to any) error {
	err := json.Unmarshal(data, to)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.Value = fmt.Sprintf("%.60s", e.Value)
	}
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
	r, err := t.next()
	if err == io.EOF && t.done {
		return Record{}, io.EOF
	} else if err != nil {
		return Record{}, t.fail(cut(err))
	}
	return r, nil
}

func (t *Reader) next() (Record, error) {
	var head [5]byte
	if _, err := io.ReadFull(t.r, head[:]); err != nil {
		return Record{}, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxRecord {
		return Record{}, fmt.Errorf("a record of %d bytes, want %d at most", n, maxRecord)
	}
	if n < 4 {
		return Record{}, fmt.Errorf("a record of %d bytes, want 4 at least", n)
	}
	if int(n) > cap(t.payload) {
		t.payload = make([]byte, n)
	}
	p := t.payload[:n]
	if _, err := io.ReadFull(t.r, p); err != nil {
		return Record{}, err
	}
	t.offset += int64(len(head)) + int64(n)
	id := binary.LittleEndian.Uint32(p)
	rest := p[4:]
	if head[0] == kindClose {
		return Record{}, t.close(id, rest)
	}
	record := Record{ID: int(id), Offset: t.begun}
	if head[0] == kindBegin {
		if int(id) != len(t.running) {
			return Record{}, fmt.Errorf("rollout %d begins, want %d next", id, len(t.running))
		}
		t.running = append(t.running, progress{last: -1})
		record.Rollout = new(Rollout)
		if err := unmarshal(rest, record.Rollout); err != nil {
			return Record{}, err
		}
		if c := record.Rollout.Columns; c != nil && len(c) != 5 {
			return Record{}, fmt.Errorf("hashes of %d columns, want 5", len(c))
		}
		return record, nil
	}
	if int64(id) >= int64(len(t.running)) || t.running[id].ended {
		return Record{}, fmt.Errorf("rollout %d is not under way", id)
	}
	run := &t.running[id]
	switch head[0] {
	case kindStep:
		if err := decodeStep(&t.step, rest, t.hash, AllStages); err != nil {
			return Record{}, err
		}
		if t.step.Index <= run.last {
			return Record{}, fmt.Errorf("step %d after step %d", t.step.Index, run.last)
		}
		run.last = t.step.Index
		run.rolling = t.hash.Roll(run.rolling, &t.step.Digest)
		run.steps++
		t.steps++
		record.Step = &t.step
	case kindEnd:
		end, err := decodeEnd(rest)
		if err != nil {
			return Record{}, err
		}
		if end.Steps != int(run.steps) {
			return Record{}, fmt.Errorf("rollout %d ends after %d steps, the trace holds %d", id, end.Steps, run.steps)
		}
		if end.Rolling != nil && uint64(*end.Rolling) != run.rolling {
			return Record{}, fmt.Errorf("rollout %d has rolling hash %016x, its end says %016x", id, run.rolling, uint64(*end.Rolling))
		}
		run.ended = true
		end.Rolling = (*Hex)(&run.rolling)
		record.End = end
	default:
		return Record{}, fmt.Errorf("a record of unknown kind %q", head[0])
	}
	return record, nil
}

// close checks the record that ends the file; all well it returns io.EOF.
func (t *Reader) close(rollouts uint32, rest []byte) error {
	if len(rest) != 8 {
		return fmt.Errorf("an end of %d bytes, want 12", 4+len(rest))
	}
	if int64(rollouts) != int64(len(t.running)) {
		return fmt.Errorf("the trace holds %d rollouts, its end says %d", len(t.running), rollouts)
	}
	if n := binary.LittleEndian.Uint64(rest); n != t.steps {
		return fmt.Errorf("the trace holds %d steps, its end says %d", t.steps, n)
	}
	for id, run := range t.running {
		if !run.ended {
			return fmt.Errorf("rollout %d was not ended", id)
		}
	}
	if _, err := t.r.ReadByte(); err == nil {
		return errors.New("more follows after the end of the trace")
	} else if err != io.EOF {
		return err
	}
	t.done = true
	return io.EOF
}

// decodeStep decodes a step's payload after the rollout. Digests of arrays are
// computed for the stages given.
func decodeStep(s *Step, p []byte, h Hash, sums Stages) error {
	if len(p) < 8 {
		return errors.New("a step record that is too short")
	}
	index, flags := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:])
	p = p[8:]
	if index > math.MaxInt32 {
		return fmt.Errorf("step %d", index)
	}
	*s = Step{
		Digest: Digest{Index: int32(index)},
		Tokens: s.Tokens[:0], States: s.States[:0], Logits: s.Logits[:0], Probs: s.Probs[:0], CDF: s.CDF[:0],
	}
	if flags&^(1<<(2*Lataccel+2)-1) != 0 || flags&3 != 0 {
		return fmt.Errorf("flags %08x name stages that are not known", flags)
	}
	var err error
	take := func(stage Stage, n int) []byte {
		if err == nil && len(p) < n {
			err = fmt.Errorf("stage %s: %d bytes are left of the record, want %d", stage, len(p), n)
		}
		if err != nil {
			return make([]byte, 8) // for scalars; arrays look at err
		}
		s.Has |= Set(stage)
		data := p[:n]
		p = p[n:]
		return data
	}
	for stage := Action; stage <= Lataccel && err == nil; stage++ {
		mode := flags >> (2 * stage) & 3
		isArray := Arrays.Has(stage)
		switch {
		case mode == 0:
		case mode == 1 && isArray:
			*s.digest(stage) = binary.LittleEndian.Uint64(take(stage, 8))
		case mode == 2 && isArray:
			data := take(stage, shapes[stage].length*shapes[stage].size)
			if err != nil {
				break
			}
			if sums.Has(stage) {
				*s.digest(stage) = h.Bytes(data)
			}
			switch stage {
			case Tokens:
				s.Tokens = decodeArray(s.Tokens, data, 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
			case States:
				s.States = decodeArray(s.States, data, 4, float32At)
			case Logits:
				s.Logits = decodeArray(s.Logits, data, 4, float32At)
			case Probs:
				s.Probs = decodeArray(s.Probs, data, 4, float32At)
			case CDF:
				s.CDF = decodeArray(s.CDF, data, 8, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) })
			}
		case mode == 2:
			s.setScalar(stage, binary.LittleEndian.Uint64(take(stage, 8)))
		default:
			err = fmt.Errorf("stage %s cannot be held in mode %d", stage, mode)
		}
	}
	if err == nil && len(p) > 0 {
		err = fmt.Errorf("%d bytes too many in a step record", len(p))
	}
	return err
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func decodeArray[T number](into []T, data []byte, size int, at func([]byte) T) []T {
	for ; len(data) > 0; data = data[size:] {
		into = append(into, at(data))
	}
	return into
}

// digest is the place of an array's digest.
func (d *Digest) digest(s Stage) *uint64 {
	switch s {
	case Tokens:
		return &d.Tokens
	case States:
		return &d.States
	case Logits:
		return &d.Logits
	case Probs:
		return &d.Probs
	case CDF:
		return &d.CDF
	}
	panic("trace: not an array")
}

func (d *Digest) setScalar(s Stage, bits uint64) {
	switch s {
	case Action:
		d.Action = math.Float64frombits(bits)
	case Draw:
		d.Draw = math.Float64frombits(bits)
	case Sample:
		d.Sample = int64(bits)
	case Prediction:
		d.Prediction = math.Float64frombits(bits)
	case Lataccel:
		d.Lataccel = math.Float64frombits(bits)
	}
}

func decodeEnd(p []byte) (*End, error) {
	if len(p) < 5 {
		return nil, errors.New("an end record that is too short")
	}
	end := &End{Steps: int(binary.LittleEndian.Uint32(p))}
	has := p[4]
	p = p[5:]
	want := 0
	if has&endCosts != 0 {
		want += 24
	}
	if has&endRolling != 0 {
		want += 8
	}
	if has&^(endCosts|endRolling|endError) != 0 || len(p) < want || len(p) > want && has&endError == 0 {
		return nil, fmt.Errorf("an end record of %d bytes after flags %02x", len(p), has)
	}
	if has&endCosts != 0 {
		cost := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(p[8*i:])) }
		end.Costs = &lockstep.Costs{Lataccel: cost(0), Jerk: cost(1), Total: cost(2)}
		p = p[24:]
	}
	if has&endRolling != 0 {
		end.Rolling = new(Hex)
		*end.Rolling = Hex(binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	if has&endError != 0 {
		if end.Error = string(p); end.Error == "" {
			end.Error = "unknown error"
		}
	}
	return end, nil
}
