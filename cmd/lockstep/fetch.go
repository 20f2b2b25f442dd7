package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	What string `arg:"" enum:"model,data" help:"model (4 MB) or data (0.6 GB, and 1.2 GB unpacked)."`
	Out  string `name:"out" placeholder:"DIR" help:"The folder; the user's cache folder by default, where all commands look."`

	// Overridden by tests.
	modelURL, dataURL string
	client            *http.Client
}

// Where the challenge keeps what belongs to it.
const (
	modelURL = "https://github.com/commaai/controls_challenge/raw/be8edfa849acdccfa2cb0092151ab28590d63c03/models/tinyphysics.onnx"
	dataURL  = "https://huggingface.co/datasets/commaai/commaSteeringControl/resolve/main/data/SYNTHETIC_V0.zip"
)

// Run is the fetch command. An interrupted download goes on where it stopped.
func (c *fetchCommand) Run(env *environment) error {
	if c.modelURL == "" {
		c.modelURL, c.dataURL, c.client = modelURL, dataURL, http.DefaultClient
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
	var err error
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
	if err := c.download(env, c.modelURL, part); err != nil {
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
	archive := filepath.Join(c.Out, "SYNTHETIC_V0.zip.part")
	if err := c.download(env, c.dataURL, archive); err != nil {
		return "", err
	}
	if err := unpack(env.ctx, archive, target); err != nil {
		if !errors.Is(err, context.Canceled) {
			os.Remove(archive) // a damaged archive would fail for ever
		}
		return "", err
	}
	return target, os.Remove(archive)
}

// download loads a file, from where an earlier attempt stopped.
func (c *fetchCommand) download(env *environment, url, to string) error {
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(env.ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK: // from the start, whatever was asked for
		if have, err = 0, f.Truncate(0); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	case http.StatusPartialContent:
	case http.StatusRequestedRangeNotSatisfiable: // all of it is here
		return nil
	default:
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	if free, ok := freeSpace(filepath.Dir(to)); ok && response.ContentLength > 0 && uint64(response.ContentLength) > free {
		return fmt.Errorf("%s: %d MB to load, but %d MB free", filepath.Dir(to), response.ContentLength>>20, free>>20)
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
		progressbar.OptionSetDescription(path.Base(url)),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
	bar.Set64(have)
	_, err = io.Copy(io.MultiWriter(f, bar), response.Body)
	bar.Clear()
	if err != nil {
		return fmt.Errorf("%s: %w; the same command goes on where it stopped", url, err)
	}
	return f.Close()
}

// unpack writes the CSV files of an archive to a folder that appears whole or
// not at all. The archive's own folders are left out, as the Python program
// does.
func unpack(ctx context.Context, archive, target string) (err error) {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w: run the same command again", archive, err)
	}
	defer z.Close()
	var size uint64
	for _, f := range z.File {
		size += f.UncompressedSize64
	}
	if free, ok := freeSpace(filepath.Dir(target)); ok && size > free {
		return fmt.Errorf("%s: %d MB to unpack, but %d MB free", filepath.Dir(target), size>>20, free>>20)
	}
	work, err := os.MkdirTemp(filepath.Dir(target), ".routes-*")
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
		if err := extract(f, filepath.Join(work, name)); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, f.Name, err)
		}
		files++
	}
	if files == 0 {
		return fmt.Errorf("%s holds no routes", archive)
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
