package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/cespare/xxhash/v2"

	"lockstep"
)

// Hash is the function that makes digests of arrays.
type Hash uint8

const (
	XXH64  Hash = iota // XXH64 with seed 0
	SHA256             // the first 8 bytes of SHA-256, as golden.Hash
)

var hashNames = [...]string{"xxh64", "sha256"}

func (h Hash) String() string { return hashNames[h] }

// MarshalText and UnmarshalText make the name the JSON form.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (h *Hash) UnmarshalText(text []byte) error {
	for i, name := range hashNames {
		if name == string(text) {
			*h = Hash(i)
			return nil
		}
	}
	return fmt.Errorf("digest %.60q is not known, want xxh64 or sha256", text)
}

// Bytes is the digest of an array that lies in memory as it would in a file.
func (h Hash) Bytes(data []byte) uint64 {
	if h == SHA256 {
		sum := sha256.Sum256(data)
		return binary.BigEndian.Uint64(sum[:])
	}
	return xxhash.Sum64(data)
}

// littleEndian tells whether memory can be hashed and written as it lies.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// number is any type that an array consists of.
type number interface{ float32 | float64 | int64 }

// bytesOf is an array's little-endian form. It may alias the array.
func bytesOf[T number](a []T) []byte {
	if len(a) == 0 {
		return nil
	}
	if !littleEndian {
		data, _ := binary.Append(nil, binary.LittleEndian, a)
		return data
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&a[0])), len(a)*int(unsafe.Sizeof(a[0])))
}

// Digest is a step in less than 100 bytes: its scalars, and the digests of its
// arrays.
type Digest struct {
	Index int32  // step
	Has   Stages // the stages that are known

	Action     float64
	Draw       float64
	Sample     int64
	Prediction float64
	Lataccel   float64

	Tokens, States, Logits, Probs, CDF uint64
}

// Value is the 64 bits that stand for a stage: a scalar's own, or its array's
// digest.
func (d *Digest) Value(s Stage) uint64 {
	switch s {
	case Action:
		return math.Float64bits(d.Action)
	case Tokens:
		return d.Tokens
	case States:
		return d.States
	case Logits:
		return d.Logits
	case Probs:
		return d.Probs
	case CDF:
		return d.CDF
	case Draw:
		return math.Float64bits(d.Draw)
	case Sample:
		return uint64(d.Sample)
	case Prediction:
		return math.Float64bits(d.Prediction)
	case Lataccel:
		return math.Float64bits(d.Lataccel)
	}
	return 0
}

// Roll continues the rolling hash of a rollout, which is 0 before the first
// step, with a step: the digest of the hash before, as u64; the step, u32; the set
// of known stages with bit s for Stage s, u32; and the Value of each, u64, in order.
func (h Hash) Roll(rolling uint64, d *Digest) uint64 {
	var b [16 + 8*int(NumStages)]byte
	data := binary.LittleEndian.AppendUint64(b[:0], rolling)
	data = binary.LittleEndian.AppendUint32(data, uint32(d.Index))
	data = binary.LittleEndian.AppendUint32(data, uint32(d.Has))
	for s := Action; s <= Lataccel; s++ {
		if d.Has.Has(s) {
			data = binary.LittleEndian.AppendUint64(data, d.Value(s))
		}
	}
	return h.Bytes(data)
}

// Step is a step as a trace holds it. The arrays are those held in full; others
// are nil.
type Step struct {
	Digest

	Tokens []int64   // shape (20)
	States []float32 // shape (20, 4)
	Logits []float32 // shape (1024)
	Probs  []float32 // shape (1024)
	CDF    []float64 // shape (1024)
}

// Of sets s to an engine's step, whose arrays it aliases. Stages of the network are
// known unless it was skipped.
func (s *Step) Of(from *lockstep.Step, h Hash) {
	*s = Step{
		Digest: Digest{
			Index:  int32(from.Index),
			Has:    Set(Action, Draw, Lataccel),
			Action: from.Action, Draw: from.Draw, Lataccel: from.Lataccel,
		},
		Tokens: from.Tokens, States: from.States, Logits: from.Logits, Probs: from.Probs, CDF: from.CDF,
	}
	if from.Sample >= 0 || from.Logits != nil {
		s.Sample, s.Prediction = int64(from.Sample), from.Prediction
		s.Has |= Set(Sample, Prediction)
	}
	s.Sum(h)
}

// Sum computes the digests of the arrays that are there.
func (s *Step) Sum(h Hash) {
	set := func(stage Stage, digest *uint64, data []byte) {
		if data != nil {
			*digest = h.Bytes(data)
			s.Has |= Set(stage)
		}
	}
	set(Tokens, &s.Digest.Tokens, bytesOf(s.Tokens))
	set(States, &s.Digest.States, bytesOf(s.States))
	set(Logits, &s.Digest.Logits, bytesOf(s.Logits))
	set(Probs, &s.Digest.Probs, bytesOf(s.Probs))
	set(CDF, &s.Digest.CDF, bytesOf(s.CDF))
}

// Clone copies the step and its arrays.
func (s *Step) Clone() *Step {
	c := *s
	c.Tokens, c.States = append([]int64(nil), s.Tokens...), append([]float32(nil), s.States...)
	c.Logits, c.Probs, c.CDF = append([]float32(nil), s.Logits...), append([]float32(nil), s.Probs...), append([]float64(nil), s.CDF...)
	return &c
}
