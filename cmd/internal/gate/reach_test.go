package gate

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/parity/verdict"
)

// module is a checkout with packages that import one another: base, over it middle, and
// top, whose tests alone import middle.
func moduleTree(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{
		"go.mod": "module a\n\ngo 1.26\n", "Makefile": "", "README.md": "",
		"docs/docs_test.go": "package docs\n", "notes/plan.txt": "",
		"base/base.go": "package base\n", "base/base_test.go": "package base\n",
		"base/testdata/x.bin": "",
		"middle/middle.go":    "package middle\n\nimport _ \"a/base\"\n",
		"top/top.go":          "package top\n", "top/top_test.go": "package top\n\nimport _ " +
			"\"a/middle\"\n",
		"aside/aside.go": "package aside\n",
		"device/gpu.go": "//go:build cuda\n\npackage device\n\n" +
			"import _ \"a/aside\"\n",
		"device/plain.go":                    "//go:build !cuda\n\npackage device\n",
		"over/under/under.go":                "package under\n\nimport _ \"a/base\"\n",
		"gpu/internal/kernels/a.cu":          "int a; // one\n",
		"gpu/internal/kernels/classic/b.cuh": "int b;\n",
		"gpu/internal/kernels/k.go":          "package kernels\n",
	} {
		write(t, root, file, text)
	}
	command(t, root, "init", "--quiet")
	commit(t, root)
	command(t, root, "tag", "base")
	return root
}

// TestReached: the packages whose tests a change may concern, by what they import.
func TestReached(t *testing.T) {
	root := moduleTree(t)
	g, err := imports(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for files, want := range map[string]string{
		"base/base.go":              "base docs middle over/under top",
		"base/testdata/x.bin":       "base docs middle over/under top",
		"base/base_test.go":         "base docs",
		"middle/middle.go":          "docs middle top",
		"top/top_test.go":           "docs top",
		"aside/aside.go":            "aside device docs",
		"aside/aside.go top/top.go": "aside device docs top",
		"README.md":                 "docs",
		"base/README.md":            "docs",
		"Makefile":                  "./...",
		"notes/plan.txt":            "./...",
		"gone/gone.go":              "./...",
		"gone/gone_test.go":         "./...",
		".github/workflows/a.yml":   "docs",
	} {
		if got := strings.Join(g.reached(strings.Fields(files)), " "); got != want {
			t.Errorf("%s: %s, want %s", files, got, want)
		}
	}
	if _, err := imports(t.Context(), filepath.Join(root, "none")); err == nil {
		t.Error("a folder that is not there has an import graph")
	}
}

// TestReaders: what the table names is there, and a file of each line concerns its packages.
func TestReaders(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	g, err := imports(t.Context(), must(filepath.Abs(root)))
	if err != nil {
		t.Fatal(err)
	}
	folders := slices.Clone(sources)
	for _, r := range readers {
		if _, err := os.Stat(filepath.Join(root, r.begin)); err != nil {
			t.Error(err)
		}
		folders = append(folders, r.packages...)
		file := path.Join(r.begin, "some"+r.end)
		if info, err := os.Stat(filepath.Join(root, r.begin)); err == nil && !info.IsDir() {
			file = r.begin
		}
		test := strings.TrimSuffix(file, ".go") + "_test.go"
		if !r.reads(file) || r.end == ".go" && r.reads(test) {
			t.Errorf("%+v reads %s: %v, and %s: %v", r, file, r.reads(file), test, r.reads(test))
		}
		reached := g.reached([]string{file})
		for _, folder := range slices.Concat(r.packages, sources) {
			if reached[0] == everyPackage {
				break
			}
			if !slices.Contains(reached, folder) {
				t.Errorf("%s concerns %v, and not %s", file, reached, folder)
			}
		}
	}
	for _, target := range targets {
		for _, folder := range target.of {
			if _, err := os.Stat(filepath.Join(root, folder)); err != nil {
				t.Errorf("%s: %v", target.name, err)
			}
		}
	}
	for _, folder := range folders {
		if folder != everyPackage && !g.folders[folder] {
			t.Errorf("%s is no package", folder)
		}
	}
}

func must(path string, err error) string {
	if err != nil {
		panic(err)
	}
	return path
}

// TestUntouched: a target runs if something of it has changed; the kernels are not compiled
// again for what no compiler sees.
func TestUntouched(t *testing.T) {
	const kernels = "gpu/internal/kernels"
	for _, c := range []struct {
		file, text string
		of         []string
		why        string
	}{
		{kernels + "/a.cu", "int a; // two\n", []string{kernels}, "only what no compiler sees"},
		{kernels + "/a.cu", "int c; // one\n", []string{kernels}, ""},
		{
			kernels + "/classic/b.cuh", "int b ;\n", []string{kernels},
			"only what no compiler sees",
		},
		{kernels + "/classic/b.cuh", "int c;\n", []string{kernels}, ""},
		{kernels + "/new.h", "\n", []string{kernels}, ""},
		{kernels + "/classic/new.h", "int c;\n", []string{kernels}, ""},
		{"gpu/internal/module/manifest.json", "{}", []string{"gpu/internal/module"}, ""},
		{
			"aside/aside.go", "package aside // changed\n", []string{kernels},
			"nothing of " + kernels + " has changed",
		},
		{"aside/aside.go", "package aside // changed\n", []string{"device"}, ""},
		{"aside/aside.go", "package aside // changed\n", nil, ""},
		{"Makefile", "x:", []string{kernels}, ""},
		{"base/base.go", "package base // changed\n", []string{"over"}, ""},
		{"base/base.go", "package base // changed\n", []string{"ov"}, "nothing of ov has changed"},
		{"base/base.go", "package base // changed\n", []string{"."}, "nothing of . has changed"},
	} {
		root := moduleTree(t)
		write(t, root, c.file, c.text)
		g := &run{
			Config: Config{Root: root},
			dir:    t.TempDir(),
			change: Changed(t.Context(), root, "base"),
		}
		if got := g.untouched(t.Context(), kernelsCheck, c.of); !strings.Contains(got, c.why) ||
			(got == "") != (c.why == "") {
			t.Errorf("%s, for %v: %q, want %q", c.file, c.of, got, c.why)
		}
	}
	root := moduleTree(t)
	if !sameKernels(t.Context(), root, t.TempDir(), "base") {
		t.Error("kernels that nobody has changed are others")
	}
	if sameKernels(t.Context(), root, t.TempDir(), "none") {
		t.Error("kernels are those of a revision that there is not")
	}
	// What else has changed beside a comment is of the kernels, or is not.
	write(t, root, kernels+"/a.cu", "int a; // two\n")
	const unseen = "of the kernels only what no compiler sees has changed"
	for file, why := range map[string]string{
		"gpu/internal/module/manifest.json": "", "aside/aside.go": unseen,
	} {
		g := &run{Config: Config{Root: root}, dir: t.TempDir(), change: verdict.Change{
			MergeBase: "base", Files: []string{kernels + "/a.cu", file},
		}}
		if got := g.untouched(t.Context(), kernelsCheck, []string{kernels}); got != why {
			t.Errorf("a comment, and %s: %q, want %q", file, got, why)
		}
	}
}

// TestCompiledTargets: what the compiled kernels' tests depend on makes their target run.
func TestCompiledTargets(t *testing.T) {
	for _, target := range targets {
		for _, folder := range []string{
			"gpu", "gpu/classic", "gpu/internal/translate", "gpu/internal/driver/emulated",
		} {
			g := &run{change: verdict.Change{Packages: []string{folder}}}
			if why := g.untouched(t.Context(), target.name,
				target.of); target.name == "test-compiled" &&
				why != "" {
				t.Errorf("%s has changed, and %s does not run: %s", folder, target.name, why)
			}
		}
	}
}
