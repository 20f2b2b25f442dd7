package main

import (
	"io"
	"testing"

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
	}
	got, err := functions(header)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(function{})); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"", "CUresult cuInit(unsigned int *);", "int cuInit(int x);"} {
		if _, err := functions(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	if err := write(io.Discard, header, "other"); err == nil {
		t.Error("any kind is taken")
	}
}
