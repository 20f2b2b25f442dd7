package fetch

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/simtest"
	"lockstep/routefile"
)

// server is one of the test's, and how it is asked.
func server(t *testing.T, handler http.Handler) (*Server, string) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return &Server{Client: s.Client(), Idle: time.Minute}, s.URL
}

func fetchModel(t *testing.T, out string, handler http.Handler) (string, error) {
	t.Helper()
	s, url := server(t, handler)
	return s.model(t.Context(), url+"/model", out)
}

func fetchRoutes(
	t *testing.T, out string, handler http.Handler, sums map[string]string,
) (path string, of Origin, err error) {
	t.Helper()
	return fetchRevision(t, out, "", handler, sums)
}

func fetchRevision(
	t *testing.T, out, revision string, handler http.Handler, sums map[string]string,
) (path string, of Origin, err error) {
	t.Helper()
	s, url := server(t, handler)
	return s.routes(t.Context(), url+"/%s/data.zip", revision, out, sums)
}

// serve serves bytes, ranges of them too.
func serve(data []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "file", time.Time{}, bytes.NewReader(data))
	})
}

func TestFetchModel(t *testing.T) {
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	target := filepath.Join(out, assets.Model)

	if _, err := fetchModel(t, out, serve([]byte("another file"))); err == nil ||
		!strings.Contains(err.Error(), "is not the challenge's network") {
		t.Errorf("another file: %v", err)
	}
	if _, err := fetchModel(t, out, http.NotFoundHandler()); err == nil ||
		!strings.Contains(err.Error(), "404") {
		t.Errorf("not found: %v", err)
	}
	if left := leftBehind(out); len(left) > 1 || len(left) == 1 && left[0] != assets.Model+".part" {
		t.Errorf("left behind: %v", left)
	}

	// The connection breaks; the next attempt asks for the rest only.
	half := len(data) / 2
	_, err = fetchModel(t, out, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:half])
	}))
	if err == nil || !strings.Contains(err.Error(), "goes on where it stopped") {
		t.Errorf("a broken connection: %v", err)
	}
	asked := ""
	got, err := fetchModel(t, out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Range")
		serve(data).ServeHTTP(w, r)
	}))
	if err != nil || got != target || asked != fmt.Sprintf("bytes=%d-", half) {
		t.Errorf("%q, %v, asked for %q; want %s and the second half", got, err, asked, target)
	}
	have, err := os.ReadFile(target)
	if err := errors.Join(err, simtest.Same("the file", have, data)); err != nil {
		t.Error(err)
	}
	if got, err := fetchModel(t, out, http.NotFoundHandler()); err != nil || got != target {
		t.Errorf("what is here is loaded again: %q, %v", got, err)
	}
}

func TestFetchData(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"SYNTHETIC_V0/00000.csv", "SYNTHETIC_V0/../../00001.csv", "SYNTHETIC_V0/notes.txt"} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(f, name)
	}
	z.Close()
	out := t.TempDir()
	got, _, err := fetchRoutes(t, out, serve(b.Bytes()), nil)
	if err != nil || got != filepath.Join(out, assets.Routes) {
		t.Fatalf("%q, %v", got, err)
	}
	files, err := routefile.List(got, -1)
	if err != nil || len(files) != 2 || filepath.Dir(files[1]) != got {
		t.Errorf("%v, %v; want two routes in the folder", files, err)
	}
	if left := leftBehind(out); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}

	damaged := t.TempDir()
	if _, _, err := fetchRoutes(t, damaged, serve(b.Bytes()[:b.Len()-30]), nil); err == nil ||
		!strings.Contains(err.Error(), "run the same command again") {
		t.Errorf("a damaged archive: %v", err)
	}
	if left := leftBehind(damaged); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// leftBehind are the files of a folder but the lock.
func leftBehind(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestFetchFaults holds fetch to end where a server falls silent, to keep what it
// has where the disk is full, to check what it can, and to be alone.
func TestFetchFaults(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("00000.csv")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, "content")
	z.Close()

	out := t.TempDir()
	silent, url := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
		w.Write(b.Bytes()[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	silent.Idle = 200 * time.Millisecond
	_, _, err = silent.routes(t.Context(), url+"/%s", "", out, nil)
	if err == nil ||
		!strings.Contains(
			err.Error(), "nothing came for 200ms; the same command goes on where it stopped",
		) {
		t.Errorf("a silent server: %v", err)
	}
	if left := leftBehind(out); len(left) != 1 {
		t.Errorf("after a silent server: %v", left)
	}

	// A target that cannot be written to is no fault of the archive.
	blocked := t.TempDir()
	if err := os.WriteFile(filepath.Join(blocked, "SYNTHETIC_V0.zip.part"), b.Bytes(),
		0o666); err != nil {
		t.Fatal(err)
	}
	if err := unpack(t.Context(), filepath.Join(blocked, "SYNTHETIC_V0.zip.part"),
		filepath.Join(blocked, "none", "routes"), nil); err == nil ||
		errors.Is(err, errDamaged) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := unpack(t.Context(), filepath.Join(blocked, "none.zip"),
		filepath.Join(blocked, "routes"), nil); err == nil ||
		errors.Is(err, errDamaged) {
		t.Errorf("an archive that cannot be opened: %v", err)
	}
	if err := Extract(filepath.Join(blocked, "SYNTHETIC_V0.zip.part"), "other",
		filepath.Join(blocked, "other")); err == nil ||
		!strings.Contains(err.Error(), "there is no other in it") {
		t.Errorf("a file that is not in the archive: %v", err)
	}
	if free, ok := freeSpace(blocked); ok {
		if err := room(blocked, int64(free)*2); err == nil ||
			!strings.Contains(err.Error(), "MB are needed") {
			t.Errorf("a disk that is too small: %v", err)
		}
	}

	signed := func(tag string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/main/data.zip" { // the address that redirects knows the hash
				w.Header().Set("X-Linked-Etag", `"`+tag+`"`)
				w.Header().Set("X-Repo-Commit", "abc")
				http.Redirect(w, r, "/store", http.StatusFound)
				return
			}
			serve(b.Bytes()).ServeHTTP(w, r)
		})
	}
	other := t.TempDir()
	if _, _, err := fetchRoutes(t, other, signed(sum([]byte("another"))), nil); err == nil ||
		!strings.Contains(err.Error(), "as its server says") ||
		len(leftBehind(other)) != 0 {
		t.Errorf("another hash: %v, left behind: %v", err, leftBehind(other))
	}
	if got, of, err := fetchRoutes(t, t.TempDir(), signed(sum(b.Bytes())), nil); err != nil ||
		of.Revision != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	known := map[string]string{"00000.csv": sum([]byte("other content"))}
	if _, _, err := fetchRoutes(t, t.TempDir(), serve(b.Bytes()), known); err == nil ||
		!strings.Contains(err.Error(), "not the challenge's routes: 00000.csv has SHA-256") {
		t.Errorf("other routes: %v", err)
	}
	known = map[string]string{"00009.csv": ""}
	if _, _, err := fetchRoutes(t, t.TempDir(), serve(b.Bytes()), known); err == nil ||
		!strings.Contains(err.Error(), "00009.csv is not among them") {
		t.Errorf("an archive without known routes: %v", err)
	}

	alone := t.TempDir()
	lock, err := Lock(alone)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(alone); err == nil ||
		!strings.Contains(err.Error(), "another process is at work here") {
		t.Errorf("two at once: %v", err)
	}
	lock.Close()
	if err := os.MkdirAll(filepath.Join(alone, ".routes-123"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetchRoutes(t, alone, serve(b.Bytes()), nil); err != nil ||
		len(leftBehind(alone)) != 2 {
		t.Errorf("%v, left behind: %v", err, leftBehind(alone))
	}
}

// TestFetchRevision: what is loaded again is of the revision that was loaded first.
func TestFetchRevision(t *testing.T) {
	content, commit := archived(t, "old"), "c0ffee"
	asked := ""
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = strings.Split(r.URL.Path, "/")[1]
		w.Header().Set("X-Repo-Commit", commit)
		serve(content).ServeHTTP(w, r)
	})
	out := t.TempDir()
	routes, of, err := fetchRoutes(t, out, handler, nil)
	if err != nil || asked != "main" || of != (Origin{"c0ffee", sum(content)}) {
		t.Fatalf("%+v of %s, %v", of, asked, err)
	}
	if _, of, err := fetchRevision(t, out, "c0ffee", http.NotFoundHandler(), nil); err != nil ||
		of.Revision != "c0ffee" {
		t.Errorf("what is here is loaded again: %+v, %v", of, err)
	}
	if _, _, err := fetchRevision(t, out, "main", http.NotFoundHandler(), nil); err == nil ||
		!strings.Contains(
			err.Error(), "of revision c0ffee, not main: name another folder with --out",
		) {
		t.Errorf("another revision in the place of one: %v", err)
	}

	if err := os.RemoveAll(routes); err != nil {
		t.Fatal(err)
	}
	old := content
	content = archived(t, "new")
	if _, _, err := fetchRoutes(t, out, handler, nil); err == nil ||
		!strings.Contains(err.Error(), "as revision c0ffee had before") ||
		asked != "c0ffee" {
		t.Errorf("other content of the same revision: %v, asked for %s", err, asked)
	}
	content = old
	if _, _, err := fetchRoutes(t, out, handler, nil); err != nil || asked != "c0ffee" {
		t.Errorf("the same revision: %v, asked for %s", err, asked)
	}
	if err := os.RemoveAll(routes); err != nil {
		t.Fatal(err)
	}
	content, commit = archived(t, "new"), "decaf"
	if _, of, err := fetchRevision(t, out, "main", handler, nil); err != nil || asked != "main" ||
		of.Revision != "decaf" {
		t.Errorf("the newest, when it is asked for: %+v of %s, %v", of, asked, err)
	}

	if err := errors.Join(os.RemoveAll(routes),
		os.WriteFile(routes+".json", []byte("{"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetchRoutes(t, out, handler, nil); err == nil ||
		!strings.Contains(err.Error(), "remove it to load the newest") {
		t.Errorf("a damaged record: %v", err)
	}
}

// archived is an archive with one route of that content.
func archived(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("00000.csv")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(f, content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
