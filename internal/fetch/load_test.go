package fetch

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/assets"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
)

// TestLoad has a download begin with nothing, with a part, with all, and with more than a server
// has: what comes is told with its total, the first byte that is asked for is the one that lacks,
// and what is there in the end is the server's.
func TestLoad(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 20_000)
	for _, have := range []int{-1, 0, 1, 70_000, len(data) - 1, len(data)} {
		for _, mode := range []string{"ranges", "whole", "unsized"} {
			to := filepath.Join(t.TempDir(), "file")
			if have >= 0 {
				if err := os.WriteFile(to, data[:have], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			asked, said := "none", Revision{"c0ffee", sum(data)}
			s, at := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = r.Header.Get("Range")
				w.Header().Set("X-Repo-Commit", said.Revision)
				w.Header().Set("X-Linked-Etag", said.SHA256)
				switch mode {
				case "ranges":
					serve(data).ServeHTTP(w, r)
				case "whole":
					w.Header().Set("Content-Length", fmt.Sprint(len(data)))
					w.Write(data)
				case "unsized":
					w.Write(data)
					w.(http.Flusher).Flush()
				}
			}))
			var done, total int64 = -9, -9
			s.Progress = func(d, n int64) {
				if d <= done {
					t.Errorf("%d bytes after %d", d, done)
				}
				done, total = d, n
			}
			of, err := s.Load(t.Context(), at, to)
			wantRange, wantDone, wantTotal := "", int64(len(data)), int64(len(data))
			if have > 0 {
				wantRange = fmt.Sprintf("bytes=%d-", have)
			}
			if mode == "unsized" {
				wantTotal = -1
			}
			if mode == "ranges" && have == len(data) { // nothing comes
				wantDone, wantTotal = -9, -9
			}
			what := fmt.Sprintf("%s, with %d of %d bytes here", mode, have, len(data))
			if err != nil || of != said || asked != wantRange || done != wantDone ||
				total != wantTotal {
				t.Errorf("%s: %v, asked for %q, told %d of %d; want %q, %d of %d", what, err, asked,
					done, total, wantRange, wantDone, wantTotal)
			}
			got, err := os.ReadFile(to)
			if err := errors.Join(err, simtest.Same("the file", got, data)); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestLimit: a file may have as many bytes as the limit, those that are here already among them,
// and what has more is removed.
func TestLimit(t *testing.T) {
	data := []byte("0123456789")
	for _, have := range []int{0, 4} {
		for limit, good := range map[int64]bool{
			9: false, 10: true, 11: true, 5<<32 + 5: true,
		} {
			to := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(to, data[:have], 0o600); err != nil {
				t.Fatal(err)
			}
			s, at := server(t, serve(data))
			s.Limit = limit
			_, err := s.Load(t.Context(), at, to)
			want := fmt.Sprintf("%s: more than the %d bytes that it may have: not used", at, limit)
			if (err == nil) != good || err != nil && err.Error() != want {
				t.Errorf("%d bytes here, a limit of %d: %v", have, limit, err)
			}
			if _, err := os.Stat(to); (err == nil) != good {
				t.Errorf("%d bytes here, a limit of %d: the file, %v", have, limit, err)
			}
		}
	}
	cut, at := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write(data)
	}))
	cut.Limit = 9
	_, err := cut.Load(t.Context(), at, filepath.Join(t.TempDir(), "file"))
	simtest.Refused(t, "one that is cut off behind a byte too many", err, "more than the 9 bytes")
	for more, good := range map[int]bool{1: true, 2: false} { // than all but one of 8 GiB
		const have = 8<<30 - 1
		to := filepath.Join(t.TempDir(), "file")
		if err := errors.Join(os.WriteFile(to, nil, 0o600), os.Truncate(to, have)); err != nil {
			t.Skipf("no sparse files of %d bytes here: %v", have, err)
		}
		s, at := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-", have))
			w.WriteHeader(http.StatusPartialContent)
			w.Write(make([]byte, more))
		}))
		var told int64
		s.Progress = func(done, _ int64) { told = done }
		_, err := s.Load(t.Context(), at, to)
		want := fmt.Sprintf("%s: more than the 8589934592 bytes that it may have: not used", at)
		if (err == nil) != good || err != nil && err.Error() != want || told != have+int64(more) {
			t.Errorf("%d and %d bytes: told %d, %v", have, more, told, err)
		}
	}
}

// slow are a server's answers, of which each part takes a while.
type slow struct {
	parts       int
	first, each time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := wait(r.Context(), s.first); err != nil {
		return nil, err
	}
	body, w := io.Pipe()
	go func() {
		for range s.parts {
			if err := wait(r.Context(), s.each); err != nil {
				w.CloseWithError(err)
				return
			}
			w.Write([]byte("part"))
		}
		w.Close()
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Body: body, ContentLength: -1, Request: r,
	}, nil
}

// wait is as long as it is said, or until nobody waits any more.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// sent is an answer's body, and whether it was closed.
type sent struct {
	io.Reader
	closed bool
}

func (s *sent) Close() error { s.closed = true; return nil }

func (s *sent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: s, ContentLength: -1, Request: r}, nil
}

// TestGivenBack: what a download has used is given back when it ends: what came, and its part of
// the context.
func TestGivenBack(t *testing.T) {
	body, ctx := &sent{Reader: strings.NewReader("text")}, simtest.NewUnended()
	s := Default(nil)
	s.Client.Transport = body
	_, err := s.Load(ctx, "http://example.org/file", filepath.Join(t.TempDir(), "file"))
	if n := ctx.Waiting.Load(); err != nil || !body.closed || n != 0 {
		t.Errorf("%v, closed: %v, %d wait for the context's end", err, body.closed, n)
	}
}

// TestSlow: a download may take any time as long as something comes, and ends once nothing does,
// be it before the first byte or behind it; who ends it hears what was ended.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = "http://example.org/file"
		const stalled = at + ": nothing came for 1m0s; the same command goes on where it stopped"
		for _, c := range []struct {
			server slow
			end    time.Duration // when nobody waits any more
			want   string
		}{
			{slow{9, 50 * time.Second, 50 * time.Second}, time.Hour, "<nil>"},
			{slow{9, 70 * time.Second, time.Second}, time.Hour, stalled},
			{slow{9, time.Second, 70 * time.Second}, time.Hour, stalled},
			{slow{9, 50 * time.Second, 50 * time.Second}, 10 * time.Second,
				`Get "` + at + `": context canceled`},
			{slow{9, time.Second, 50 * time.Second}, 10 * time.Second,
				at + ": context canceled; the same command goes on where it stopped"},
		} {
			to := filepath.Join(t.TempDir(), "file")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(c.end, func() { cancel(fmt.Errorf("enough: %w", context.Canceled)) })
			s := Default(nil)
			s.Client.Transport = c.server
			_, err := s.Load(ctx, at, to)
			if text := fmt.Sprint(err); text != c.want {
				t.Errorf("%+v, ended after %v: %s, want %s", c.server, c.end, text, c.want)
			}
			simtest.Closed(t, filepath.Dir(to))
			cancel(nil)
			synctest.Wait()
		}
	})
}

// TestNothing: a download of which nothing came leaves no file, and one of which something was
// here before stays.
func TestNothing(t *testing.T) {
	for _, have := range []string{"", "part"} {
		to := filepath.Join(t.TempDir(), "file")
		if have != "" {
			if err := os.WriteFile(to, []byte(have), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, at := server(t, http.NotFoundHandler())
		if _, err := s.Load(t.Context(), at, to); err == nil ||
			err.Error() != at+": 404 Not Found" {
			t.Errorf("%q: %v", have, err)
		}
		if got, err := os.ReadFile(to); string(got) != have || (err == nil) != (have != "") {
			t.Errorf("%q was here, now %q (%v)", have, got, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Load(ended, at, to); !errors.Is(err, context.Canceled) {
			t.Errorf("ended: %v", err)
		}
	}
	other := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(other, []byte("part"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, at := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 7-9/10")
		w.WriteHeader(http.StatusPartialContent)
	}))
	const want = `its server was asked to go on at byte 4, and sends "bytes 7-9/10": run the same`
	_, err := s.Load(t.Context(), at, other)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if _, err := os.Stat(other); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what cannot be gone on with is left: %v", err)
	}
}

// TestSecure: redirections are followed nine times, and never from https to what is not.
func TestSecure(t *testing.T) {
	to := func(scheme string) *http.Request {
		return &http.Request{URL: &url.URL{Scheme: scheme, Host: "example.org"}}
	}
	const far, open = "redirected 10 times", "redirected to http://example.org, which is not https"
	for _, c := range []struct {
		first, next string
		times       int
		want        string
	}{
		{"https", "https", 1, ""}, {"https", "https", 9, ""}, {"https", "https", 10, far},
		{"https", "https", 11, far}, {"https", "http", 1, open}, {"https", "http", 10, open},
		{"http", "http", 9, ""}, {"http", "https", 9, ""}, {"http", "http", 10, far},
	} {
		via := []*http.Request{to(c.first)}
		for len(via) < c.times {
			via = append(via, to("https"))
		}
		err := secure(to(c.next), via)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s to %s after %d: %v, want %q", c.first, c.next, c.times, err, c.want)
		}
	}
	// A client does so.
	var loops *httptest.Server
	loops = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, loops.URL, http.StatusFound)
	}))
	defer loops.Close()
	if _, err := Default(nil).Load(t.Context(), loops.URL,
		filepath.Join(t.TempDir(), "file")); err == nil || !strings.Contains(err.Error(), far) {
		t.Errorf("%v, want %s", err, far)
	}
}

// TestRoom: what fits has room, whatever is not known has, and what does not fit is told in MB.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	free, ok := freeSpace(dir)
	if !ok && (runtime.GOOS == "linux" || runtime.GOOS == "darwin") {
		t.Fatal("nobody knows how much room there is")
	}
	if !ok {
		t.Skip("this system does not say how much room there is")
	}
	// A server says beforehand what is to come.
	const huge = 1 << 60
	s, at := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(huge))
		w.WriteHeader(http.StatusOK)
	}))
	_, err := s.Load(t.Context(), at, filepath.Join(dir, "huge"))
	simtest.Refused(t, "a file of 2^60 bytes", err, fmt.Sprint(huge>>20, " MB are needed"))
	_, tail, _ := strings.Cut(fmt.Sprint(err), "are needed, and ")
	var told uint64
	if _, err := fmt.Sscanf(tail, "%d MB free", &told); err != nil ||
		told < free>>20-free>>22 || told > free>>20+free>>22 { // others may use it, too
		t.Errorf("%q, of %d bytes that are free: %v", tail, free, err)
	}
	for size, good := range map[int64]bool{
		-1: true, 0: true, 1: true, int64(free / 2): true, int64(free)*2 + 1<<30: false,
	} {
		err := room(dir, size)
		if (err == nil) != good || err != nil && !strings.HasPrefix(
			err.Error(), fmt.Sprintf("%s: %d MB are needed, and ", dir, size/1024/1024),
		) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if _, ok := freeSpace(filepath.Join(dir, "none")); ok {
		t.Error("a folder that is not there has room")
	}
}

// TestHuge: an archive whose files say that they have more bytes than all routes is refused before
// any is unpacked, also where their sum would be a small number again; and a file that has fewer
// than it says is no file.
func TestHuge(t *testing.T) {
	for _, c := range []struct {
		sizes []uint64
		good  bool
	}{
		{[]uint64{3}, true}, {[]uint64{unpackedLimit + 1}, false},
		{[]uint64{unpackedLimit - 2, 3}, false}, {[]uint64{1 << 63, 1 << 63, 3}, false},
		{[]uint64{1<<64 - 1, 4}, false}, {[]uint64{4, 1<<64 - 1}, false},
		{[]uint64{unpackedLimit - 3, 3}, true}, // but for the content, which is less than it says
	} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i, size := range c.sizes {
			f, err := z.CreateRaw(&zip.FileHeader{
				Name: fmt.Sprintf("%d.csv", i), Method: zip.Store, CRC32: 0x352441c2,
				CompressedSize64: 3, UncompressedSize64: size,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("abc")); err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(t.TempDir(), "a.zip")
		if err := os.WriteFile(archive, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		err := unpack(t.Context(), archive, filepath.Join(filepath.Dir(archive), "routes"), nil)
		want := fmt.Sprintf("%s: more than 8589934592 bytes are in it: %v", archive, errForeign)
		many, refused := len(c.sizes) > 1, err != nil && err.Error() == want
		if refused == c.good || c.good && many == (err == nil) {
			t.Errorf("sizes %d: %v, want %q", c.sizes, err, want)
		}
		file := filepath.Join(filepath.Dir(archive), "file")
		err = Extract(archive, "0.csv", file)
		_, left := os.Stat(file)
		if (err == nil) != (c.sizes[0] == 3) || (err == nil) != (left == nil) {
			t.Errorf("of %d bytes, as it says, 3 are there: %v, left: %v", c.sizes[0], err, left)
		}
	}
}

// TestAsset: what is here is found without a server, alone in its folder.
func TestAsset(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	dir, err := assets.CacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"", dir, t.TempDir()} {
		at := folder
		if at == "" {
			at = dir
		}
		routes := filepath.Join(at, assets.Routes)
		if err := errors.Join(os.MkdirAll(routes, 0o700),
			writeOrigin(routes+".json", Revision{Revision: "abc"})); err != nil {
			t.Fatal(err)
		}
		path, of, err := Asset(t.Context(), "data", "abc", folder, nil)
		if err != nil || path != routes || of != "abc" {
			t.Errorf("%q: %s of %s, %v", folder, path, of, err)
		}
		if path, _, err := Asset(t.Context(), "data", "other", folder, nil); err == nil {
			t.Errorf("%q: revision abc is taken for another, in %s", folder, path)
		}
		lock, err := Lock(at)
		if err != nil {
			t.Fatal(err)
		}
		if path, _, err := Asset(t.Context(), "data", "", folder, nil); err == nil {
			t.Errorf("%q: two load at once, into %s", folder, path)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if path, of, err := Asset(ended, "model", "", dir, nil); path != "" || of != "" ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("a network that could not be loaded: %q of %q, %v", path, of, err)
	}
}

// TestOneName: two files of one name, in whichever folders of an archive, are refused.
func TestOneName(t *testing.T) {
	for _, names := range [][2]string{
		{"0.csv", "0.csv"}, {"a/0.csv", "b/0.csv"}, {"a/0.csv", `b\0.csv`}, {"a/b/0.csv", "0.csv"},
	} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range names {
			if _, err := z.Create(name); err != nil {
				t.Fatal(err)
			}
		}
		archive := filepath.Join(t.TempDir(), "a.zip")
		err := errors.Join(z.Close(), os.WriteFile(archive, b.Bytes(), 0o600))
		if err != nil {
			t.Fatal(err)
		}
		err = unpack(t.Context(), archive, filepath.Join(t.TempDir(), "routes"), nil)
		simtest.Refused(t, fmt.Sprint(names), err, `two files are named "0.csv": `)
		if !errors.Is(err, errForeign) {
			t.Errorf("%q: %v, want %v", names, err, errForeign)
		}
	}
}

// TestOtherNetwork: a file that is not the challenge's network takes no place, whatever its server
// says of it, and is not gone on with.
func TestOtherNetwork(t *testing.T) {
	other := []byte("another file")
	for _, tag := range []string{"", fmt.Sprintf("%x", sha256.Sum256(other))} {
		out := t.TempDir()
		_, err := fetchModel(t, out, http.HandlerFunc(func(
			w http.ResponseWriter, _ *http.Request,
		) {
			w.Header().Set("X-Linked-Etag", tag)
			w.Write(other)
		}))
		simtest.Refused(t, "tag "+tag, err, fmt.Sprintf("model is not the challenge's network: "+
			"%s: SHA-256 %s, want %s as the challenge's network has: run the same command again",
			filepath.Join(out, assets.Model+".part"), sum(other), model.OfficialSHA256))
		if left := leftBehind(out); len(left) != 0 {
			t.Errorf("tag %q: left behind: %v", tag, left)
		}
	}
}

// TestShorter: what a server sends from the start takes the place of what was here, of which
// nothing is left behind it.
func TestShorter(t *testing.T) {
	to := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(to, []byte("an older file, which was longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := server(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("new"))
	}))
	var told [][2]int64
	s := Default(func(done, total int64) { told = append(told, [2]int64{done, total}) })
	if _, err := s.Load(t.Context(), url, to); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, [][2]int64{{3, 3}}) {
		t.Errorf("told %d", told)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "new" {
		t.Errorf("loaded is %q, %v", got, err)
	}
}

// TestTold: of several responses the first has the word, and whatever comes is a sign of life.
func TestTold(t *testing.T) {
	said := func(tag, commit string, before *http.Response) *http.Response {
		return &http.Response{
			Request: &http.Request{Response: before},
			Header: http.Header{
				"X-Linked-Etag": {tag}, "X-Repo-Commit": {commit},
			},
		}
	}
	first, last := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, c := range []struct {
		response *http.Response
		want     Revision
	}{
		{said("", "", nil), Revision{}},
		{said(last, "last", said(first, "first", nil)), Revision{"first", first}},
		{said(last, "last", said("short", "", nil)), Revision{"last", last}},
		{said("short", "", said(first, "first", nil)), Revision{"first", first}},
	} {
		if got := originOf(c.response); got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
	alive := 0
	w := &counter{done: 5 << 32, total: 6 << 32, progress: func(done, total int64) {
		if done-5<<32 > 3 || done < 5<<32 || total != 6<<32 {
			t.Errorf("told %d of %d bytes, some behind %d of %d", done, total, 5<<32, 6<<32)
		}
	}, alive: func() { alive++ }}
	for n := range 3 {
		if w.Write(make([]byte, n)); alive != n+1 {
			t.Errorf("%d signs of life for %d writes", alive, n+1)
		}
	}
}

// TestUnpack: whatever lies before them in an archive, its routes are unpacked, and nothing else;
// nothing takes the place of what is there.
func TestUnpack(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{
		"a/", "notes.txt", ".hidden.csv", "x.csv/", "a/0.csv", "b", `c\1.csv`,
	} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			fmt.Fprint(f, name)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	archive, target := filepath.Join(dir, "a.zip"), filepath.Join(dir, "routes")
	if err := os.WriteFile(archive, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, good := range []bool{true, false} {
		if err := unpack(t.Context(), archive, target, nil); (err == nil) != good {
			t.Errorf("unpacked where nothing is, %v: %v", good, err)
		}
		simtest.Closed(t, dir)
		entries, err := os.ReadDir(target)
		if err != nil || len(entries) != 2 || entries[0].Name() != "0.csv" ||
			entries[1].Name() != "1.csv" {
			t.Errorf("unpacked are %v, %v", entries, err)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm()&0o555 != 0o555 {
		t.Errorf("others cannot read the routes: %v, %v", info.Mode(), err)
	}
	if left := leftBehind(dir); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
}
