// Package classic holds the compiled kernels of classic control. `make kernels` writes them, the
// compiler's report beside them (report.txt), and the hash of the sources that it compiled.
package classic

import (
	_ "embed"
	"strings"
	"sync"

	"lockstep/gpu/internal/module"
)

//go:embed classic.ptx.gz
var ptx []byte

//go:embed classic.cubin.gz
var cubin []byte

//go:embed classic.sass.gz
var listing []byte

//go:embed sources.sha256
var sources string

// Sources is the hash of what the kernels were compiled from.
func Sources() string { return strings.TrimSpace(sources) }

// PTX is for any GPU of compute capability 8.0 or newer.
func PTX() (string, error) { return texts.ptx() }

// Cubin is for GPUs of compute capability 9.0.
func Cubin() (string, error) { return texts.cubin() }

// Listing is the disassembly of the cubin, which engine sass executes: see translate.Listing.
func Listing() (string, error) { return texts.listing() }

// texts unpack each once.
var texts = struct{ ptx, cubin, listing func() (string, error) }{
	sync.OnceValues(func() (string, error) { return module.Unpack(ptx) }),
	sync.OnceValues(func() (string, error) { return module.Unpack(cubin) }),
	sync.OnceValues(func() (string, error) { return module.Unpack(listing) }),
}
