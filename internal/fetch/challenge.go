package fetch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"lockstep/internal/assets"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
)

// Where the challenge keeps what belongs to it. It names the data set's branch, and so
// does everybody else: its commit is the one that the server said when routes were
// first loaded into a folder, which is kept there and asked for from then on.
const (
	modelURL = "https://github.com/commaai/controls_challenge/raw/" +
		"be8edfa849acdccfa2cb0092151ab28590d63c03/models/tinyphysics.onnx"
	dataURL = "https://huggingface.co/datasets/commaai/commaSteeringControl/resolve/%s/" +
		"data/SYNTHETIC_V0.zip"

	newest = "main" // revision
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

// Asset loads the challenge's "model" or its "data" into a folder, the user's cache folder if it
// is "", alone there. It returns its path, and the revision of the data where that is known.
func Asset(
	ctx context.Context, what, revision, dir string, progress func(done, total int64),
) (path, of string, err error) {
	if what == "model" && revision != "" {
		return "", "", fmt.Errorf(
			"revision %.60q: that is of the data; of the network there is one", revision,
		)
	}
	if dir == "" {
		if dir, err = assets.CacheFolder(); err != nil {
			return "", "", err
		}
	}
	lock, err := Lock(dir)
	if err != nil {
		return "", "", err
	}
	defer lock.Close()
	server := Default(progress)
	if what == "model" {
		path, err = server.Model(ctx, dir)
		return path, "", err
	}
	path, origin, err := server.Routes(ctx, revision, dir)
	return path, origin.Revision, err
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
// their path and what is known of where they are from. Without a revision it is the one
// that was loaded into this folder before, or the newest.
func (s *Server) Routes(
	ctx context.Context, revision, dir string,
) (path string, of Revision, err error) {
	return s.routes(ctx, dataURL, revision, dir, routeSums)
}

func (s *Server) routes(
	ctx context.Context, from, revision, dir string, sums map[string]string,
) (string, Revision, error) {
	target, record := filepath.Join(dir, assets.Routes), filepath.Join(dir, assets.Routes+".json")
	before, err := readOrigin(record)
	if err != nil {
		return "", before, err
	}
	if _, err := os.Stat(target); err == nil {
		if revision != "" && revision != before.Revision {
			return "", before, fmt.Errorf(
				"%s is here already, of revision %s, not %s: name another folder with --out",
				target, cmp.Or(before.Revision, "unknown"), revision,
			)
		}
		return target, before, nil
	}
	leftovers, _ := fileio.Glob(dir, unpacking) // of an attempt that was killed
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	archive := filepath.Join(dir, "SYNTHETIC_V0.zip.part")
	asked := cmp.Or(revision, before.Revision, newest)
	of, err := s.Load(ctx, fmt.Sprintf(from, url.PathEscape(asked)), archive)
	if err != nil {
		return "", of, err
	}
	if asked == before.Revision && before.SHA256 != "" {
		if err := hold(archive, before.SHA256, "revision "+asked+" had before"); err != nil {
			return "", of, err
		}
	}
	if of.SHA256, err = fileio.SHA256(archive); err != nil {
		return "", of, err
	}
	if err := unpack(ctx, archive, target, sums); err != nil {
		if errors.Is(err, errDamaged) || errors.Is(err, errForeign) {
			os.Remove(archive) // it would fail for ever; a full disk would not
		}
		return "", of, err
	}
	return target, of, errors.Join(writeOrigin(record, of), os.Remove(archive))
}

// readOrigin reads where routes were loaded from: nowhere, if there is no record.
func readOrigin(path string) (o Revision, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return o, fmt.Errorf(
			"%s says where routes are from, and cannot be read: %w: remove it to load the newest",
			path, err,
		)
	}
	return o, nil
}

func writeOrigin(path string, o Revision) error {
	return fileio.Write(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(o) })
}
