package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestFunctions(t *testing.T) {
	const header = `
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef CUresult (*CUcallback)(void *userData);
CUresult cuInit(unsigned int Flags);
extern CUresult cuProfilerStart(void);
CUresult
cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice,
    const void *srcHost, size_t ByteCount, CUstream hStream);
CUresult cuArrays(const CUgraphNode * nodes, size_t sizes[ 4 ]);
CUresult cuInit(unsigned int Flags);
CUresult cuBehind(void);
`
	want := []function{
		{"cuInit", "unsigned int Flags", "Flags"},
		{"cuProfilerStart", "void", ""},
		{
			"cuMemcpyHtoDAsync_v2",
			"CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream",
			"dstDevice, srcHost, ByteCount, hStream",
		},
		{"cuArrays", "const CUgraphNode * nodes, size_t sizes[ 4 ]", "nodes, sizes"},
		{"cuBehind", "void", ""},
	}
	got, err := functions(header)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(function{})); d != "" {
		t.Error(d)
	}
	for bad, want := range map[string]string{
		"":                                 "does not declare cuInit; 0 functions were found",
		"CUresult cuInit(unsigned int *);": `cuInit: parameter "unsigned int *" has no name`,
		"int cuInit(int x);":               "does not declare cuInit; 0 functions",
		"CUresult cuOther(int x);":         "does not declare cuInit; 1 functions",
	} {
		if _, err := functions(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", bad, err, want)
		}
	}
	// Each function is defined once, the loader's cuInit by hand.
	for kind, defined := range map[string]string{
		"loader": "\nCUresult %s(%s) {\n",
		"rest":   "\n__attribute__((weak)) CUresult %s(%s) { return CUDA_ERROR_NOT_SUPPORTED; }\n",
	} {
		var b strings.Builder
		if err := run(strings.NewReader(header), &b, kind); err != nil {
			t.Fatal(err)
		}
		for _, f := range want {
			if n := strings.Count(b.String(), fmt.Sprintf(defined, f.name, f.parameters)); n != 1 {
				t.Errorf("%s: %s is defined %d times:\n%s", kind, f.name, n, b.String())
			}
		}
	}
	no := errors.New("no")
	for what, err := range map[string]error{
		"a kind that is none":     run(strings.NewReader(header), io.Discard, "other"),
		"a header without cuInit": run(strings.NewReader(""), io.Discard, "rest"),
		"nothing to read":         run(iotest.ErrReader(no), io.Discard, "rest"),
	} {
		if err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}
