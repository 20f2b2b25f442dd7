package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"lockstep/internal/fileio"
)

// A File is a trace of which every step's digest is in memory, some 100 bytes each,
// and whose full values are read when they are asked for.
type File struct {
	Name     string
	Header   Header
	Rollouts []*Recording

	// Hashed are the stages of which the file holds somewhere only a digest, so
	// that it can be compared only with digests of the same kind.
	Hashed Stages

	hash   Hash
	at     io.ReaderAt
	closer io.Closer
}

// Recording is one rollout of a file.
type Recording struct {
	Rollout
	End     End
	Digests []Digest

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

// Rehash computes the digests of the arrays that are held in full anew, with another
// hash. It is an error if there are others.
func (f *File) Rehash(h Hash) error {
	if h == f.hash {
		return nil
	}
	if f.Hashed != 0 {
		return fmt.Errorf("%s holds digests of kind %s, not %s: write it again with the other, or in full", f.Name, f.hash, h)
	}
	return f.index(&h)
}

func (f *File) index(rehash *Hash) error {
	r, err := NewReader(io.NewSectionReader(f.at, 0, 1<<62), f.Name)
	if err != nil {
		return err
	}
	f.Header, f.Rollouts, f.Hashed, f.hash = r.Header(), nil, 0, r.hash
	var other Step
	for {
		record, err := r.Next()
		if err == io.EOF {
			if rehash != nil {
				f.hash = *rehash
			}
			return nil
		} else if err != nil {
			return err
		}
		switch {
		case record.Rollout != nil:
			f.Rollouts = append(f.Rollouts, &Recording{Rollout: *record.Rollout})
		case record.Step != nil:
			s, run := record.Step, f.Rollouts[record.ID]
			if rehash != nil {
				other = *s
				other.Sum(*rehash)
				s = &other
			}
			f.Hashed |= s.Has & Arrays &^ s.full()
			run.Digests = append(run.Digests, s.Digest)
			run.offsets = append(run.offsets, record.Offset)
		case record.End != nil:
			run := f.Rollouts[record.ID]
			run.End = *record.End
			if rehash != nil {
				rolling := uint64(0)
				for i := range run.Digests {
					rolling = rehash.Roll(rolling, &run.Digests[i])
				}
				run.End.Rolling = (*Hex)(&rolling)
			}
		}
	}
}

// full are the stages whose arrays are there.
func (s *Step) full() (set Stages) {
	lengths := [...]int{Tokens: len(s.Tokens), States: len(s.States), Logits: len(s.Logits), Probs: len(s.Probs), CDF: len(s.CDF)}
	for stage, n := range lengths {
		if n > 0 {
			set |= Set(Stage(stage))
		}
	}
	return set
}

// Digest is the kind of the digests in memory.
func (f *File) Digest() Hash { return f.hash }

// Step reads the i-th step of a rollout, with the arrays that the file holds in full.
func (f *File) Step(r *Recording, i int) (*Step, error) {
	fail := func(err error) (*Step, error) {
		return nil, fmt.Errorf("%s: step %d of %s at offset %d: %w", f.Name, r.Digests[i].Index, r.Key(), r.offsets[i], err)
	}
	var head [5]byte
	if _, err := f.at.ReadAt(head[:], r.offsets[i]); err != nil {
		return fail(cut(err))
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if head[0] != kindStep || n < 4 || n > maxRecord {
		return fail(errors.New("the file has changed since it was opened"))
	}
	payload := make([]byte, n)
	if _, err := f.at.ReadAt(payload, r.offsets[i]+int64(len(head))); err != nil {
		return fail(cut(err))
	}
	s := new(Step)
	if err := decodeStep(s, payload[4:], f.hash, 0); err != nil {
		return fail(err)
	}
	if s.Index != r.Digests[i].Index || s.Has != r.Digests[i].Has {
		return fail(errors.New("the file has changed since it was opened"))
	}
	s.Digest = r.Digests[i]
	return s, nil
}

// Close closes the file.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}
