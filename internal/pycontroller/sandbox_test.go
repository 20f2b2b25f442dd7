package pycontroller

import (
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/sandbox"
)

// TestEnvironment: of the environment a controller sees what is documented.
func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "secret")
	t.Setenv("LC_TEST", "seen")
	stderr := &buffer{}
	c := start(
		t, source(`print(sorted(os.environ)); return 1`), func(o *Options) { o.Stderr = stderr },
	)
	mustDrive(t, c, testRoutes(1, 130))
	c.Close()
	if text := stderr.String(); strings.Contains(text, "SECRET_TOKEN") ||
		!strings.Contains(text, "'LC_TEST'") {
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
