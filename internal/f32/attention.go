package f32

// Context is the number of positions that attention is over.
const Context = 20

// transpose is the specification of Kernels.Transpose.
func transpose(y, x []float32, rows, columns, stride int) {
	for j := range rows {
		for p := range columns {
			y[j/PanelWidth*PanelWidth*columns+p*PanelWidth+j%PanelWidth] = x[j*stride+p]
		}
	}
}

// softmax512 and softmax256 are the specifications of Kernels.Softmax512 and
// Kernels.Softmax256.
func softmax512(s []float32, rows, stride, first int) {
	for i := range rows {
		causalSoftmax((*[Context]float32)(s[i*stride:]), first+i+1, Exp512, sum16)
	}
}

func softmax256(s []float32, rows, stride, first int) {
	for i := range rows {
		causalSoftmax((*[Context]float32)(s[i*stride:]), first+i+1, Exp256, sum8)
	}
}

// softmax4 is the specification of Kernels.Softmax4.
func softmax4(s []float32, rows, stride, first int) {
	for i := range rows {
		causalSoftmax((*[Context]float32)(s[i*stride:]), first+i+1, Exp256, sum4)
	}
}

// sum4 sums in four lanes.
func sum4(e *[Context]float32) float32 {
	c := [4]float32(e[:4])
	for j := 4; j < Context; j++ {
		c[j%4] += e[j]
	}
	return (c[0] + c[1]) + (c[2] + c[3])
}

// causalSoftmax is the softmax of the first n of a row's scores. The others are
// masked: their weight is e^-∞, which comes out as +0.
func causalSoftmax(
	row *[Context]float32, n int, exp func(float32) float32, sum func(*[Context]float32) float32,
) {
	m := highest(row[:n])
	for j := range n {
		row[j] = exp(row[j] - m)
	}
	clear(row[n:])
	q := 1 / sum(row)
	for j := range n {
		row[j] *= q
	}
}

// sum16 sums in 16 lanes, the last four elements going to the first four lanes, and
// folds the lanes in halves.
func sum16(e *[Context]float32) float32 {
	var c [8]float32
	for k := range c {
		low := e[k]
		if k < Context-16 {
			low += e[16+k]
		}
		c[k] = low + e[8+k]
	}
	return fold(&c)
}

// sum8 sums in 8 lanes.
func sum8(e *[Context]float32) float32 {
	c := [8]float32(e[:8])
	for j := 8; j < Context; j++ {
		c[j%8] += e[j]
	}
	return fold(&c)
}

// fold adds eight lanes up in pairs.
func fold(c *[8]float32) float32 {
	return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]))
}
