package f32

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"unsafe"
)

// fenced returns n elements that end where readable memory ends: reading one
// more kills the test.
func fenced(t *testing.T, n int) []float32 {
	page := os.Getpagesize()
	room := (4*n + page - 1) / page * page
	m, err := syscall.Mmap(
		-1, 0, room+page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(m) })
	if err := syscall.Mprotect(m[room:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&m[room-4*n])), n)
}

func TestReadsNoFurther(t *testing.T) {
	for _, set := range Available() {
		for _, s := range []struct{ m, panels, k int }{
			{20, 2, 20}, {5, 1, 3}, {1, 4, 7}, {1, 5, 4}, {13, 3, 1}, {2, 1, 32},
		} {
			t.Run(fmt.Sprintf("%s/MatMul/%v", set.Name, s), func(t *testing.T) {
				n := 16 * s.panels
				a, b, c := fenced(t, s.m*s.k), fenced(t, s.k*n), fenced(t, s.m*n)
				set.MatMul(s.m, s.panels, s.k, a, s.k, Panels{b, 16, 16 * s.k}, c, n, 1, true)
				set.MatMul(s.m, s.panels, s.k, a, s.k, Panels{b, n, 16}, c, n, 1, false)
			})
		}
		for _, n := range []int{1, 2, 7, 8, 9, 15, 16, 17, 20, 31, 32} {
			t.Run(fmt.Sprintf("%s/%d", set.Name, n), func(t *testing.T) {
				x, y := fenced(t, n), fenced(t, n)
				set.Gelu(y, x)
				set.Exp512(y, x, 0)
				set.Exp256(y, x, 0)
				set.ExpNumPy(y, x, 0)
				set.ExpNumPyFused(y, x, 0)
				if n%8 == 0 {
					set.LayerNorm(y, x, x, x)
				}
			})
		}
	}
}
