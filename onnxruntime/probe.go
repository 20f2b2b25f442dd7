package onnxruntime

import (
	"crypto/sha256"
	"encoding/binary"

	"lockstep"
	"lockstep/internal/onnx"
)

// The network part of a profile is asked of the library itself: it computes one
// layer normalisation and one softmax, and their bits tell which formula it has.
// golden/generate.py puts the same questions to the Python program's library.

// Answers are the first 8 bytes of the SHA-256 of the little-endian result.
var (
	layerNormAnswers = map[uint64]lockstep.LayerNorm{
		0x6b076cdc12029cfe: lockstep.LayerNorm130,
		0x157bd3462fe30aa7: lockstep.LayerNorm127,
		0x6c5b6b78c6f73ad7: lockstep.LayerNorm123,
	}
	softmaxAnswers = map[uint64]lockstep.Softmax{
		0x84e51544e208b272: lockstep.SoftmaxAVX512,
		0xb50f3a338eebaab3: lockstep.SoftmaxAVX2,
	}
)

// probeProfile asks the library for the network part of its profile. known is
// false if an answer is new.
func probeProfile() (p lockstep.Profile, known bool, err error) {
	norm, err := runRow(layerNormProbe())
	if err != nil {
		return p, false, err
	}
	softmax, err := runRow(softmaxProbe())
	if err != nil {
		return p, false, err
	}
	var okNorm, okSoftmax bool
	p.LayerNorm, okNorm = layerNormAnswers[answer(norm)]
	p.Softmax, okSoftmax = softmaxAnswers[answer(softmax)]
	return p, okNorm && okSoftmax, nil
}

func answer(row []float32) uint64 {
	data, _ := binary.Append(nil, binary.LittleEndian, row)
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}

// layerNormProbe returns a model and a row for it.
func layerNormProbe() ([]byte, []float32) {
	const n = 128
	row := func(name string, salt uint64) onnx.Tensor {
		raw, _ := binary.Append(nil, binary.LittleEndian, probeRow(n, salt))
		return onnx.Tensor{Name: name, Type: onnx.Float, Dims: []int64{n}, Raw: raw}
	}
	return probeModel(17, onnx.Node{
		OpType: "LayerNormalization",
		Inputs: []string{"x", "weight", "bias"},
		Attributes: []onnx.Attribute{
			{Name: "axis", Int: -1},
			{Name: "epsilon", Float: 0x1.4f8b58p-17},
		},
	}, n, row("weight", 201), row("bias", 401)), probeRow(n, 1)
}

// softmaxProbe returns a model and a row for it. The last element's weight is
// below the normal range, which one of the formulas does not keep.
func softmaxProbe() ([]byte, []float32) {
	const n = 20
	row := probeRow(n, 13)
	row[n-1] -= 90
	return probeModel(13, onnx.Node{
		OpType:     "Softmax",
		Inputs:     []string{"x"},
		Attributes: []onnx.Attribute{{Name: "axis", Int: -1}},
	}, n), row
}

// probeModel is a model of one node, with the input x and the output y.
func probeModel(opset int64, node onnx.Node, n int64, constants ...onnx.Tensor) []byte {
	node.Outputs = []string{"y"}
	value := func(name string) []onnx.Value {
		return []onnx.Value{{Name: name, Type: onnx.Float, Dims: []int64{1, n}}}
	}
	m := onnx.Model{Opset: opset, Graph: onnx.Graph{
		Nodes:        []onnx.Node{node},
		Initializers: constants,
		Inputs:       value("x"),
		Outputs:      value("y"),
	}}
	return m.Encode(8, nil)
}

// probeRow is n numbers from 0 to 4 with 22 fraction bits, from a multiplicative
// hash.
func probeRow(n int, salt uint64) []float32 {
	row := make([]float32, n)
	for i := range row {
		row[i] = float32((uint64(i)+salt)*2654435761%(1<<24)) / (1 << 22)
	}
	return row
}
