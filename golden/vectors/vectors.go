// Package vectors holds inputs on which mistakes show: for every line of
// ARITHMETIC.md, arguments found by search on which each plausible alternative
// (another order of adding, fused or not, another constant one ulp away, a
// reciprocal for a division, the other side of a comparison) gives other bits,
// with the bits that are right. Ordinary inputs seldom tell such alternatives
// apart: four float64 sums added in another order round to one float32 nearly
// always.
//
// Every implementation of an operation is held to its vectors by one call in a
// test, Hold or Map. The package statement says what the operations are and
// which alternatives were tried; alternatives.json lists which vectors tell
// which of them apart; `go generate ./golden/vectors` searches anew.
package vectors

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"lockstep/internal/npz"
)

//go:generate go run ./search

//go:embed vectors.npz
var archive []byte

// A Vector is one call of an operation.
type Vector struct {
	Args map[string]any // []float32, []float64, []int64 or string
	Want any            // one of these, too
}

// Float32s, Float64s, Ints and Text are arguments. They panic where the operation
// has no such argument.
func (v Vector) Float32s(name string) []float32 { return v.Args[name].([]float32) }
func (v Vector) Float64s(name string) []float64 { return v.Args[name].([]float64) }
func (v Vector) Ints(name string) []int64       { return v.Args[name].([]int64) }
func (v Vector) Text(name string) string        { return v.Args[name].(string) }

// Float32, Float64 and Int are arguments of one element.
func (v Vector) Float32(name string) float32 { return v.Float32s(name)[0] }
func (v Vector) Float64(name string) float64 { return v.Float64s(name)[0] }
func (v Vector) Int(name string) int64       { return v.Ints(name)[0] }

// want is the name of the result among an operation's arrays.
const want = "want"

var read = sync.OnceValues(func() (map[string][]Vector, error) { return Decode(archive) })

// Of are an operation's vectors.
func Of(operation string) ([]Vector, error) {
	all, err := read()
	if err == nil && len(all[operation]) == 0 {
		err = fmt.Errorf("golden/vectors has no vectors of the operation %q", operation)
	}
	return slices.Clone(all[operation]), err
}

// TB is what All, Hold and Map need of a test: programs read the vectors, too.
type TB interface {
	Helper()
	Errorf(string, ...any)
	Fatal(...any)
}

// All are an operation's vectors. It fails the test if there are none.
func All(t TB, operation string) []Vector {
	t.Helper()
	all, err := Of(operation)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Hold runs an operation on each of its vectors and fails where the result, of
// the type of Vector.Want, has other bits.
func Hold(t TB, operation string, run func(v Vector) any) {
	t.Helper()
	for i, v := range All(t, operation) {
		if d := Difference(run(v), v.Want); d != "" {
			t.Errorf(
				"%s, vector %d: %s; see golden/vectors/alternatives.json for what it tells apart",
				operation, i, d,
			)
			return
		}
	}
}

// Map holds y = f(x) of each element to the vectors of an operation with one
// argument x: all in one call, in calls of every length up to 40, and in place.
func Map(t TB, operation string, f func(y, x []float32)) {
	t.Helper()
	var x, wanted []float32
	for _, v := range All(t, operation) {
		x, wanted = append(x, v.Float32s("x")...), append(wanted, v.Want.([]float32)...)
	}
	check := func(first, n int, inPlace bool) bool {
		in := slices.Clone(x[first : first+n])
		y := in
		if !inPlace {
			y = make([]float32, n)
		}
		f(y, in)
		d := Difference(y, wanted[first:first+n])
		if d != "" {
			t.Errorf(
				"%s, inputs %d to %d (%x): %s", operation, first, first+n-1,
				x[first:first+min(n, 3)], d,
			)
		}
		return d == ""
	}
	if !check(0, len(x), false) || !check(0, len(x), true) {
		return
	}
	for n := 1; n <= min(40, len(x)); n++ {
		for first := 0; first+n <= len(x); first += n {
			if !check(first, n, false) {
				return
			}
		}
	}
}

// Difference is how two results differ in their bits, or "". All NaN are one.
func Difference(got, want any) string {
	switch want := want.(type) {
	case []float32:
		return difference(got, want, func(x float32) uint64 { return uint64(math.Float32bits(x)) })
	case []float64:
		return difference(got, want, math.Float64bits)
	case []int64:
		return difference(got, want, func(x int64) uint64 { return uint64(x) })
	}
	if got != want {
		return fmt.Sprintf("%v, want %v", got, want)
	}
	return ""
}

func difference[T npz.Number](got any, want []T, bits func(T) uint64) string {
	values, ok := got.([]T)
	if !ok || len(values) != len(want) {
		return fmt.Sprintf(
			"the result is %T of another type or length, want %d of %T", got, len(want), want,
		)
	}
	bad, first := 0, 0
	for i, w := range want {
		g := values[i]
		if bits(g) != bits(w) && (g == g || w == w) {
			if bad++; bad == 1 {
				first = i
			}
		}
	}
	if bad == 0 {
		return ""
	}
	g, w := values[first], want[first]
	return fmt.Sprintf(
		"element %d is %v (%#x), want %v (%#x); %d of %d differ", first, g, bits(g), w, bits(w),
		bad, len(want),
	)
}

// Encode writes the vectors of all operations as an npz: for each argument, and
// for the result, "operation/argument" with all elements one after the other, and
// "operation/argument.lengths" where the lengths differ; texts are lines of one.
func Encode(operations map[string][]Vector) ([]byte, error) {
	var arrays []npz.Array
	for _, operation := range sorted(operations) {
		vs := operations[operation]
		for _, name := range append(sorted(vs[0].Args), want) {
			a, err := encode(operation+"/"+name, name, vs)
			if err != nil {
				return nil, err
			}
			arrays = append(arrays, a...)
		}
	}
	var out bytes.Buffer
	err := npz.Write(&out, arrays)
	return out.Bytes(), err
}

// of is a vector's argument of a name, or its result.
func (v Vector) of(name string) any {
	if name == want {
		return v.Want
	}
	return v.Args[name]
}

func encode(array, name string, vs []Vector) ([]npz.Array, error) {
	switch vs[0].of(name).(type) {
	case []float32:
		return concatenate[float32](array, name, vs), nil
	case []float64:
		return concatenate[float64](array, name, vs), nil
	case []int64:
		return concatenate[int64](array, name, vs), nil
	case string:
		var lines []string
		for _, v := range vs {
			lines = append(lines, v.of(name).(string))
		}
		return []npz.Array{npz.Text(array, strings.Join(lines, "\n"))}, nil
	}
	return nil, fmt.Errorf("array %s has elements of type %T", array, vs[0].of(name))
}

func concatenate[T npz.Number](array, name string, vs []Vector) []npz.Array {
	var all []T
	var lengths []int64
	for _, v := range vs {
		x := v.of(name).([]T)
		all, lengths = append(all, x...), append(lengths, int64(len(x)))
	}
	return []npz.Array{
		npz.New(array, all, len(all)), npz.New(array+".lengths", lengths, len(lengths)),
	}
}

// Decode is the inverse of Encode.
func Decode(data []byte) (map[string][]Vector, error) {
	arrays, err := npz.Read(data)
	if err != nil {
		return nil, err
	}
	all := map[string][]Vector{}
	for _, array := range sorted(arrays) {
		operation, name, _ := strings.Cut(array, "/")
		if strings.HasSuffix(name, ".lengths") {
			continue
		}
		values, err := split(arrays, array)
		if err != nil {
			return nil, fmt.Errorf("vectors.npz, array %s: %w", array, err)
		}
		if all[operation] == nil {
			all[operation] = make([]Vector, len(values))
		}
		if len(values) != len(all[operation]) {
			return nil, fmt.Errorf(
				"vectors.npz, array %s: %d vectors, want %d", array, len(values),
				len(all[operation]),
			)
		}
		for i, x := range values {
			v := &all[operation][i]
			if name == want {
				v.Want = x
				continue
			}
			if v.Args == nil {
				v.Args = map[string]any{}
			}
			v.Args[name] = x
		}
	}
	return all, nil
}

// split returns what each vector has in an array.
func split(arrays map[string]npz.Array, name string) ([]any, error) {
	a := arrays[name]
	l, ok := arrays[name+".lengths"]
	if !ok {
		texts, err := npz.Strings(a)
		if err != nil {
			return nil, err
		}
		var out []any
		for _, line := range strings.Split(strings.Join(texts, "\n"), "\n") {
			out = append(out, line)
		}
		return out, nil
	}
	lengths, err := npz.Elements[int64](l)
	if err != nil {
		return nil, err
	}
	out, err := cut[float32](a, lengths)
	if err != nil {
		out, err = cut[float64](a, lengths)
	}
	if err != nil {
		out, err = cut[int64](a, lengths)
	}
	return out, err
}

func cut[T npz.Number](a npz.Array, lengths []int64) (out []any, err error) {
	all, err := npz.Elements[T](a)
	if err != nil {
		return nil, err
	}
	for _, n := range lengths {
		if n < 0 || n > int64(len(all)) {
			return nil, fmt.Errorf("%d elements are left, want %d", len(all), n)
		}
		out = append(out, all[:n:n])
		all = all[n:]
	}
	if len(all) > 0 {
		return nil, fmt.Errorf("%d elements too many", len(all))
	}
	return out, nil
}

func sorted[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
