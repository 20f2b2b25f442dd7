package main

import (
	"archive/zip"
	"bytes"
	"context"
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

	"lockstep"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/fileio"
)

// ownCache gives the test a cache folder of its own, and a working folder from
// which no assets are found.
func ownCache(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("LOCKSTEP_ASSETS", "")
	t.Chdir(t.TempDir())
	return dir
}

// TestOwnModel: without any asset a rollout uses the project's own, and says so.
func TestOwnModel(t *testing.T) {
	ownCache(t)
	status, stdout, stderr := lockstepRun(t.Context(), "rollout", "--num_segs", "2")
	if status != exitOK || strings.Count(stdout, "\n") != 4 || !strings.HasPrefix(stdout, "g00000  lataccel_cost: ") {
		t.Errorf("exit %d, stdout %q", status, stdout)
	}
	for _, want := range []string{"the project's own network", "generated routes"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr %q does not speak of %s", stderr, want)
		}
	}
}

func TestGenerateAndEval(t *testing.T) {
	ownCache(t)
	if status, stdout, stderr := lockstepRun(t.Context(), "generate", "--num_routes", "3", "--seed", "5", "--out", "routes"); status != exitOK || stdout != "3 routes of seed 5 in routes\n" {
		t.Fatalf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	args := []string{"eval", "--data_path", "routes", "--test_controller", "pid", "--baseline_controller", "zero", "--engine", "reference", "--no-cache", "--csv", "costs.csv", "--parquet", "costs.parquet"}
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	if status != exitOK || !strings.Contains(stdout, "test      pid                  3 routes, average lataccel_cost: ") || !strings.Contains(stdout, "report: report.html\n") {
		t.Fatalf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	html, err := os.ReadFile("report.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!doctype html>", "<svg", "g00002", "lockstep eval --data_path routes"} {
		if !bytes.Contains(bytes.ToLower(html), []byte(strings.ToLower(want))) {
			t.Errorf("the report lacks %q", want)
		}
	}
	csv, err := os.ReadFile("costs.csv")
	if err != nil || bytes.Count(csv, []byte("\n")) != 1+2*3 {
		t.Errorf("costs.csv: %v\n%s", err, csv)
	}
	if info, err := os.Stat("costs.parquet"); err != nil || info.Size() == 0 {
		t.Errorf("costs.parquet: %v", err)
	}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if status, _, _ := lockstepRun(cancelled, append(args, "--report", "none.html")...); status != exitInterrupted {
		t.Errorf("interrupted: exit %d, want 130", status)
	}
	if _, err := os.Stat("none.html"); err == nil {
		t.Error("an interrupted evaluation left a report")
	}
}

func TestControllerNames(t *testing.T) {
	ownCache(t)
	for _, args := range [][]string{{"rollout", "--controller", "mpc"}, {"eval", "--test_controller", "mpc"}} {
		status, _, stderr := lockstepRun(t.Context(), args...)
		if want := `"mpc": want zero, pid, a policy file, a Python file, or the name of one in ./controllers`; status != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, stderr %q; want 2 and %s", args, status, stderr, want)
		}
	}
}

func TestDemo(t *testing.T) {
	ownCache(t)
	status, stdout, stderr := lockstepRun(t.Context(), "demo")
	if status != exitOK || !strings.Contains(stdout, "reference") || !strings.Contains(stdout, "the project's own network") {
		t.Errorf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
	}
	if html, err := os.ReadFile("lockstep.html"); err != nil || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("the report: %v", err)
	}
}

func TestDoctor(t *testing.T) {
	dir := ownCache(t)
	status, stdout, stderr := lockstepRun(t.Context(), "doctor")
	if status != exitOK || stderr != "" {
		t.Errorf("exit %d, stderr %q", status, stderr)
	}
	for _, want := range []string{"lockstep fetch model", "lockstep fetch data", "make onnxruntime", "engine reference"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("without assets the doctor does not say %q:\n%s", want, stdout)
		}
	}
	bad := filepath.Join(dir, "lockstep", "assets", assets.Model)
	if err := os.WriteFile(mkdir(t, bad), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, stdout, _ := lockstepRun(t.Context(), "doctor"); !strings.Contains(stdout, "BAD") {
		t.Errorf("a damaged network is not found:\n%s", stdout)
	}
}

// mkdir makes the folder of a path and returns the path.
func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// fetch runs the fetch command against a server of the test's.
func fetch(t *testing.T, what, out string, handler http.Handler, change ...func(*fetchCommand)) (string, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	c := fetchCommand{What: what, Out: out, modelURL: server.URL + "/model", dataURL: server.URL + "/data.zip", client: server.Client(), idle: time.Minute}
	for _, f := range change {
		f(&c)
	}
	err := c.Run(&environment{ctx: t.Context(), stdout: &stickyWriter{w: &stdout}, stderr: &stderr})
	return strings.TrimSpace(stdout.String()), err
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

	if _, err := fetch(t, "model", out, serve([]byte("another file"))); err == nil || !strings.Contains(err.Error(), "is not the challenge's network") {
		t.Errorf("another file: %v", err)
	}
	if _, err := fetch(t, "model", out, http.NotFoundHandler()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("not found: %v", err)
	}
	if left := leftBehind(out); len(left) > 1 || len(left) == 1 && left[0] != assets.Model+".part" {
		t.Errorf("left behind: %v", left)
	}

	// The connection breaks; the next attempt asks for the rest only.
	half := len(data) / 2
	_, err = fetch(t, "model", out, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		w.Write(data[:half])
	}))
	if err == nil || !strings.Contains(err.Error(), "goes on where it stopped") {
		t.Errorf("a broken connection: %v", err)
	}
	asked := ""
	got, err := fetch(t, "model", out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Range")
		serve(data).ServeHTTP(w, r)
	}))
	if err != nil || got != target || asked != fmt.Sprintf("bytes=%d-", half) {
		t.Errorf("%q, %v, asked for %q; want %s and the second half", got, err, asked, target)
	}
	if have, err := os.ReadFile(target); err != nil || !bytes.Equal(have, data) {
		t.Errorf("the file differs (%v)", err)
	}
	if got, err := fetch(t, "model", out, http.NotFoundHandler()); err != nil || got != target {
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
	got, err := fetch(t, "data", out, serve(b.Bytes()))
	if err != nil || got != filepath.Join(out, assets.Routes) {
		t.Fatalf("%q, %v", got, err)
	}
	files, err := lockstep.RouteFiles(got, -1)
	if err != nil || len(files) != 2 || filepath.Dir(files[1]) != got {
		t.Errorf("%v, %v; want two routes in the folder", files, err)
	}
	if left := leftBehind(out); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}

	damaged := t.TempDir()
	if _, err := fetch(t, "data", damaged, serve(b.Bytes()[:b.Len()-30])); err == nil || !strings.Contains(err.Error(), "run the same command again") {
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
		if e.Name() != fetchLock {
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
	sum := func(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

	out := t.TempDir()
	_, err = fetch(t, "data", out, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(b.Len()))
		w.Write(b.Bytes()[:10])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}), func(c *fetchCommand) { c.idle = 200 * time.Millisecond })
	if err == nil || !strings.Contains(err.Error(), "nothing came for 200ms; the same command goes on where it stopped") {
		t.Errorf("a silent server: %v", err)
	}
	if left := leftBehind(out); len(left) != 1 {
		t.Errorf("after a silent server: %v", left)
	}

	// A target that cannot be written to is no fault of the archive.
	blocked := t.TempDir()
	if err := os.WriteFile(filepath.Join(blocked, "SYNTHETIC_V0.zip.part"), b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	c := &fetchCommand{}
	if err := c.unpack(t.Context(), filepath.Join(blocked, "SYNTHETIC_V0.zip.part"), filepath.Join(blocked, "none", "routes")); err == nil || errors.Is(err, errDamaged) {
		t.Errorf("a folder that is not there: %v", err)
	}

	signed := func(tag string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/data.zip" { // the address that redirects knows the hash
				w.Header().Set("X-Linked-Etag", `"`+tag+`"`)
				w.Header().Set("X-Repo-Commit", "abc")
				http.Redirect(w, r, "/store", http.StatusFound)
				return
			}
			serve(b.Bytes()).ServeHTTP(w, r)
		})
	}
	if _, err := fetch(t, "data", t.TempDir(), signed(sum([]byte("another")))); err == nil || !strings.Contains(err.Error(), "as its server says") {
		t.Errorf("another hash: %v", err)
	}
	if got, err := fetch(t, "data", t.TempDir(), signed(sum(b.Bytes()))); err != nil || !strings.HasSuffix(got, "(revision abc)") {
		t.Errorf("%q, %v", got, err)
	}
	known := func(c *fetchCommand) { c.routes = map[string]string{"00000.csv": sum([]byte("other content"))} }
	if _, err := fetch(t, "data", t.TempDir(), serve(b.Bytes()), known); err == nil || !strings.Contains(err.Error(), "00000.csv is not the challenge's") {
		t.Errorf("other routes: %v", err)
	}

	alone := t.TempDir()
	lock, err := fileio.Lock(filepath.Join(alone, fetchLock))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, "data", alone, serve(b.Bytes())); err == nil || !strings.Contains(err.Error(), "another process is at work here") {
		t.Errorf("two at once: %v", err)
	}
	lock.Close()
	if err := os.MkdirAll(filepath.Join(alone, ".routes-123"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(t, "data", alone, serve(b.Bytes())); err != nil || len(leftBehind(alone)) != 1 {
		t.Errorf("%v, left behind: %v", err, leftBehind(alone))
	}
}

// TestBench holds the table to what a short run gives.
func TestBench(t *testing.T) {
	assetstest.Model(t)
	status, stdout, stderr := lockstepRun(t.Context(), "bench", "--jobs", "2", "--repetitions", "1")
	if status != exitOK || !strings.Contains(stdout, "equal, 2 of 2") || strings.Contains(stdout, "DIFFERENT") {
		t.Errorf("exit %d, stdout %s, stderr %s", status, stdout, stderr)
	}
	if status, _, stderr := lockstepRun(t.Context(), "bench", "--jobs", "0"); status != exitUsage || !strings.Contains(stderr, "want 1 or more") {
		t.Errorf("no jobs: exit %d, %s", status, stderr)
	}
}
