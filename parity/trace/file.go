package trace

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"lockstep/internal/fileio"
	"lockstep/parity/schema"
)

// A File is a trace of which every step's digests are in memory, and whose full values
// are read when they are asked for.
type File struct {
	Name     string
	Header   Header
	Rollouts []*RecordedRollout

	// Hashed are the stages of which the file holds somewhere only a digest, so
	// that it can be compared only with digests of the same kind.
	Hashed schema.StageSet

	hash   schema.Hash // of the digests in memory
	at     io.ReaderAt
	closer io.Closer // nil if at is the caller's
}

// A RecordedRollout is one rollout of a file.
type RecordedRollout struct {
	Rollout
	End     End
	Digests schema.Digests

	offsets []int64 // of the step records
	last    int     // step
	ended   bool
}

// Open reads a file and keeps it open.
func Open(path string) (*File, error) {
	f, err := fileio.Open(path, fileio.Trace)
	if err != nil {
		return nil, err
	}
	t, err := NewFile(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	t.closer = f
	return t, nil
}

// NewFile reads a trace from its beginning to its end. The reader stays the caller's.
func NewFile(at io.ReaderAt, name string) (*File, error) {
	f := &File{Name: name, at: at}
	if err := f.index(nil); err != nil {
		return nil, err
	}
	return f, nil
}

// Digest is the kind of the digests in memory.
func (f *File) Digest() schema.Hash { return f.hash }

// ErrHashed is in the error of a recording that can have no digests of another kind.
var ErrHashed = errors.New("not all arrays in full")

// Rehash computes the digests of the arrays that are held in full anew, with another
// hash. It is ErrHashed if there are others.
func (f *File) Rehash(h schema.Hash) error {
	if h == f.hash {
		return nil
	}
	if f.Hashed != 0 {
		return fmt.Errorf(
			"%s holds digests of kind %s, not %s, and %w: record it again in full "+
				"(--trace-values), or with digests of that kind",
			f.Name, f.hash, h, ErrHashed,
		)
	}
	return f.index(&h)
}

// Step reads the i-th step of a rollout, with the arrays that the file holds in full.
func (f *File) Step(r *RecordedRollout, i int) (*schema.Step, error) {
	known, s := r.Digests.At(i), f.Header.Schema.NewStep()
	record, err := readRecord(io.NewSectionReader(f.at, r.offsets[i], 1<<62), nil)
	if err == nil && record[0] == kindStep {
		err = decodeStep(&f.Header.Schema, s, record[payload+4:])
		s.Sum(f.hash)
	}
	if err == nil &&
		(record[0] != kindStep || s.Index != known.Index ||
			s.Has != known.Has || !slices.Equal(s.Bits, known.Bits)) {
		err = errors.New("the file has changed since it was opened")
	}
	if err != nil {
		return nil, fmt.Errorf(
			"%s: step %d of %s at offset %d: %w", f.Name, known.Index, r.Name(), r.offsets[i], err,
		)
	}
	return s, nil
}

// Close closes the file that Open opened.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
