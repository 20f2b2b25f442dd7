// Package fetch brings files here that others keep: a download goes on where it was
// broken off, ends where nothing comes any more, and is checked before it is used.
package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/internal/fileio"
)

// lockName is the file by which two are kept from loading into one folder.
const lockName = ".fetch"

// Lock makes a folder and keeps others from loading into it.
func Lock(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	return fileio.Disk.Lock(filepath.Join(dir, lockName))
}

// Server is how files are loaded.
type Server struct {
	Client   *http.Client
	Idle     time.Duration           // how long nothing may come
	Progress func(done, total int64) // bytes; total is -1 where the server does not say
	Limit    int64                   // of bytes that are believed to be a file; 0: fileLimit
}

// fileLimit is more than any file that is fetched has.
const fileLimit = 8 << 30

// Default is a server as it should be.
func Default(progress func(done, total int64)) *Server {
	return &Server{
		Client:   &http.Client{CheckRedirect: secure},
		Idle:     time.Minute,
		Progress: progress,
	}
}

// secure follows redirections as http does, but for those to where anybody on the way could
// answer.
func secure(request *http.Request, via []*http.Request) error {
	if via[0].URL.Scheme == "https" && request.URL.Scheme != "https" {
		return fmt.Errorf("redirected to %s, which is not https", request.URL)
	}
	if len(via) >= 10 {
		return errors.New("redirected 10 times")
	}
	return nil
}

// Revision is what a server says of a file: the commit that it is of and the SHA-256 of
// its content, or nothing.
type Revision struct {
	Revision string `json:"revision,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
}

// originOf reads the headers of a response and of those that led to it.
func originOf(response *http.Response) (o Revision) {
	for ; response != nil; response = response.Request.Response {
		if tag := strings.Trim(response.Header.Get("X-Linked-Etag"), `"`); len(tag) == 64 {
			o.SHA256 = tag
		}
		if commit := response.Header.Get("X-Repo-Commit"); commit != "" {
			o.Revision = commit
		}
	}
	return o
}

// Load loads a file, from where an earlier attempt stopped. What its server says of its
// content is held to it, and what is not so is removed.
func (s *Server) Load(ctx context.Context, from, to string) (of Revision, err error) {
	if of, err = s.load(ctx, from, to); err != nil || of.SHA256 == "" {
		return of, err
	}
	return of, hold(to, of.SHA256, "its server says")
}

// hold removes a file that has not the content that somebody says it has.
func hold(path, want, says string) error {
	sum, err := fileio.SHA256(path)
	if err != nil || sum == want {
		return err
	}
	return errors.Join(
		fmt.Errorf(
			"%s: SHA-256 %s, want %s as %s: run the same command again", path, sum, want, says,
		),
		os.Remove(path),
	)
}

func (s *Server) load(ctx context.Context, from, to string) (of Revision, err error) {
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return of, err
	}
	defer func() {
		if info, failed := f.Stat(); err != nil && failed == nil && info.Size() == 0 {
			os.Remove(to) // there is nothing to go on with
		}
		f.Close()
	}()
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return of, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(s.Idle, func() {
		stop(fmt.Errorf(
			"%s: nothing came for %v; the same command goes on where it stopped", from, s.Idle,
		))
	})
	defer idle.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return of, err
	}
	if have > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	response, err := s.Client.Do(request)
	if err != nil {
		return of, cmp.Or(stalled(ctx), err)
	}
	defer response.Body.Close()
	idle.Reset(s.Idle) // its head has come
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
		if got, want := response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-",
			have); !strings.HasPrefix(got, want) {
			return of, errors.Join(
				fmt.Errorf("%s: its server was asked to go on at byte %d, and sends %q: "+
					"run the same command again", from, have, got),
				os.Remove(to),
			)
		}
	case http.StatusRequestedRangeNotSatisfiable: // all of it is here
		return of, nil
	default:
		return of, fmt.Errorf("%s: %s", from, response.Status)
	}
	if err := room(filepath.Dir(to), response.ContentLength); err != nil {
		return of, err
	}
	w := &counter{done: have, total: -1, progress: s.Progress, alive: func() { idle.Reset(s.Idle) }}
	if response.ContentLength >= 0 {
		w.total = have + response.ContentLength
	}
	limit := cmp.Or(s.Limit, fileLimit)
	body := io.LimitReader(response.Body, limit-have+1)
	if _, err = io.Copy(io.MultiWriter(f, w), body); err == nil && w.done > limit {
		return of, errors.Join(
			fmt.Errorf("%s: more than the %d bytes that it may have: not used", from, limit),
			os.Remove(to),
		)
	}
	if err != nil {
		return of, cmp.Or(
			stalled(ctx),
			fmt.Errorf("%s: %w; the same command goes on where it stopped", from, err),
		)
	}
	return of, f.Sync()
}

// stalled is why a download was stopped from here, or nil.
func stalled(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// counter tells of bytes as they come.
type counter struct {
	done, total int64
	progress    func(done, total int64)
	alive       func()
}

func (c *counter) Write(p []byte) (int, error) {
	c.done += int64(len(p))
	c.alive()
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
	return len(p), nil
}

// room is an error if a folder's disk has not as many bytes left.
func room(dir string, size int64) error {
	if free, ok := freeSpace(dir); ok && size > 0 && uint64(size) > free {
		return fmt.Errorf("%s: %d MB are needed, and %d MB free", dir, size>>20, free>>20)
	}
	return nil
}
