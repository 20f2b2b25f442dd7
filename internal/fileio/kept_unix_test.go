//go:build unix

package fileio_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"lockstep/internal/fileio"
)

// TestKept: a program is found as long as it is what was kept and nobody else can have written it,
// and is kept anew once it is not.
func TestKept(t *testing.T) {
	for what, spoil := range map[string]func(folder, program string) error{
		"": func(_, _ string) error { return nil },
		"a flipped bit": func(_, program string) error {
			return os.WriteFile(program, []byte("Program"), 0o755)
		},
		"mode 0777 of the folder": func(folder, _ string) error {
			return os.Chmod(folder, 0o777)
		},
		"mode 0777 of the folder above": func(folder, _ string) error {
			return os.Chmod(filepath.Dir(folder), 0o777)
		},
		"mode 0777":   func(_, program string) error { return os.Chmod(program, 0o777) },
		"mode 0775":   func(_, program string) error { return os.Chmod(program, 0o775) },
		"a link":      func(_, program string) error { return linked(program) },
		"a new owner": func(_, program string) error { return os.Chown(program, 12345, 12345) },
		"root's next": func(_, program string) error { return os.Chown(program, 1, 1) },
		"a folder of a new owner": func(folder, _ string) error {
			return os.Chown(folder, 12345, 12345)
		},
	} {
		t.Run(what, func(t *testing.T) {
			home := t.TempDir()
			t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache[b]*")) // a shell's pattern
			t.Setenv("TMPDIR", home)
			keep := func() (folder, program string) {
				t.Helper()
				folder, err := fileio.ProgramDir("programs")
				if err != nil {
					t.Fatal(err)
				}
				mine := filepath.Join(home, fmt.Sprintf("lockstep-%d", os.Getuid()))
				if folder != filepath.Join(home, "cache[b]*", "lockstep", "programs") &&
					folder != filepath.Join(mine, "lockstep", "programs") {
					t.Fatalf("programs are kept in %s", folder)
				}
				made := filepath.Join(folder, "made")
				if err := os.WriteFile(made, []byte("program"), 0o700); err != nil {
					t.Fatal(err)
				}
				if program, err = fileio.Keep(folder, "key", made); err != nil {
					t.Fatal(err)
				}
				if info, err := os.Stat(program); err != nil || info.Mode() != 0o755 {
					t.Fatalf("kept %q, with mode %v, %v", program, info, err)
				}
				old := time.Now().Add(-1000 * time.Hour) // since when nobody has used it
				if err := os.Chtimes(program, old, old); err != nil {
					t.Fatal(err)
				}
				folders := []string{filepath.Join(home, "none"), folder} // the first holds nothing
				if got := fileio.Kept(folders, "key"); got != program {
					t.Errorf("found %q, want %s", got, program)
				}
				if info, err := os.Stat(program); err != nil ||
					time.Since(info.ModTime()) > time.Hour {
					t.Errorf("what was just found counts as unused, and is removed soon: %v", err)
				}
				return folder, program
			}
			folder, program := keep()
			if err := spoil(folder, program); err != nil {
				t.Skip("for want of the right to do so: ", err)
			}
			want := ""
			if what == "" {
				want = program
			}
			if got := fileio.Kept([]string{folder}, "key"); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
			keep()
		})
	}
}

func linked(program string) error {
	elsewhere := filepath.Join(filepath.Dir(program), "elsewhere")
	if err := os.Rename(program, elsewhere); err != nil {
		return err
	}
	return os.Symlink(elsewhere, program)
}

// TestKeepAmong: of several programs of a key those that are not sound make room for the new one,
// wherever they stand among them, and the others stay, as do those of other keys.
func TestKeepAmong(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache[b]*"))
	t.Setenv("TMPDIR", home)
	folder, err := fileio.ProgramDir("programs")
	if err != nil {
		t.Fatal(err)
	}
	keep := func(key, content string) string {
		made := filepath.Join(folder, "made")
		if err := os.WriteFile(made, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
		program, err := fileio.Keep(folder, key, made)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	for _, spoiled := range [][]string{nil, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"a", "b", "c"}} {
		kept := map[string]string{}
		for _, content := range []string{"a", "b", "c"} {
			kept[content] = keep("key", content)
		}
		other := keep("other", "program")
		for _, content := range append(spoiled, "") {
			path := kept[content]
			if content == "" {
				path = other
			}
			if err := os.WriteFile(path, []byte("spoiled"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		now := keep("key", "new")
		for content, path := range kept {
			_, err := os.Stat(path)
			if gone := slices.Contains(spoiled, content); gone != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("with %q spoiled: %s is kept: %v", spoiled, content, err)
			}
		}
		for _, path := range []string{other, now} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("with %q spoiled: %v", spoiled, err)
			}
		}
	}
}
