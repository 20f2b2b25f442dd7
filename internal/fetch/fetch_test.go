package fetch

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
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
) (path string, of Revision, err error) {
	t.Helper()
	return fetchRevision(t, out, "", handler, sums)
}

func fetchRevision(
	t *testing.T, out, revision string, handler http.Handler, sums map[string]string,
) (path string, of Revision, err error) {
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
	for _, name := range []string{
		"SYNTHETIC_V0/00000.csv", "SYNTHETIC_V0/../../00001.csv", "SYNTHETIC_V0/notes.txt",
	} {
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
	archive := archived(t, "content")
	for name, check := range map[string]func(*testing.T, []byte){
		"a silent server":       silentServer,
		"a target in the way":   targetInTheWay,
		"what a server signs":   signedArchive,
		"other routes":          otherRoutes,
		"two processes at once": twoAtOnce,
	} {
		t.Run(name, func(t *testing.T) { check(t, archive) })
	}
}

func silentServer(t *testing.T, archive []byte) {
	out := t.TempDir()
	silent, url := server(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(archive)))
		w.Write(archive[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	silent.Idle = 200 * time.Millisecond
	_, _, err := silent.routes(t.Context(), url+"/%s", "", out, nil)
	simtest.Refused(t, "a silent server", err,
		"nothing came for 200ms; the same command goes on where it stopped")
	if left := leftBehind(out); len(left) != 1 {
		t.Errorf("after a silent server: %v", left)
	}
}

// targetInTheWay: a target that cannot be written to is no fault of the archive.
func targetInTheWay(t *testing.T, archive []byte) {
	blocked := t.TempDir()
	path := filepath.Join(blocked, "SYNTHETIC_V0.zip.part")
	if err := os.WriteFile(path, archive, 0o666); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"a folder that is not there": unpack(t.Context(), path,
			filepath.Join(blocked, "none", "routes"), nil),
		"an archive that cannot be opened": unpack(t.Context(),
			filepath.Join(blocked, "none.zip"), filepath.Join(blocked, "routes"), nil),
	} {
		if err == nil || errors.Is(err, errDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	simtest.Refused(t, "a file that is not in the archive",
		Extract(path, "other", filepath.Join(blocked, "other")), "there is no other in it")
	// Of a file that is damaged nothing is left, and what was there stays as it is.
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.CreateHeader(&zip.FileHeader{Name: "a", Method: zip.Store})
	if err == nil {
		_, err = f.Write([]byte("content"))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	for _, c := range []struct{ content, want string }{
		{"content", ""}, {"kontent", "checksum error"},
	} {
		to := filepath.Join(blocked, "of-"+c.content)
		data := bytes.Replace(good, []byte("content"), []byte(c.content), 1)
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		err := Extract(path, "a", to)
		got, left := os.ReadFile(to)
		if c.want != "" {
			simtest.Refused(t, c.content, err, c.want)
			if !errors.Is(left, fs.ErrNotExist) {
				t.Errorf("of a damaged file %q is left, %v", got, left)
			}
		} else if err != nil || string(got) != c.content {
			t.Errorf("%q was extracted, %v", got, err)
		}
	}
	simtest.Closed(t, blocked)
	there := filepath.Join(blocked, "of-content")
	simtest.Refused(t, "a file that is there", Extract(path, "a", there), "exists")
	if got, err := os.ReadFile(there); err != nil || string(got) != "content" {
		t.Errorf("what was there is %q, %v", got, err)
	}
	if free, ok := freeSpace(blocked); ok {
		simtest.Refused(t, "a disk that is too small", room(blocked, int64(free)*2),
			"MB are needed")
	}
}

// signedArchive: what comes has the hash that the server says, if it says one.
func signedArchive(t *testing.T, archive []byte) {
	signed := func(tag string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/main/data.zip" { // the address that redirects knows the hash
				w.Header().Set("X-Linked-Etag", `"`+tag+`"`)
				w.Header().Set("X-Repo-Commit", "abc")
				http.Redirect(w, r, "/store", http.StatusFound)
				return
			}
			serve(archive).ServeHTTP(w, r)
		})
	}
	other := t.TempDir()
	_, _, err := fetchRoutes(t, other, signed(sum([]byte("another"))), nil)
	simtest.Refused(t, "another hash", err, "as its server says")
	if left := leftBehind(other); len(left) != 0 {
		t.Errorf("after another hash: %v", left)
	}
	if got, of, err := fetchRoutes(t, t.TempDir(), signed(sum(archive)), nil); err != nil ||
		of.Revision != "abc" {
		t.Errorf("%q of %+v, %v", got, of, err)
	}
}

// otherRoutes: an archive of routes that are known has all of them, and as they are.
func otherRoutes(t *testing.T, archive []byte) {
	for what, c := range map[string]struct{ name, sum, says string }{
		"other routes": {"00000.csv", sum([]byte("other content")),
			"not the challenge's routes: 00000.csv has SHA-256"},
		"an archive without known routes": {"00009.csv", "", "00009.csv is not among them"},
	} {
		_, _, err := fetchRoutes(t, t.TempDir(), serve(archive), map[string]string{c.name: c.sum})
		simtest.Refused(t, what, err, c.says)
	}
}

// twoAtOnce: one process works in a folder, and removes what an ended one has left there.
func twoAtOnce(t *testing.T, archive []byte) {
	alone := t.TempDir()
	lock, err := Lock(alone)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(alone)
	simtest.Refused(t, "two at once", err, "another process is at work here")
	lock.Close()
	if err := os.MkdirAll(filepath.Join(alone, ".routes-123"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fetchRoutes(t, alone, serve(archive), nil); err != nil ||
		len(leftBehind(alone)) != 2 {
		t.Errorf("%v, left behind: %v", err, leftBehind(alone))
	}
}

// A hub serves an archive, says of which commit it is, and keeps for what it was asked.
type hub struct {
	content       []byte
	commit, asked string
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked = strings.Split(r.URL.Path, "/")[1]
	w.Header().Set("X-Repo-Commit", h.commit)
	serve(h.content).ServeHTTP(w, r)
}

// TestFetchRevision: what is loaded again is of the revision that was loaded first.
func TestFetchRevision(t *testing.T) {
	h := &hub{content: archived(t, "old"), commit: "c0ffee"}
	out := t.TempDir()
	routes, of, err := fetchRoutes(t, out, h, nil)
	if err != nil || h.asked != "main" || of != (Revision{"c0ffee", sum(h.content)}) {
		t.Fatalf("%+v of %s, %v", of, h.asked, err)
	}
	if _, of, err := fetchRevision(t, out, "c0ffee", http.NotFoundHandler(), nil); err != nil ||
		of.Revision != "c0ffee" {
		t.Errorf("what is here is loaded again: %+v, %v", of, err)
	}
	_, _, err = fetchRevision(t, out, "main", http.NotFoundHandler(), nil)
	simtest.Refused(t, "another revision in the place of one", err,
		"of revision c0ffee, not main: name another folder with --out")
	if err := os.Rename(routes+".json", routes+".kept"); err != nil {
		t.Fatal(err)
	}
	_, _, err = fetchRevision(t, out, "c0ffee", http.NotFoundHandler(), nil)
	simtest.Refused(t, "a revision in the place of nobody knows which", err,
		"of revision unknown, not c0ffee: name another folder with --out")
	if err := os.Rename(routes+".kept", routes+".json"); err != nil {
		t.Fatal(err)
	}

	fetchedAgain(t, h, out, routes)

	if err := errors.Join(os.RemoveAll(routes),
		os.WriteFile(routes+".json", []byte("{"), 0o666)); err != nil {
		t.Fatal(err)
	}
	_, _, err = fetchRoutes(t, out, h, nil)
	simtest.Refused(t, "a damaged record", err, "remove it to load the newest")
}

// fetchedAgain: where the routes are gone, and the record of their revision is left, that
// revision is asked for, with the content that it had, until the newest is asked for.
func fetchedAgain(t *testing.T, h *hub, out, routes string) {
	t.Helper()
	remove := func() {
		t.Helper()
		if err := os.RemoveAll(routes); err != nil {
			t.Fatal(err)
		}
	}
	remove()
	old := h.content
	h.content = archived(t, "new")
	_, _, err := fetchRoutes(t, out, h, nil)
	simtest.Refused(t, "other content of the same revision", err, "as revision c0ffee had before")
	if h.asked != "c0ffee" {
		t.Errorf("other content of the same revision: asked for %s", h.asked)
	}
	h.content = old
	if _, _, err := fetchRoutes(t, out, h, nil); err != nil || h.asked != "c0ffee" {
		t.Errorf("the same revision: %v, asked for %s", err, h.asked)
	}
	remove()
	h.content, h.commit = archived(t, "new"), "decaf"
	if _, of, err := fetchRevision(t, out, "main", h, nil); err != nil || h.asked != "main" ||
		of.Revision != "decaf" {
		t.Errorf("the newest, when it is asked for: %+v of %s, %v", of, h.asked, err)
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
