package golden

import (
	"embed"
	"io/fs"
)

//go:embed testdata/default
var recordings embed.FS

// Default is the folder of the sets recorded with the network and the routes of
// package defaults, for use where this repository is not at hand.
func Default() fs.FS {
	sub, err := fs.Sub(recordings, "testdata/default")
	if err != nil {
		panic(err) // the name is not a valid path
	}
	return sub
}
