package gate

import (
	"lockstep/engines"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is a git checkout with one commit, tagged base, and the files of every
// kind in it.
func repository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range []string{
		"README.md", "LICENSE", "route.go", "reference/gpt.go", "batched/onnxruntime/graph.go",
		"gpu/abi.go", "gpu/README.md", "golden/testdata/a.npz", "golden/testdata/notes.md",
		"cmd/internal/report/page.go", "cmd/lockstep/main.go", "Makefile",
	} {
		write(t, root, file, "first\n")
	}
	write(t, root, ".gitignore", "/build/\n")
	write(t, root, "go.mod", "module a\n\ngo 1.26\n")
	command(t, root, "init", "--quiet")
	commit(t, root)
	command(t, root, "tag", "base")
	return root
}

func write(t *testing.T, root, file, text string) {
	t.Helper()
	path := filepath.Join(root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// command runs git as somebody, without anybody's configuration.
func command(t *testing.T, root string, args ...string) {
	t.Helper()
	c := exec.Command(
		"git",
		append(
			[]string{
				"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false",
			},
			args...)...)
	c.Dir = root
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func commit(t *testing.T, root string) {
	t.Helper()
	command(t, root, "add", "--all")
	command(t, root, "commit", "--quiet", "--allow-empty", "-m", "change")
}

var testEngines = engines.Names()

// TestDocumentation: what no program reads is documentation, in whatever folder, but for what
// tests read.
func TestDocumentation(t *testing.T) {
	for file, want := range map[string]bool{
		"README.md": true, "gpu/README.md": true, "mytestdata/a.md": true, "LICENSE": true,
		"testdata/a.md": false, "golden/testdata/a/b.md": false, "gpu/LICENSE": false,
		"a.md.go": false, "docs/a.txt": false,
	} {
		if got := documentation(file); got != want {
			t.Errorf("%s is documentation: %v", file, got)
		}
	}
}

func TestChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, root string)
		base    string
		engines []string // of an answer that is not everything
		docs    bool
		why     string
	}{
		"documentation": {
			change: func(t *testing.T, root string) {
				write(t, root, "README.md", "second")
				write(t, root, "gpu/README.md", "second")
				commit(t, root)
				write(t, root, "NEW.md", "not committed")
			}, docs: true, why: "documentation only",
		},
		"notes of recordings are no documentation": {
			change: func(t *testing.T, root string) {
				write(t, root, "golden/testdata/notes.md", "x")
			},
			why: "golden/testdata/notes.md concerns every engine",
		},
		"one engine, committed": {
			change: func(t *testing.T, root string) {
				write(t, root, "batched/onnxruntime/graph.go", "x")
				commit(t, root)
			},
			engines: []string{"onnxruntime"}, why: "changed: onnxruntime",
		},
		"two engines, not committed": {
			change: func(t *testing.T, root string) {
				write(t, root, "gpu/internal/kernels/new.cu", "x")
				write(t, root, "reference/gpt.go", "x")
			},
			engines: []string{"reference", "emulated", "gpu"}, why: "changed: reference, " +
				"emulated, gpu",
		},
		"an engine that another rests on": {
			change:  func(t *testing.T, root string) { write(t, root, "batched/worker.go", "x") },
			engines: []string{"onnxruntime", "batched"}, why: "changed: onnxruntime, batched",
		},
		"removed": {
			change: func(t *testing.T, root string) {
				command(t, root, "rm", "--quiet", "gpu/abi.go")
				commit(t, root)
			},
			engines: []string{"emulated", "gpu"}, why: "changed: emulated, gpu",
		},
		"moved out of an engine": {
			change: func(t *testing.T, root string) {
				command(t, root, "mv", "reference/gpt.go", "cmd/internal/report/gpt.go")
				commit(t, root)
			},
			engines: []string{"reference"}, why: "changed: reference",
		},
		"undone in the checkout": {
			change: func(t *testing.T, root string) {
				write(t, root, "route.go", "x")
				commit(t, root)
				write(t, root, "route.go", "first\n")
				write(t, root, "cmd/internal/report/page.go", "x")
			},
			engines: nil, why: "no engine has changed",
		},
		"tools": {change: func(t *testing.T, root string) {
			write(t, root, "cmd/lockstep/main.go", "x")
		}, why: "no engine has changed"},
		"recordings": {change: func(t *testing.T, root string) {
			write(t, root, "golden/testdata/a.npz", "x")
		}, why: "golden/testdata/a.npz concerns every engine"},
		"the root": {change: func(t *testing.T, root string) {
			write(t, root, "go.mod", "x")
		}, why: "go.mod concerns every engine"},
		"an odd name": {change: func(t *testing.T, root string) {
			write(t, root, "what\n\"ü\" ever", "x")
		}, why: "concerns every engine"},
		"nothing": {change: func(*testing.T, string) {}, why: "nothing differs from base"},
		"ignored": {change: func(t *testing.T, root string) {
			write(t, root, "build/x.go", "x")
		}, why: "nothing differs from base"},
		"no base": {base: "-", change: func(*testing.T, string) {}, why: `"-" is no revision`},
		"unknown base": {base: "0000000000000000000000000000000000000000",
			change: func(*testing.T, string) {}, why: "is not known here"},
		"an option": {base: "--output=x", change: func(*testing.T, string) {},
			why: "is no revision"},
		"no common start": {change: func(t *testing.T, root string) {
			command(t, root, "checkout", "--quiet", "--orphan", "other")
			write(t, root, "other.go", "x")
			commit(t, root)
		}, why: "have no commit in common"},
	} {
		t.Run(name, func(t *testing.T) {
			root := repository(t)
			c.change(t, root)
			base := c.base
			if base == "" {
				base = "base"
			}
			got := Changed(t.Context(), root, base)
			everything := !c.docs && c.engines == nil && c.why != "no engine has changed"
			if !strings.Contains(got.Why, c.why) || got.Documentation != c.docs ||
				got.Everything != everything {
				t.Errorf(
					"%+v, want documentation %v, everything %v, because %s", got, c.docs,
					everything, c.why,
				)
			}
			want := c.engines
			if everything {
				want = testEngines
			}
			if !slices.Equal(got.Engines, want) {
				t.Errorf("engines %v, want %v", got.Engines, want)
			}
		})
	}
}

// TestChangedSince: what others merged meanwhile is not of the change.
func TestChangedSince(t *testing.T) {
	root := repository(t)
	command(t, root, "checkout", "--quiet", "-b", "mine")
	write(t, root, "batched/onnxruntime/graph.go", "mine")
	commit(t, root)
	command(t, root, "checkout", "--quiet", "-b", "theirs", "base")
	write(t, root, "reference/gpt.go", "theirs")
	commit(t, root)
	command(t, root, "checkout", "--quiet", "mine")
	if c := Changed(t.Context(), root, "theirs"); !slices.Equal(
		c.Files, []string{"batched/onnxruntime/graph.go"},
	) {
		t.Errorf("%+v, want my file alone", c)
	}
}

// TestChangedNoGit: without git's data everything runs.
func TestChangedNoGit(t *testing.T) {
	t.Setenv("GIT_CEILING_DIRECTORIES", os.TempDir())
	if c := Changed(t.Context(), t.TempDir(), "base"); !c.Everything ||
		!strings.Contains(c.Why, "no git checkout") {
		t.Errorf("%+v", c)
	}
	if c := Changed(t.Context(), repository(t), ""); !c.Everything ||
		!strings.Contains(c.Why, "no base revision is given") {
		t.Errorf("%+v", c)
	}
}

// TestChangedWithin: the module may be a folder of a checkout.
func TestChangedWithin(t *testing.T) {
	root := repository(t)
	// x.go is of another module, seen from cmd/internal/report.
	write(t, root, "cmd/internal/report/reference/x.go", "x")
	c := Changed(t.Context(), filepath.Join(root, "cmd", "internal", "report"), "base")
	if !slices.Equal(c.Files, []string{"reference/x.go"}) ||
		!slices.Equal(c.Engines, []string{"reference"}) {
		t.Errorf("%+v", c)
	}
}
