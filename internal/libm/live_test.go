package libm

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/cpu"

	"lockstep/internal/want"
)

// TestSinLive compares with the C library that Python calls, where that is glibc on
// a CPU with FMA: at angles beside every edge of a branch, beside multiples of π/2,
// and of all sizes.
func TestSinLive(t *testing.T) {
	python := want.Python.Need(t)
	if runtime.GOARCH != "amd64" || !cpu.X86.HasFMA {
		t.Skip("the C library of this CPU computes other bits")
	}
	x := liveAngles(100000)
	sin, cos := askPython(t, python, x)
	for i, x := range x {
		for _, f := range []struct {
			name      string
			got, want float64
		}{{"Sin", Sin(x), sin[i]}, {"Cos", Cos(x), cos[i]}} {
			if math.Float64bits(f.got) != math.Float64bits(f.want) {
				t.Fatalf("%s(%x) = %x, the C library has %x", f.name, x, f.got, f.want)
			}
		}
	}
}

// liveAngles are n of each kind.
func liveAngles(n int) (x []float64) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	edges := []float64{0x1p-27, 0x1p-26, 0.126, 0x1.b6p-1, 0x1.368fdp1, SinLimit}
	for i := range n {
		beside := math.Float64bits(edges[i%len(edges)]) +
			uint64(i/len(edges)) - uint64(n/len(edges)/2)
		quarters := math.Ldexp(r.Float64(), r.IntN(1023))
		x = append(x, math.Float64frombits(beside), math.Trunc(quarters)*halfPi,
			math.Ldexp(1+r.Float64(), r.IntN(2046)-1022), SinLimit*(1+r.Float64()))
	}
	for i := range x {
		if r.IntN(2) == 0 {
			x[i] = -x[i]
		}
	}
	return append(x, math.MaxFloat64, SinLimit, math.Nextafter(SinLimit, 0))
}

// askPython returns the C library's sine and cosine.
func askPython(t *testing.T, python string, x []float64) (sin, cos []float64) {
	t.Helper()
	const script = `
import array, math, platform, sys
x = array.array("d")
x.frombytes(sys.stdin.buffer.read())
print(platform.libc_ver()[0], end="\n", flush=True)
for f in math.sin, math.cos:
    sys.stdout.buffer.write(array.array("d", map(f, x)).tobytes())
`
	var input bytes.Buffer
	binary.Write(&input, binary.NativeEndian, x)
	command := exec.CommandContext(t.Context(), python, "-c", script)
	command.Stdin = &input
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	library, values, _ := bytes.Cut(output, []byte("\n"))
	if name := strings.TrimSpace(string(library)); name != "glibc" {
		t.Skipf("Python's C library is %q, and not glibc", name)
	}
	all := make([]float64, 2*len(x))
	if err := binary.Read(bytes.NewReader(values), binary.NativeEndian, all); err != nil {
		t.Fatal(err)
	}
	return all[:len(x)], all[len(x):]
}
