package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// failedTest is the line of a test that failed.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// test runs the ordinary tests of the fault's package with the fault in it. It is
// caught if a test fails; a package that does not compile is an error.
func (r *Runner) test(ctx context.Context, f *Fault, dir string, contents map[string]string) (Verdict, error) {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, content := range contents {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, []byte(content), 0o666); err != nil {
			return Verdict{}, err
		}
		overlay.Replace[filepath.Join(r.Root, filepath.FromSlash(file))] = copied
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		return Verdict{}, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o666); err != nil {
		return Verdict{}, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-overlay", list, "-count=1", "-failfast", f.Test)
	command.Dir = r.Root
	out, err := command.CombinedOutput()
	v := Verdict{Check: "go test " + f.Test}
	var exit *exec.ExitError
	switch m := failedTest.FindSubmatch(out); {
	case err == nil:
		return v, nil
	case ctx.Err() != nil:
		return v, ctx.Err()
	case !errors.As(err, &exit), bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return v, fmt.Errorf("testing with the fault %s: %w\n%s", f.Name, err, out)
	case m == nil: // a panic outside of a test, or a hang
		v.Caught, v.Detail = true, f.Test+" does not end well"
	default:
		v.Caught, v.Detail = true, string(m[1])
	}
	return v, nil
}
