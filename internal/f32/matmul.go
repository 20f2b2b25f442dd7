package f32

// PanelWidth is the number of columns that lie side by side in a panel.
const PanelWidth = 16

// Panels is a matrix of k rows cut into panels of PanelWidth columns: element
// (p, j) is Data[j/16*Panel + p*Stride + j%16].
//
// Packed weights have Stride 16 and Panel 16·k, which makes a panel one run of
// memory; a row-major matrix has its row length as Stride and Panel 16.
type Panels struct {
	Data          []float32
	Stride, Panel int
}

// Pack cuts a row-major matrix of shape (k, n) into panels; columns beyond n are
// zero.
func Pack(b []float32, k, n int) Panels {
	panels := (n + PanelWidth - 1) / PanelWidth
	out := Panels{
		Data:   make([]float32, panels*PanelWidth*k),
		Stride: PanelWidth,
		Panel:  PanelWidth * k,
	}
	for p := range k {
		for j := range n {
			out.Data[j/PanelWidth*out.Panel+p*PanelWidth+j%PanelWidth] = b[p*n+j]
		}
	}
	return out
}

// Columns returns the panels from column 16·first on.
func (b Panels) Columns(first int) Panels {
	return Panels{Data: b.Data[first*b.Panel:], Stride: b.Stride, Panel: b.Panel}
}

// matMul is the specification of Kernels.MatMul. The chains of one panel run
// side by side, which keeps the processor busy and changes none of them.
func matMul(
	m, panels, k int, a []float32, lda int, b Panels, c []float32, ldc int, alpha float32,
	accumulate bool,
) {
	for i := range m {
		for j := range panels {
			var acc [PanelWidth]float32
			for p := range k {
				x, row := a[i*lda+p], (*[PanelWidth]float32)(b.Data[j*b.Panel+p*b.Stride:])
				for n := range acc {
					r, ok := fmaCommon(x, row[n], acc[n])
					if !ok {
						r = fmaRare(x, row[n], acc[n])
					}
					acc[n] = r
				}
			}
			out := c[i*ldc+j*PanelWidth:][:PanelWidth]
			for n, v := range acc {
				if accumulate {
					out[n] = FMA(v, alpha, out[n])
				} else {
					out[n] = v * alpha
				}
			}
		}
	}
}
