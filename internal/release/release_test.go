package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// TestCheck: a version is refused that the project's files do not name, and so is what is not
// committed.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(changeLog, "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-02\n")
	write(python, "__version__ = \"1.2.3\"\n")
	if err := check(dir, "1.2.3"); err != nil {
		t.Error(err)
	}
	refused := func(version, want string) {
		t.Helper()
		if err := check(dir, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", version, err, want)
		}
	}
	refused("v1.2.3", "want one such as 1.2.3")
	refused("1.2.4", `no heading such as "## [1.2.4]`)
	write(python, "__version__ = \"1.2.30\"\n")
	refused("1.2.3", "is of another version")

	git := func(args ...string) {
		t.Helper()
		command := exec.Command(
			"git",
			append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	if _, err := head(dir); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("changes: %v", err)
	}
	git("commit", "-q", "-m", "one")
	if commit, err := head(dir); err != nil || len(commit) != 40 {
		t.Errorf("%q, %v", commit, err)
	}
}

// TestArchive: an archive has what it is to have, and nothing of when and where it was made.
func TestArchive(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	read := func(platform string) []byte {
		t.Helper()
		out, binary := t.TempDir(), filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(binary, []byte("a program"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := archive(out, platform, "1.2.3", binary, []byte("licences")); err != nil {
			t.Fatal(err)
		}
		if err := writeSums(out); err != nil {
			t.Fatal(err)
		}
		check := exec.Command("sha256sum", "-c", sumsName)
		check.Dir = out
		if text, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, text)
		}
		files, err := filepath.Glob(filepath.Join(out, "lockstep_1.2.3_*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for _, platform := range []string{"linux/amd64", "darwin/arm64", "windows/amd64"} {
		if !bytes.Equal(read(platform), read(platform)) {
			t.Errorf("%s: two archives of the same differ", platform)
		}
	}
	z, err := gzip.NewReader(bytes.NewReader(read("linux/arm64")))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if names = append(names, filepath.Base(h.Name)); h.ModTime.Unix() != 0 || h.Uname != "" ||
			(h.Mode == 0o755) != (len(names) == 1) {
			t.Errorf("%+v", h)
		}
	}
	if want := []string{"lockstep", licences, "LICENSE", "README.md", changeLog}; !slices.Equal(
		names, want,
	) {
		t.Errorf("%q, want %q", names, want)
	}
}

// project makes the folder of a project whose program is small, as it is committed.
func project(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		changeLog: "## [1.2.3] - 2026-01-02\n", python: "__version__ = \"1.2.3\"\n",
		"go.mod": "module small\n\ngo 1.26\n", "LICENSE": "free", "README.md": "small",
		program + "/main.go": "package main\n\nvar version, commit string\n\n" +
			"func main() { println(version, commit) }\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{
		"init -q", "add .", "-c user.name=a -c user.email=a@example.com commit -q -m one",
	} {
		command := exec.Command("git", strings.Fields(args)...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	return dir
}

// TestRun: a release is an archive for each platform, what they are made of, and all checksums,
// those of what lay there before too, but of no folder and no link; without a folder it is only
// said whether there can be one.
func TestRun(t *testing.T) {
	t.Chdir(project(t))
	out := filepath.Join(t.TempDir(), "dist")
	if err := errors.Join(os.MkdirAll(filepath.Join(out, "folder"), 0o777),
		os.WriteFile(filepath.Join(out, "a.whl"), nil, 0o666),
		os.Symlink("a.whl", filepath.Join(out, "latest.whl"))); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := run("1.2.3", out, []string{"linux/amd64", "windows/amd64"}); err != nil {
			t.Fatal(err)
		}
	}
	sums, err := os.ReadFile(filepath.Join(out, sumsName))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(sums)) {
		names = append(names, strings.TrimSpace(line[66:]))
	}
	want := []string{"a.whl", "lockstep_1.2.3.cdx.json", "lockstep_1.2.3_linux_amd64.tar.gz",
		"lockstep_1.2.3_windows_amd64.zip"}
	if !slices.Equal(names, want) {
		t.Errorf("sums of %q, want %q", names, want)
	}
	z, err := zip.OpenReader(filepath.Join(out, want[3]))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	inside := contents(t, z.File)
	if inside["lockstep.exe"] < 1e5 || inside["LICENSE"] != 4 || inside[licences] < 1000 ||
		len(inside) != 5 {
		t.Errorf("the archive holds %v", inside)
	}
	ofHead(t, z)
	if err := run("1.2.3", "", nil); err != nil {
		t.Errorf("it can be released: %v", err)
	}
	for want, err := range map[string]error{
		"want -platforms with -out": run("1.2.3", out, nil),
		"no heading such as":        run("1.2.4", "", nil),
		"linux/none: exit status":   run("1.2.3", out, []string{"linux/none"}),
		"linux: want a platform":    run("1.2.3", out, []string{"linux"}),
		"not a directory": run("1.2.3", filepath.Join(out, "a.whl", "b"),
			[]string{"linux/amd64"}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := os.WriteFile("README.md", []byte("changed"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run("1.2.3", "", nil); err == nil || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("what is not committed: %v", err)
	}
}

// ofHead: the program of a release says of which commit it is.
func ofHead(t *testing.T, z *zip.ReadCloser) {
	t.Helper()
	program, err := z.Open("lockstep_1.2.3_windows_amd64/lockstep.exe")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(program)
	commit, none := head(".")
	if err := errors.Join(err, none); err != nil || !bytes.Contains(text, []byte(commit)) {
		t.Errorf("the program is not of commit %s: %v", commit, err)
	}
}

// contents are the sizes of an archive's files. Its program must be Windows', whatever was built
// before it.
func contents(t *testing.T, files []*zip.File) map[string]uint64 {
	t.Helper()
	inside := map[string]uint64{}
	for _, f := range files {
		inside[filepath.Base(f.Name)] = f.UncompressedSize64
		if filepath.Ext(f.Name) != ".exe" {
			continue
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		begins := make([]byte, 2)
		if _, err := io.ReadFull(r, begins); err != nil || string(begins) != "MZ" {
			t.Errorf("%s begins with %q, %v, and no program of Windows does", f.Name, begins, err)
		}
	}
	return inside
}

// TestModules: what a program is built of is listed with its versions, and each has a licence.
func TestModules(t *testing.T) {
	modules, err := modulesOf(os.Args[0])
	if err != nil || len(modules) == 0 ||
		!slices.ContainsFunc(modules, func(m module) bool { return m.Path == goModule }) {
		t.Fatal(modules, err)
	}
	modules = append(
		modules, module{"golang.org/x/sys", "v0"},
	) // of which tests' programs may have none
	text, err := licencesOf(modules)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Format     string `json:"bomFormat"`
		Components []struct {
			Name, PURL string
			Ref        string `json:"bom-ref"`
		}
	}
	if err := json.Unmarshal(sbom("1.2.3", "0123", modules), &doc); err != nil ||
		doc.Format != "CycloneDX" || len(doc.Components) != len(modules) {
		t.Errorf("%v: %+v", err, doc)
	}
	for i, m := range modules {
		if !bytes.Contains(text, []byte("==== "+m.Path+" "+m.Version+": ")) {
			t.Errorf("no licence of %s", m.Path)
		}
		if want := "pkg:golang/" + m.Path + "@" + m.Version; doc.Components[i].PURL != want ||
			doc.Components[i].Ref != want {
			t.Errorf("%+v, want %q", doc.Components[i], want)
		}
	}
	for _, file := range []string{"LICENSE", "PATENTS"} { // all that there are
		if !bytes.Contains(text, []byte("==== golang.org/x/sys v0: "+file+"\n")) {
			t.Errorf("of golang.org/x/sys there is no %s", file)
		}
	}
	if _, err := folderOf(module{"example.com/none", "v1"}); err == nil {
		t.Error("a module that is not there has a folder")
	}
}

// TestBuild: a program is the same bytes from two folders, and says its version and commit.
func TestBuild(t *testing.T) {
	if !simtest.Whole(t) {
		t.Skip("it builds the program twice: make test-whole, make release-check")
	}
	var built [2][]byte
	for i, name := range []string{"a", "another-folder"} {
		folder := filepath.Join(t.TempDir(), name)
		if out, err := exec.Command("git", "clone", "-q", filepath.Join("..", ".."),
			folder).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Run(name, func(t *testing.T) {
			t.Chdir(folder)
			to := filepath.Join(t.TempDir(), "lockstep")
			if err := build("linux/amd64", "1.2.3", "0123abcd", to); err != nil {
				t.Fatal(err)
			}
			var err error
			if built[i], err = os.ReadFile(to); err != nil {
				t.Fatal(err)
			}
		})
	}
	if !bytes.Equal(built[0], built[1]) || !bytes.Contains(built[0], []byte("0123abcd")) {
		t.Errorf("%d and %d bytes differ, or have no commit", len(built[0]), len(built[1]))
	}
}
