package main

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"lockstep/internal/assets"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
)

type fetchCommand struct {
	What     string `arg:"" enum:"model,data" help:"model (4 MB) or data (0.6 GB, and 1.2 GB unpacked)."`
	Revision string `name:"revision" default:"main" help:"Of the data set: a commit of its repository. What was loaded says which it was."`
	Out      string `name:"out" placeholder:"DIR" help:"The folder; the user's cache folder by default, where all commands look."`

	// Overridden by tests.
	modelURL, dataURL string
	client            *http.Client
	idle              time.Duration
	routes            map[string]string // SHA-256 of some
}

// Where the challenge keeps what belongs to it.
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

// fetchLock keeps two from loading into one folder.
const fetchLock = ".fetch"

// idleTimeout is how long a server may send nothing.
const idleTimeout = time.Minute

// Run is the fetch command. An interrupted download goes on where it stopped.
func (c *fetchCommand) Run(env *environment) error {
	if c.modelURL == "" {
		c.modelURL, c.dataURL, c.client = modelURL, fmt.Sprintf(dataURL, url.PathEscape(c.Revision)), http.DefaultClient
		c.idle, c.routes = idleTimeout, routeSums
	}
	if c.Out == "" {
		var err error
		if c.Out, err = assets.CacheFolder(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return err
	}
	lock, err := fileio.Lock(filepath.Join(c.Out, fetchLock))
	if err != nil {
		return err
	}
	defer lock.Close()
	var result string
	if c.What == "model" {
		result, err = c.fetchModel(env)
	} else {
		result, err = c.fetchData(env)
	}
	switch {
	case env.ctx.Err() != nil:
		fmt.Fprintln(env.stderr, "lockstep: interrupted; the same command goes on where it stopped")
		return exitStatus(exitInterrupted)
	case err != nil:
		return err
	}
	fmt.Fprintln(env.stdout, result)
	return nil
}

func (c *fetchCommand) fetchModel(env *environment) (string, error) {
	target := filepath.Join(c.Out, assets.Model)
	if sum, err := fileio.SHA256(target); err == nil && sum == model.OfficialSHA256 {
		return target, nil
	}
	part := target + ".part"
	if _, err := c.download(env, c.modelURL, part); err != nil {
		return "", err
	}
	sum, err := fileio.SHA256(part)
	if err != nil {
		return "", err
	}
	if sum != model.OfficialSHA256 {
		os.Remove(part)
		return "", fmt.Errorf("%s is not the challenge's network: SHA-256 %s, want %s", c.modelURL, sum, model.OfficialSHA256)
	}
	return target, os.Rename(part, target)
}

func (c *fetchCommand) fetchData(env *environment) (string, error) {
	target := filepath.Join(c.Out, assets.Routes)
	if _, err := os.Stat(target); err == nil {
		return target, nil
	}
	leftovers, _ := filepath.Glob(filepath.Join(c.Out, unpacking)) // of an attempt that was killed
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	archive := filepath.Join(c.Out, "SYNTHETIC_V0.zip.part")
	of, err := c.download(env, c.dataURL, archive)
	if err != nil {
		return "", err
	}
	if of.sha256 != "" {
		if sum, err := fileio.SHA256(archive); err != nil {
			return "", err
		} else if sum != of.sha256 {
			os.Remove(archive)
			return "", fmt.Errorf("%s: SHA-256 %s, want %s as its server says: run the same command again", archive, sum, of.sha256)
		}
	}
	if err := c.unpack(env.ctx, archive, target); err != nil {
		if errors.Is(err, errDamaged) {
			os.Remove(archive) // it would fail for ever; a full disk would not
		}
		return "", err
	}
	if of.revision != "" {
		target += " (revision " + of.revision + ")"
	}
	return target, os.Remove(archive)
}

// origin is what a server says of a file: the SHA-256 of its content and the commit
// that it is of, or nothing.
type origin struct{ sha256, revision string }

// originOf reads the headers of a response and of those that led to it.
func originOf(response *http.Response) (o origin) {
	for ; response != nil; response = response.Request.Response {
		if tag := strings.Trim(response.Header.Get("X-Linked-Etag"), `"`); len(tag) == 64 {
			o.sha256 = tag
		}
		if commit := response.Header.Get("X-Repo-Commit"); commit != "" {
			o.revision = commit
		}
	}
	return o
}

// download loads a file, from where an earlier attempt stopped.
func (c *fetchCommand) download(env *environment, from, to string) (of origin, err error) {
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return of, err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return of, err
	}
	ctx, stop := context.WithCancelCause(env.ctx)
	defer stop(nil)
	idle := time.AfterFunc(c.idle, func() {
		stop(fmt.Errorf("%s: nothing came for %v; the same command goes on where it stopped", from, c.idle))
	})
	defer idle.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return of, err
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.client.Do(request)
	if err != nil {
		return of, cmp.Or(stalled(ctx), err)
	}
	defer response.Body.Close()
	of = originOf(response)
	switch response.StatusCode {
	case http.StatusOK: // from the start, whatever was asked for
		if have, err = 0, f.Truncate(0); err != nil {
			return of, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return of, err
		}
	case http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable: // all of it is here
		return of, nil
	default:
		return of, fmt.Errorf("%s: %s", from, response.Status)
	}
	if free, ok := freeSpace(filepath.Dir(to)); ok && response.ContentLength > 0 && uint64(response.ContentLength) > free {
		return of, fmt.Errorf("%s: %d MB to load, but %d MB free", filepath.Dir(to), response.ContentLength>>20, free>>20)
	}
	total := response.ContentLength
	if total >= 0 {
		total += have
	}
	out, isFile := env.stderr.(*os.File)
	bar := progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(env.stderr),
		progressbar.OptionSetVisibility(isFile && term.IsTerminal(int(out.Fd()))),
		progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription(path.Base(from)),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
	bar.Set64(have)
	_, err = io.Copy(io.MultiWriter(f, bar, alive{idle, c.idle}), response.Body)
	bar.Clear()
	if e := stalled(ctx); e != nil && err != nil {
		return of, e
	}
	if err != nil {
		return of, fmt.Errorf("%s: %w; the same command goes on where it stopped", from, err)
	}
	return of, f.Close()
}

// stalled is why a download was stopped from here, or nil.
func stalled(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// alive puts a timer off at each write.
type alive struct {
	timer *time.Timer
	by    time.Duration
}

func (a alive) Write(p []byte) (int, error) {
	a.timer.Reset(a.by)
	return len(p), nil
}

// unpacking is the pattern of folders that routes are unpacked into.
const unpacking = ".routes-*"

// errDamaged is an archive's that no attempt could unpack.
var errDamaged = errors.New("the archive is damaged: run the same command again")

// unpack writes the CSV files of an archive to a folder that appears whole or
// not at all. The archive's own folders are left out, as the Python program
// does.
func (c *fetchCommand) unpack(ctx context.Context, archive, target string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", archive, err, errDamaged)
	}
	defer z.Close()
	var size uint64
	for _, f := range z.File {
		size += f.UncompressedSize64
	}
	if free, ok := freeSpace(filepath.Dir(target)); ok && size > free {
		return fmt.Errorf("%s: %d MB to unpack, but %d MB free", filepath.Dir(target), size>>20, free>>20)
	}
	work, err := os.MkdirTemp(filepath.Dir(target), unpacking)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // nothing is left of it once it is renamed
	files := 0
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Base(strings.ReplaceAll(f.Name, `\`, "/"))
		if f.FileInfo().IsDir() || !strings.HasSuffix(name, ".csv") || strings.HasPrefix(name, ".") {
			continue
		}
		err := extract(f, filepath.Join(work, name))
		if here := (*os.PathError)(nil); err != nil && !errors.As(err, &here) {
			err = fmt.Errorf("%w: %w", err, errDamaged)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %w", archive, f.Name, err)
		}
		files++
	}
	if files == 0 {
		return fmt.Errorf("%s holds no routes: %w", archive, errDamaged)
	}
	for name, want := range c.routes {
		if sum, err := fileio.SHA256(filepath.Join(work, name)); err == nil && sum != want {
			return fmt.Errorf("%s: %s is not the challenge's: SHA-256 %s, want %s", archive, name, sum, want)
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	return os.Rename(work, target)
}

func extract(f *zip.File, to string) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // checks the CRC
	return errors.Join(err, out.Close())
}
