//go:build (amd64 || arm64) && !noasm

package f32

import (
	"math/bits"
	"unsafe"
)

// A band is a way to compute whole blocks of so many rows, in so many panels as its
// last tile's divide.
type band struct {
	rows  int
	tiles []tile // widest first
	whole bool   // only where no rows are left over
}

// A tile computes the rows of a band in so many panels, for blocks in turn.
type tile struct {
	panels int
	run    func(blocks, k int, a *float32, lda int, b *float32, stride, panel int, c *float32,
		ldc int, alpha float32, accumulate bool)
}

// tiled returns a Kernels.MatMul that cuts C into bands, the last one being of
// single rows.
func tiled(
	bands ...band,
) func(int, int, int, []float32, int, Panels, []float32, int, float32, bool) {
	return func(m, panels, k int, a []float32, lda int, b Panels, c []float32, ldc int,
		alpha float32, accumulate bool) {
		m, panels, k = max(m, 0), max(panels, 0), max(k, 0)
		width := PanelWidth * panels
		switch {
		case m == 0 || panels == 0:
			return
		case !holds(a, m, lda, 1, 0, k):
			panic("f32: MatMul: a is too short")
		case k > 0 && !holds(b.Data, panels, b.Panel, k, b.Stride, PanelWidth):
			panic("f32: MatMul: b is too short")
		case !holds(c, m, ldc, 1, 0, width):
			panic("f32: MatMul: c is too short")
		case m > 1 && ldc < width:
			panic("f32: MatMul: rows of c overlap")
		}
		i := 0
		for _, band := range bands {
			blocks := (m - i) / band.rows
			if blocks == 0 || band.whole && m%band.rows != 0 ||
				panels%band.tiles[len(band.tiles)-1].panels != 0 {
				continue
			}
			j := 0
			for _, t := range band.tiles {
				for ; j+t.panels <= panels; j += t.panels {
					t.run(
						blocks, k, at(a, i*lda), lda, at(b.Data, j*b.Panel), b.Stride, b.Panel,
						at(c, i*ldc+PanelWidth*j), ldc, alpha, accumulate,
					)
				}
			}
			i += blocks * band.rows
		}
	}
}

// holds reports whether s holds m·n runs of the given width, run (i, j) starting
// at i·stride + j·step. Numbers of any size are judged rightly.
func holds(s []float32, m, stride, n, step, width int) bool {
	if stride < 0 || step < 0 || width > len(s) {
		return false
	}
	overflow1, last1 := bits.Mul64(uint64(m-1), uint64(stride))
	overflow2, last2 := bits.Mul64(uint64(n-1), uint64(step))
	room := uint64(len(s) - width)
	return overflow1|overflow2 == 0 && last1 <= room && last2 <= room-last1
}

// at is the address of s[i], or nil beyond the end: with k = 0 nothing is read.
func at(s []float32, i int) *float32 {
	if i >= len(s) {
		return nil
	}
	return &s[i]
}

func normalise(
	run func(rows, n int, y, x, weight, bias *float32),
) func(y, x, weight, bias []float32) {
	return func(y, x, weight, bias []float32) {
		n := len(weight)
		switch {
		case n%8 != 0:
			panic("f32: LayerNorm: the length of weight is no multiple of 8")
		case len(bias) < n:
			panic("f32: LayerNorm: bias is too short")
		case n == 0 && len(x) > 0, n > 0 && len(x)%n != 0:
			panic("f32: LayerNorm: x is no number of rows as long as weight")
		case len(y) < len(x):
			panic("f32: LayerNorm: y is too short")
		case len(x) == 0:
			return
		}
		run(len(x)/n, n, &y[0], &x[0], &weight[0], &bias[0])
	}
}

func causal(
	name string, run func(rows int, s *float32, stride, first int),
) func(s []float32, rows, stride, first int) {
	return func(s []float32, rows, stride, first int) {
		switch {
		case rows <= 0:
			return
		case first < 0 || first > Context || rows > Context-first:
			panic("f32: " + name + ": rows beyond the context")
		case rows > 1 && stride < Context:
			panic("f32: " + name + ": rows overlap")
		case !holds(s, rows, stride, 1, 0, Context):
			panic("f32: " + name + ": s is too short")
		}
		run(rows, unsafe.SliceData(s), stride, first)
	}
}

// fours is Softmax4 with plain sums around a set's exponential: x86-64 has no need of
// more, where that profile is computed to compare.
func fours(
	exp func(n int, y, x *float32, shift float32),
) func(rows int, s *float32, stride, first int) {
	return func(rows int, s *float32, stride, first int) {
		all := unsafe.Slice(s, (rows-1)*stride+Context)
		for i := range rows {
			row, n := (*[Context]float32)(all[i*stride:]), first+i+1
			exp(n, &row[0], &row[0], -highest(row[:n]))
			clear(row[n:])
			q := 1 / sum4(row)
			for j := range n {
				row[j] *= q
			}
		}
	}
}

func transposing(
	run func(rows, columns int, y, x *float32, stride int),
) func(y, x []float32, rows, columns, stride int) {
	return func(y, x []float32, rows, columns, stride int) {
		switch {
		case rows <= 0 || columns <= 0:
			return
		case rows%4 != 0 || columns%8 != 0:
			panic("f32: Transpose: rows are no multiple of 4, or columns of 8")
		case !holds(x, rows, stride, 1, 0, columns):
			panic("f32: Transpose: x is too short")
		case (rows-1)/PanelWidth*PanelWidth*columns+(columns-1)*PanelWidth+(rows-1)%PanelWidth+1 >
			len(y):
			panic("f32: Transpose: y is too short")
		}
		run(rows, columns, unsafe.SliceData(y), unsafe.SliceData(x), stride)
	}
}

func added(run func(n int, y, x *float32)) func(y, x []float32) {
	return func(y, x []float32) {
		if len(y) < len(x) {
			panic("f32: Add: y is too short")
		}
		run(len(x), unsafe.SliceData(y), unsafe.SliceData(x))
	}
}

func greatest(run func(n int, x *float32) float32) func(x []float32) float32 {
	return func(x []float32) float32 { return run(len(x), unsafe.SliceData(x)) }
}

func gelus(run func(n int, y, x *float32)) func(g, f []float32) {
	return func(g, f []float32) {
		if len(g) < len(f) {
			panic("f32: Gelu: g is too short")
		}
		run(len(f), unsafe.SliceData(g), unsafe.SliceData(f))
	}
}

func withNumber(
	name string, run func(n int, y, x *float32, shift float32),
) func(y, x []float32, shift float32) {
	return func(y, x []float32, shift float32) {
		if len(y) < len(x) {
			panic("f32: " + name + ": y is too short")
		}
		run(len(x), unsafe.SliceData(y), unsafe.SliceData(x), shift)
	}
}

// peak counts what run does: so many multiply-adds a round.
func peak(run func(rounds int), each int) func() int {
	const rounds = 1000
	return func() int {
		run(rounds)
		return rounds * each
	}
}
