package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/parity/schema"
)

// A reader reads a trace into a File, and checks it as it does: structure, counts, and at
// its end the checksum.
type reader struct {
	*File
	r      *bufio.Reader
	crc    uint32 // of all that was read
	number int64  // of the record, from 1; 0 is the header
	offset int64  // where it begins
	record []byte
	values *schema.Step
}

// index reads the file from its beginning to its end. It makes digests of the kind that is
// given, else of the header's. On an error f stays as it is.
func (f *File) index(digest *schema.Hash) error {
	r := &reader{
		File: &File{Name: f.Name, at: f.at, closer: f.closer},
		r:    bufio.NewReaderSize(io.NewSectionReader(f.at, 0, 1<<62), 1<<16),
	}
	if err := r.head(); err != nil {
		return r.fail(err)
	}
	if r.hash = r.Header.Digest; digest != nil {
		r.hash = *digest
	}
	for last := false; !last; r.offset += int64(len(r.record)) {
		r.number++
		var err error
		if last, err = r.next(); err != nil {
			return r.fail(err)
		}
	}
	*f = *r.File
	return nil
}

// fail names the file and the record of an error.
func (r *reader) fail(err error) error {
	if r.number == 0 {
		return fmt.Errorf("%s: header: %w", r.Name, err)
	}
	return fmt.Errorf("%s: record %d at offset %d: %w", r.Name, r.number, r.offset, err)
}

// errCut is the end of a file that is too short.
var errCut = errors.New("the file is cut off here")

// fill reads a part of a file.
func fill(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errCut
	}
	return err
}

// head reads all before the records.
func (r *reader) head() error {
	fixed := make([]byte, 16)
	if err := fill(r.r, fixed); string(fixed[:8]) != magic && (err == nil || err == errCut) {
		return fmt.Errorf("not a trace: it does not begin with %q", magic)
	} else if err != nil {
		return err
	}
	if v := binary.LittleEndian.Uint32(fixed[8:]); v != version {
		return fmt.Errorf("version %d of the format, want %d: record it again", v, version)
	}
	n := binary.LittleEndian.Uint32(fixed[12:])
	if n > maxHeader {
		return fmt.Errorf("%d bytes of description, want %d at most", n, maxHeader)
	}
	text := make([]byte, n)
	if err := fill(r.r, text); err != nil {
		return err
	}
	if err := unmarshal(text, &r.Header); err != nil {
		return err
	}
	h := &r.Header
	for _, word := range []*string{&h.Producer, &h.Engine, &h.Profile, &h.ModelSHA256, &h.Comment} {
		*word = printable(*word)
	}
	for i, word := range h.Shortcuts {
		h.Shortcuts[i] = printable(word)
	}
	r.offset = int64(len(fixed) + len(text))
	r.crc = crc32.ChecksumIEEE(append(fixed, text...))
	if err := r.Header.Schema.Validate(); err != nil {
		return err
	}
	r.values = r.Header.Schema.NewStep()
	return nil
}

// readRecord reads a record into a buffer.
func readRecord(r io.Reader, b []byte) ([]byte, error) {
	b = slices.Grow(b[:0], payload)[:payload]
	if err := fill(r, b); err != nil {
		return b, err
	}
	n := binary.LittleEndian.Uint32(b[1:])
	if n < 4 || n > maxRecord {
		return b, fmt.Errorf("a record of %d bytes, want 4 at least and %d at most", n, maxRecord)
	}
	b = slices.Grow(b, int(n))[:payload+n]
	return b, fill(r, b[payload:])
}

// next reads a record, and reports whether it is the last.
func (r *reader) next() (last bool, err error) {
	if r.record, err = readRecord(r.r, r.record); err != nil {
		return false, err
	}
	end := len(r.record) - 4
	crc := crc32.Update(r.crc, crc32.IEEETable, r.record[:end])
	r.crc = crc32.Update(crc, crc32.IEEETable, r.record[end:])
	id, rest := binary.LittleEndian.Uint32(r.record[payload:]), r.record[payload+4:]
	switch kind := r.record[0]; {
	case kind == kindClose:
		return true, r.close(id, rest, crc)
	case kind == kindBegin:
		return false, r.begin(id, rest)
	case int64(id) >= int64(len(r.Rollouts)) || r.Rollouts[id].ended:
		return false, fmt.Errorf("rollout %d is not under way", id)
	case kind == kindStep:
		return false, r.step(r.Rollouts[id], rest)
	case kind == kindEnd:
		return false, r.end(r.Rollouts[id], rest)
	default:
		return false, fmt.Errorf("a record of unknown kind %q", kind)
	}
}

// printable is a text of a stranger's with what a terminal would obey escaped as in Go.
func printable(text string) string {
	if utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

func (r *reader) begin(id uint32, text []byte) error {
	if int64(id) != int64(len(r.Rollouts)) {
		return fmt.Errorf("rollout %d begins, want %d next", id, len(r.Rollouts))
	}
	run := &RecordedRollout{last: -1}
	if err := unmarshal(text, &run.Rollout); err != nil {
		return err
	}
	for i, word := range run.Key {
		run.Key[i] = printable(word)
	}
	inputs := make(map[string]string, len(run.Inputs))
	for name, text := range run.Inputs {
		inputs[printable(name)] = printable(text)
	}
	run.Inputs = inputs
	if want := r.Header.Schema.Key; len(run.Key) != len(want) {
		return fmt.Errorf("a key of %d words, want %.100s", len(run.Key), fmt.Sprint(want))
	}
	r.Rollouts = append(r.Rollouts, run)
	return nil
}

func (r *reader) step(run *RecordedRollout, rest []byte) error {
	s := r.values
	if err := decodeStep(&r.Header.Schema, s, rest); err != nil {
		return err
	}
	if s.Index <= run.last {
		return fmt.Errorf("step %d after step %d", s.Index, run.last)
	}
	for i, data := range s.Data {
		if data == nil && r.Header.Schema.Stages[i].IsArray() {
			r.Hashed |= s.Has & (1 << i)
		}
	}
	s.Sum(r.hash)
	run.last = s.Index
	run.Digests.Append(s)
	run.offsets = append(run.offsets, r.offset)
	return nil
}

func (r *reader) end(run *RecordedRollout, p []byte) error {
	if len(p) < 5 {
		return errors.New("an end record that is too short")
	}
	steps, has, rest := int(binary.LittleEndian.Uint32(p)), p[4], p[5:]
	switch {
	case steps != run.Digests.Len():
		return fmt.Errorf(
			"%.40s ends after %d steps, the trace holds %d", run.Name(), steps, run.Digests.Len(),
		)
	case has == endOutcome && len(rest) == 8*len(r.Header.Schema.Outcome.Elements):
		run.End.Outcome = append([]float64{}, schema.Elements[float64](rest)...)
	case has == endError:
		run.End.Error = cmp.Or(printable(string(rest)), "unknown error")
	case has != 0 || len(rest) != 0:
		return fmt.Errorf("an end record of %d bytes after flags %02x", len(rest), has)
	}
	run.End.Steps, run.ended = steps, true
	return nil
}

// close checks the end of the file: the numbers of rollouts and steps, and the checksum of
// all before it.
func (r *reader) close(rollouts uint32, rest []byte, crc uint32) error {
	if len(rest) != 12 {
		return fmt.Errorf("an end of %d bytes, want 16", 4+len(rest))
	}
	n, want := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint32(rest[8:])
	steps := uint64(0)
	for id, run := range r.Rollouts {
		if !run.ended {
			return fmt.Errorf("rollout %d was not ended", id)
		}
		steps += uint64(run.Digests.Len())
	}
	switch {
	case int64(rollouts) != int64(len(r.Rollouts)):
		return fmt.Errorf("the trace holds %d rollouts, its end says %d", len(r.Rollouts), rollouts)
	case n != steps:
		return fmt.Errorf("the trace holds %d steps, its end says %d", steps, n)
	case want != crc:
		return fmt.Errorf("the file is damaged: its checksum is %08x, its end says %08x", crc, want)
	}
	if _, err := r.r.ReadByte(); err == nil {
		return errors.New("more follows after the end of the trace")
	} else if err != io.EOF {
		return err
	}
	return nil
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
			return fmt.Errorf(
				"stage %.60s: %d bytes are left of the record, want %d", g.Name, len(p), size,
			)
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
