package schema

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"
)

// Type is the type of a stage's elements, by its name in NumPy and Go.
type Type string

// number is any type that stages consist of.
type number interface {
	float32 | float64 | int32 | int64 | uint8
}

// types are all of them.
const types = "float32, float64, int32, int64, uint8"

// Size is the number of bytes of an element, 0 if the type is not known.
func (t Type) Size() int {
	switch t {
	case "float64", "int64":
		return 8
	case "float32", "int32":
		return 4
	case "uint8":
		return 1
	}
	return 0
}

// TypeOf is the type of a Go number.
func TypeOf[T number]() Type {
	return Type(fmt.Sprintf("%T", *new(T)))
}

// bitsOf is a number's pattern, in as many of the low bits as it has.
func bitsOf[T number](x T) uint64 {
	switch p := unsafe.Pointer(&x); unsafe.Sizeof(x) {
	case 1:
		return uint64(*(*uint8)(p))
	case 4:
		return uint64(*(*uint32)(p))
	default:
		return *(*uint64)(p)
	}
}

// Equal reports whether two numbers have the same bits, or both are NaN: which NaN an
// operation gives depends on the order of its operands, which nothing prescribes.
func Equal[T number](a, b T) bool { return bitsOf(a) == bitsOf(b) || a != a && b != b }

// Float is the number of a pattern.
func (t Type) Float(bits uint64) float64 {
	switch t {
	case "float32":
		return float64(math.Float32frombits(uint32(bits)))
	case "float64":
		return math.Float64frombits(bits)
	case "int32":
		return float64(int32(bits))
	}
	return float64(int64(bits))
}

// Bits is the pattern of the number that begins the data.
func (t Type) Bits(data []byte) uint64 {
	var word [8]byte
	copy(word[:], data[:t.Size()])
	return binary.LittleEndian.Uint64(word[:])
}

// AppendBits is the inverse of Bits.
func (t Type) AppendBits(data []byte, bits uint64) []byte {
	return binary.LittleEndian.AppendUint64(data, bits)[:len(data)+t.Size()]
}

// Show formats a number with enough digits to read it back and, of a float, its bits.
func (t Type) Show(bits uint64) string {
	switch t {
	case "float32":
		return fmt.Sprintf("%v (%08x)", math.Float32frombits(uint32(bits)), bits)
	case "float64":
		return fmt.Sprintf("%v (%016x)", math.Float64frombits(bits), bits)
	case "int32":
		return fmt.Sprint(int32(bits))
	}
	return fmt.Sprint(int64(bits))
}

// ULPs is how many steps from one float to the next lead from a to b: 0 if one of them
// is not a number, and for integers.
func (t Type) ULPs(a, b uint64) uint64 {
	if t != "float32" && t != "float64" || math.IsNaN(t.Float(a)) || math.IsNaN(t.Float(b)) {
		return 0
	}
	sign := 8*uint(t.Size()) - 1
	x, y := ordered(a, sign), ordered(b, sign)
	return uint64(max(x, y)) - uint64(min(x, y))
}

// ordered maps bit patterns to integers in the order of the numbers, with both
// zeros at 0. sign is the place of the sign bit.
func ordered(pattern uint64, sign uint) int64 {
	magnitude := int64(pattern &^ (1 << sign))
	if pattern>>sign&1 == 1 {
		return -magnitude
	}
	return magnitude
}

// littleEndian reports whether memory can be hashed and written as it lies.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Bytes is an array's little-endian form. It may alias the array.
func Bytes[T number](a []T) []byte {
	if len(a) == 0 {
		return nil
	}
	if !littleEndian {
		data, _ := binary.Append(nil, binary.LittleEndian, a)
		return data
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&a[0])), len(a)*int(unsafe.Sizeof(a[0])))
}

// Elements is the inverse of Bytes. It copies.
func Elements[T number](data []byte) []T {
	out := make([]T, len(data)/TypeOf[T]().Size())
	if _, err := binary.Decode(data, binary.LittleEndian, out); err != nil {
		panic(err) // a number of fixed size
	}
	return out
}
