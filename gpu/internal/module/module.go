// Package module holds the compiled kernels, and what tells whether they belong to
// the sources: `make kernels` writes both.
package module

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Source is the file that is compiled, in the folder of the kernels.
const Source = "rollout.cu"

// Flags are the compiler's for both. -fmad=false leaves every rounding where the
// source has it; division and square root are correctly rounded, and subnormals
// kept, unless -use_fast_math is given.
func Flags() []string {
	return []string{
		"-std=c++17", "-O3", "-fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false",
	}
}

// A Target is a compilation.
type Target struct {
	Name  string   // file, without its extension .gz
	Flags []string // added
}

// Targets: PTX, which the driver compiles for the GPU that it finds, and machine
// code for compute capability 9.
func Targets() []Target {
	return []Target{
		{"rollout.ptx", []string{"-ptx", "-arch=compute_80"}},
		{"rollout.sm_90.cubin", []string{"-cubin", "-arch=sm_90", "-Xptxas", "-v"}},
	}
}

// Manifest says what the compiled kernels were made of.
type Manifest struct {
	Sources  string            `json:"sources_sha256"` // see kernelhash.Sources
	Compiler string            `json:"compiler"`
	Flags    []string          `json:"flags"`
	Files    map[string]string `json:"files_sha256"` // before compression
}

//go:embed manifest.json
var manifest []byte

//go:embed rollout.ptx.gz
var ptx []byte

//go:embed rollout.sm_90.cubin.gz
var cubin []byte

//go:embed rollout.sm_90.sass.gz
var listing []byte

// ReadManifest is that of the kernels in this program.
func ReadManifest() (Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return m, fmt.Errorf("manifest of the compiled kernels: %w", err)
	}
	return m, nil
}

// Hash is that of the manifest, and so of the compiled kernels and all that they were made of.
func Hash() string { return fmt.Sprintf("%x", sha256.Sum256(manifest)) }

// PTX is for any GPU of compute capability 8.0 or newer.
func PTX() (string, error) { return texts.ptx() }

// Cubin is for GPUs of compute capability 9.x.
func Cubin() (string, error) { return texts.cubin() }

// Listing is the disassembly of the cubin, which engine sass executes: see translate.Listing.
func Listing() (string, error) { return texts.listing() }

// texts unpack each once.
var texts = struct{ ptx, cubin, listing func() (string, error) }{
	sync.OnceValues(func() (string, error) { return Unpack(ptx) }),
	sync.OnceValues(func() (string, error) { return Unpack(cubin) }),
	sync.OnceValues(func() (string, error) { return Unpack(listing) }),
}

// Unpack returns the text of a compressed file of compiled kernels.
func Unpack(data []byte) (string, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("compiled kernels: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("compiled kernels: %w", err)
	}
	return string(text), nil
}

// AllFlags lists every flag of every target, for the manifest.
func AllFlags() []string {
	all := Flags()
	for _, t := range Targets() {
		all = append(all, t.Name+":")
		all = append(all, t.Flags...)
	}
	return all
}
