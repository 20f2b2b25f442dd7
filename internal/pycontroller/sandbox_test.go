package pycontroller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/sandbox"
)

// TestEnvironment: of the environment a controller sees what is documented.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "secret")
	// What libraries look at, of which the bits of a controller's arithmetic may depend.
	passed := []string{
		"LC_TEST", "PYTHONTEST", "OMP_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_CBWR",
		"NPY_DISABLE_CPU_FEATURES", "CUDA_VISIBLE_DEVICES", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
	}
	for _, name := range passed {
		t.Setenv(name, os.Getenv(name)) // as it is, or there
	}
	stderr := &buffer{}
	c := start(
		t, source(`print(sorted(os.environ)); return 1`), func(o *Options) { o.Stderr = stderr },
	)
	mustDrive(t, c, testRoutes(1, 130))
	c.Close()
	text := stderr.String()
	for _, name := range passed {
		if !strings.Contains(text, "'"+name+"'") {
			t.Errorf("a controller does not see %s, but %.300s", name, text)
		}
	}
	if strings.Contains(text, "SECRET_TOKEN") {
		t.Errorf("a controller sees %.300s", text)
	}
}

// TestSandbox: in it a controller steers as outside, and an attempt to write or to reach a network
// is its error; where there is none, it is not run.
func TestSandbox(t *testing.T) {
	inside := func(o *Options) { o.Sandbox = true }
	if err := sandbox.Available(); err != nil {
		_, failed := New(
			t.Context(),
			Options{
				File:    write(t, map[string]string{"c.py": source("return 1")}) + "/c.py",
				Sandbox: true,
			},
		)
		if failed == nil || !strings.Contains(failed.Error(), err.Error()) {
			t.Errorf("without a sandbox: %v", failed)
		}
		t.Skip("not run: ", err)
	}
	mustDrive(t, start(t, source("return 1"), inside), testRoutes(2, 130))
	file := filepath.Join(t.TempDir(), "new")
	for _, attempt := range []string{
		`open("` + file + `", "w")`, `import socket; socket.socket()`,
	} {
		c := start(t, source(attempt+"\nreturn 1"), inside)
		outcomes, err := drive(c, testRoutes(1, 130))
		if err != nil {
			t.Fatal(err)
		}
		errs := 0
		for _, o := range outcomes {
			if o.err != nil && strings.Contains(o.err.Error(), "PermissionError") {
				errs++
			}
		}
		if errs != 1 {
			t.Errorf("%s: %d errors of 1", attempt, errs)
		}
		mustDrive(t, start(t, source(attempt+"\nreturn 1")), testRoutes(1, 130))
	}
}
