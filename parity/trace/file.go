package trace

import (
	"encoding/binary"
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
	Rollouts []*Run

	// Hashed are the stages of which the file holds somewhere only a digest, so
	// that it can be compared only with digests of the same kind.
	Hashed schema.Set

	hash   schema.Hash // of the digests in memory
	at     io.ReaderAt
	closer io.Closer
}

// A Run is one rollout of a file.
type Run struct {
	Rollout
	End     End
	Digests schema.Digests

	offsets []int64 // of the step records
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

// NewFile reads a trace from its beginning to its end.
func NewFile(at io.ReaderAt, name string) (*File, error) {
	f := &File{Name: name, at: at}
	return f, f.index(nil)
}

// Digest is the kind of the digests in memory.
func (f *File) Digest() schema.Hash { return f.hash }

// Rehash computes the digests of the arrays that are held in full anew, with another
// hash. It is an error if there are others.
func (f *File) Rehash(h schema.Hash) error {
	if h == f.hash {
		return nil
	}
	if f.Hashed != 0 {
		return fmt.Errorf("%s holds digests of kind %s, not %s: write it again with the other, or in full", f.Name, f.hash, h)
	}
	return f.index(&h)
}

func (f *File) index(rehash *schema.Hash) error {
	r, err := NewReader(io.NewSectionReader(f.at, 0, 1<<62), f.Name)
	if err != nil {
		return err
	}
	f.Header, f.Rollouts, f.Hashed, f.hash = *r.Header(), nil, 0, r.Header().Digest
	if rehash != nil {
		f.hash = *rehash
	}
	arrays := f.Header.Schema.Arrays()
	for {
		record, err := r.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case record.Rollout != nil:
			f.Rollouts = append(f.Rollouts, &Run{Rollout: *record.Rollout})
		case record.Step != nil:
			s, run := record.Step, f.Rollouts[record.ID]
			if rehash != nil {
				s.Sum(*rehash)
			}
			for i, data := range s.Data {
				if data == nil {
					f.Hashed |= s.Has & arrays & (1 << i)
				}
			}
			run.Digests.Append(s)
			run.offsets = append(run.offsets, record.Offset)
		case record.End != nil:
			f.Rollouts[record.ID].End = *record.End
		}
	}
}

// Step reads the i-th step of a rollout, with the arrays that the file holds in full.
func (f *File) Step(r *Run, i int) (*schema.Step, error) {
	known := r.Digests.At(i)
	fail := func(err error) (*schema.Step, error) {
		return nil, fmt.Errorf("%s: step %d of %s at offset %d: %w", f.Name, known.Index, r.Name(), r.offsets[i], err)
	}
	changed := errors.New("the file has changed since it was opened")
	var head [5]byte
	if _, err := f.at.ReadAt(head[:], r.offsets[i]); err != nil {
		return fail(cut(err))
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if head[0] != kindStep || n < 4 || n > maxRecord {
		return fail(changed)
	}
	payload := make([]byte, n)
	if _, err := f.at.ReadAt(payload, r.offsets[i]+int64(len(head))); err != nil {
		return fail(cut(err))
	}
	s := f.Header.Schema.NewStep()
	if err := decodeStep(&f.Header.Schema, s, payload[4:]); err != nil {
		return fail(err)
	}
	s.Sum(f.hash)
	if s.Index != known.Index || s.Has != known.Has || !slices.Equal(s.Bits, known.Bits) {
		return fail(changed)
	}
	return s, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
