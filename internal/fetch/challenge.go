package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"lockstep/internal/assets"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
)

// Where the challenge keeps what belongs to it. The commit of the data set is not
// pinned: none is known here that could be tried. What is loaded is held to the hash
// that its server says and to that of routes that are known.
const (
	modelURL = "https://github.com/commaai/controls_challenge/raw/be8edfa849acdccfa2cb0092151ab28590d63c03/models/tinyphysics.onnx"
	dataURL  = "https://huggingface.co/datasets/commaai/commaSteeringControl/resolve/%s/data/SYNTHETIC_V0.zip"
)

// routeSums are the SHA-256 of some of the challenge's routes, by which its data are
// known: those that costs were published for.
var routeSums = map[string]string{
	"00000.csv": "fac0165f4933284c6ce387747df57acd159b419faddd7cb326a6b093896c8558",
	"00002.csv": "ecb684cf31b2c14eca0cd60ad1dd5a279020dd1538122f6f82ca281488d70cef",
	"00004.csv": "3e772e58d0e37c66d5a610e287fcb72ed8ef6e71102331923814c6b5823cbecf",
	"00006.csv": "46382237b8eb1090aab6084413248351fa3c3a6875446628b7fa9e5a66ab1538",
	"04744.csv": "c5d3ef9c5bc1352b06a77604c3a9fe25477cb2e2fcc273fb119d96c7909f6d08",
	"04959.csv": "86bbbfb7ae309fba6dba704d28197f2154aba1ae42af0e190f7005a970e37689",
}

// Model loads the challenge's network into a folder, if it is not there, and returns
// its path.
func (s *Server) Model(ctx context.Context, dir string) (string, error) {
	return s.model(ctx, modelURL, dir)
}

func (s *Server) model(ctx context.Context, from, dir string) (string, error) {
	target := filepath.Join(dir, assets.Model)
	if sum, err := fileio.SHA256(target); err == nil && sum == model.OfficialSHA256 {
		return target, nil
	}
	part := target + ".part"
	if _, err := s.Load(ctx, from, part); err != nil {
		return "", err
	}
	if err := hold(part, model.OfficialSHA256, "the challenge's network has"); err != nil {
		return "", fmt.Errorf("%s is not the challenge's network: %w", from, err)
	}
	if err := os.Rename(part, target); err != nil {
		return "", err
	}
	return target, fileio.SyncDir(dir)
}

// Routes loads the challenge's routes into a folder, if they are not there, and returns
// their path and the revision of the data set, if its server says which it was.
func (s *Server) Routes(ctx context.Context, revision, dir string) (path, of string, err error) {
	return s.routes(ctx, fmt.Sprintf(dataURL, url.PathEscape(revision)), dir, routeSums)
}

func (s *Server) routes(ctx context.Context, from, dir string, sums map[string]string) (string, string, error) {
	target := filepath.Join(dir, assets.Routes)
	if _, err := os.Stat(target); err == nil {
		return target, "", nil
	}
	leftovers, _ := filepath.Glob(filepath.Join(dir, unpacking)) // of an attempt that was killed
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	archive := filepath.Join(dir, "SYNTHETIC_V0.zip.part")
	of, err := s.Load(ctx, from, archive)
	if err != nil {
		return "", "", err
	}
	if err := unpack(ctx, archive, target, sums); err != nil {
		if errors.Is(err, errDamaged) {
			os.Remove(archive) // it would fail for ever; a full disk would not
		}
		return "", "", err
	}
	return target, of.Revision, os.Remove(archive)
}
