package schema

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// Hash is the function that makes digests of arrays.
type Hash uint8

const (
	XXH64  Hash = iota // XXH64 with seed 0
	SHA256             // the first 8 bytes of SHA-256, as golden.Hash
	XXH3               // XXH3 of 64 bits, without a seed or secret
)

var hashNames = [...]string{"xxh64", "sha256", "xxh3"}

func (h Hash) String() string { return hashNames[h] }

// MarshalText and UnmarshalText make the name the JSON form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	at := slices.Index(hashNames[:], string(text))
	if at < 0 {
		return fmt.Errorf(
			"digest %.60q is not known, want one of %s", text, strings.Join(hashNames[:], ", "),
		)
	}
	*h = Hash(at)
	return nil
}

// Bytes is the digest of an array that lies in memory as it would in a file.
func (h Hash) Bytes(data []byte) uint64 {
	switch h {
	case SHA256:
		sum := sha256.Sum256(data)
		return binary.BigEndian.Uint64(sum[:])
	case XXH3:
		return xxh3.Hash(data)
	}
	return xxhash.Sum64(data)
}

// A Step is the values of one step, in the order of the schema's stages.
type Step struct {
	Index int
	Has   StageSet // the stages that are known

	// Bits are 64 bits for each stage: a number's pattern, or an array's digest.
	Bits []uint64

	// Data are the elements of the arrays that are known in full, little-endian.
	Data [][]byte
}

// NewStep makes a step without values.
func (s *Schema) NewStep() *Step {
	return &Step{Bits: make([]uint64, len(s.Stages)), Data: make([][]byte, len(s.Stages))}
}

// Clear takes all values out.
func (s *Step) Clear() {
	s.Has = 0
	clear(s.Bits)
	clear(s.Data)
}

// Sum computes the digests of the arrays that are there in full.
func (s *Step) Sum(h Hash) {
	for i, data := range s.Data {
		if data != nil {
			s.Bits[i] = h.Bytes(data)
			s.Has |= 1 << i
		}
	}
}

// Clone copies the step and its arrays.
func (s *Step) Clone() *Step {
	c := &Step{Index: s.Index, Has: s.Has, Bits: slices.Clone(s.Bits), Data: slices.Clone(s.Data)}
	for i := range c.Data {
		c.Data[i] = slices.Clone(c.Data[i])
	}
	return c
}

// Roll continues the rolling hash of a rollout, which is 0 before the first step, with a
// step: the digest of the hash before, u64; the step, u32; and for each known stage, in
// order, the digest of its name and its 64 bits, both u64. So a stage that a rollout does
// not have leaves its hash as it was before there was such a stage.
func (s *Schema) Roll(h Hash, rolling uint64, step *Step) uint64 {
	var b [12 + 16*MaxStages]byte
	data := binary.LittleEndian.AppendUint64(b[:0], rolling)
	data = binary.LittleEndian.AppendUint32(data, uint32(step.Index))
	for i, bits := range step.Bits {
		if step.Has.Has(i) {
			data = binary.LittleEndian.AppendUint64(data, xxhash.Sum64String(s.Stages[i].Name))
			data = binary.LittleEndian.AppendUint64(data, bits)
		}
	}
	return h.Bytes(data)
}

// A View is a Schema, and where the values of its stages lie in steps of type S.
type View[S any] struct {
	Schema
	fields []Field[S]
}

// A Field is one stage of a View.
type Field[S any] struct {
	stage Stage
	get   func(from S, at int, to *Step)
}

// Number is a stage that is a number. get reports whether a step has it.
func Number[S any, T number](stage Stage, get func(S) (T, bool)) Field[S] {
	stage.Type = TypeOf[T]()
	return Field[S]{stage, func(from S, at int, to *Step) {
		if x, ok := get(from); ok {
			to.Bits[at] = bitsOf(x)
			to.Has |= 1 << at
		}
	}}
}

// Array is a stage that is an array. A step for which get returns nothing lacks it.
func Array[S any, T number](stage Stage, get func(S) []T) Field[S] {
	stage.Type = TypeOf[T]()
	return Field[S]{stage, func(from S, at int, to *Step) { to.Data[at] = Bytes(get(from)) }}
}

// NewView completes a schema with its stages. It panics if the schema is none.
func NewView[S any](s Schema, fields ...Field[S]) *View[S] {
	v := &View[S]{s, fields}
	for _, f := range fields {
		v.Stages = append(v.Stages, f.stage)
	}
	if err := v.Validate(); err != nil {
		panic(err)
	}
	return v
}

// Expose sets a step to what the simulator's own holds, without allocation: arrays are
// aliased, and their digests are left to Step.Sum.
func (v *View[S]) Expose(index int, from S, to *Step) {
	to.Clear()
	to.Index = index
	for i := range v.fields {
		v.fields[i].get(from, i, to)
	}
}

// Digests are the steps of a rollout without their arrays, 8 bytes and 8 for each stage.
type Digests struct {
	width int      // of a row
	rows  []uint64 // of each step its index and below 32 bits what it has, and its bits
}

// Len is the number of steps.
func (d *Digests) Len() int { return len(d.rows) / max(d.width, 1) }

// Append adds a step.
func (d *Digests) Append(s *Step) {
	d.width = 1 + len(s.Bits)
	d.rows = append(append(d.rows, uint64(s.Index)<<32|uint64(s.Has)), s.Bits...)
}

// At is the i-th step. It aliases the digests.
func (d *Digests) At(i int) *Step {
	row := d.rows[i*d.width : (i+1)*d.width]
	return &Step{
		Index: int(int64(row[0]) >> 32),
		Has:   StageSet(row[0]),
		Bits:  row[1:],
		Data:  make([][]byte, d.width-1),
	}
}
