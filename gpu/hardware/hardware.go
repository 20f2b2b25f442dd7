// Package hardware keeps what was run on real GPUs: one file for each, named after
// it, which `make gpu-test` and `make gpu-bench` write, outcome by outcome. The hash of the
// kernels' sources in it tells whether later kernels still have that evidence.
package hardware

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockstep/internal/fileio"
)

// Evidence is what was run on one GPU.
type Evidence struct {
	Device            string `json:"device"`
	ComputeCapability string `json:"compute_capability"`
	Driver            string `json:"driver"`
	Kernels           string `json:"kernel_sources_sha256"` // see module.HashSources
	Compiler          string `json:"compiler"`
	Date              string `json:"date"`

	// Goldens are the recordings of the Python program that were reproduced, every
	// stage of every step, by profile, size of block and name.
	Goldens []string `json:"goldens"`

	// Challenge is the answer to these kernels' challenge: see Answer.
	Challenge string `json:"challenge"`

	Tests     []TestOutcome `json:"tests"`
	Sanitizer []TestOutcome `json:"compute_sanitizer"`
	Others    []TestOutcome `json:"others,omitempty"` // benchmark, peer, profile
	Verdict   string        `json:"verdict"`          // see Judge

	Figures []Figure `json:"figures,omitempty"`
	Peers   []Peer   `json:"peers,omitempty"`
}

// TestOutcome is that of one test: "pass", "fail", "skip" or "not run", with the reason.
type TestOutcome struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Note   string `json:"note,omitempty"`
}

// Note puts an outcome into a list, in place of an earlier one of the name.
func Note(list *[]TestOutcome, o TestOutcome) {
	if i := slices.IndexFunc(*list, func(x TestOutcome) bool { return x.Name == o.Name }); i >= 0 {
		(*list)[i] = o
		return
	}
	*list = append(*list, o)
}

// Figure is the least time of some runs of the same jobs.
type Figure struct {
	Routes         int     `json:"routes"`
	Policy         string  `json:"policy"`
	Shortcuts      string  `json:"shortcuts"`
	Kernels        string  `json:"kernels"`          // "cubin", "ptx" or the file that was named
	RoutesPerBlock int     `json:"routes_per_block"` // 0: chosen
	Threads        int     `json:"threads"`          // 0: chosen
	Runs           int     `json:"runs"`
	Launches       int64   `json:"launches"`
	UploadBytes    int64   `json:"upload_bytes"`
	DownloadBytes  int64   `json:"download_bytes"`
	Sampled        int64   `json:"sampled"` // steps whose token was drawn
	Serial         int64   `json:"serial"`  // of those, the ones that wanted the running sum
	Kernel         float64 `json:"kernel_s"`
	Upload         float64 `json:"upload_s"`
	Download       float64 `json:"download_s"`
	Wall           float64 `json:"wall_s"`
	Cost           float64 `json:"mean_cost"`
}

// key is what another measurement of the same replaces.
func (f Figure) key() [5]any {
	return [5]any{f.Routes, f.Policy, f.Kernels, f.RoutesPerBlock, f.Threads}
}

// Measure puts a figure in, in place of an earlier one of the same.
func (e *Evidence) Measure(f Figure) {
	e.Figures = slices.DeleteFunc(e.Figures, func(o Figure) bool { return o.key() == f.key() })
	e.Figures = append(e.Figures, f)
}

// Peer is the time of another program that does the same work, measured beside the
// figures; its bits are not these.
type Peer struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Routes  int     `json:"routes"`
	Steps   int     `json:"steps"` // that were timed of each route
	Seconds float64 `json:"seconds"`
	Cost    float64 `json:"mean_cost"`

	// How far its costs are from the exact ones. A route whose tokens are all the same has
	// the exact cost but for rounding; from the first other token on it is another rollout.
	Exact   float64 `json:"exact_mean_cost"`
	Same    int     `json:"routes_within_1e-6"`
	Median  float64 `json:"median_difference"` // of a route's cost, as a part of the exact one
	Largest float64 `json:"largest_difference"`

	// Steps at which it draws another token from the exact history, so that a lataccel is
	// another: of all routes and steps.
	Wrong int `json:"wrong_tokens"`
	Of    int `json:"of_tokens"`

	Expected []float64 `json:"expected_s,omitempty"` // from and to, said before it was measured
}

// Verdicts.
const (
	Pass       = "pass"
	Fail       = "fail"
	Skip       = "skip"
	NotRun     = "not run"
	Incomplete = "incomplete"
	Rehearsal  = "rehearsal"
)

// Sanitizers are the tools of compute-sanitizer that must pass.
func Sanitizers() []string {
	return []string{"memcheck", "racecheck", "initcheck", "synccheck"}
}

// standins are devices that are none.
var standins = []string{"stand-in", "emulated", "ptx", "sass"}

// CheckDevice refuses what was run on something that is not a GPU.
func (e *Evidence) CheckDevice() error {
	for _, s := range standins {
		if strings.EqualFold(e.Device, s) {
			return fmt.Errorf("device %s is not a GPU: this is no evidence of hardware", e.Device)
		}
	}
	return nil
}

// Judge sets the verdict: "fail" if anything failed; "incomplete" if no test passed,
// no golden was reproduced, no challenge answered, something was not run, or a sanitizer's
// tool is missing;
// "rehearsal" if there was no GPU; "pass" otherwise.
func (e *Evidence) Judge() {
	passed := map[string]bool{}
	e.Verdict = Pass
	for _, o := range slices.Concat(e.Tests, e.Sanitizer, e.Others) {
		passed[o.Name] = o.Result == Pass
		switch {
		case o.Result == Fail:
			e.Verdict = Fail
			return
		case o.Result == NotRun && !slices.Contains(e.Others, o):
			e.Verdict = Incomplete
		}
	}
	if len(e.Tests) == 0 || len(e.Goldens) == 0 || e.Challenge == "" ||
		slices.ContainsFunc(Sanitizers(), func(tool string) bool { return !passed[tool] }) {
		e.Verdict = Incomplete
	}
	if e.CheckDevice() != nil {
		e.Verdict = Rehearsal
	}
}

// Tested tells whether the tests were run, all of them, and none failed.
func (e *Evidence) Tested() bool {
	bad := func(o TestOutcome) bool { return o.Result == Fail || o.Result == NotRun }
	return len(e.Tests) > 0 && len(e.Goldens) > 0 && !slices.ContainsFunc(e.Tests, bad)
}

// Check refuses evidence that is none: of something that is not a GPU, of a
// failure, or with something not run.
func (e *Evidence) Check() error {
	if err := e.CheckDevice(); err != nil {
		return err
	}
	switch {
	case e.Device == "" || e.Driver == "":
		return errors.New("no device or no driver is named")
	case !isHash.MatchString(e.Kernels):
		return fmt.Errorf("kernel_sources_sha256 %q is not a hash", e.Kernels)
	case !isHash.MatchString(e.Challenge):
		return fmt.Errorf("challenge %q is not a hash", e.Challenge)
	case e.Verdict != Pass:
		return fmt.Errorf("verdict %q, want %q", e.Verdict, Pass)
	case len(e.Goldens) == 0:
		return errors.New("no golden was run")
	case len(e.Tests) == 0:
		return errors.New("no test was run")
	}
	for _, o := range slices.Concat(e.Tests, e.Sanitizer, e.Others) {
		if o.Result == Fail {
			return fmt.Errorf("%s failed, and yet the verdict is %q", o.Name, e.Verdict)
		}
	}
	for _, tool := range Sanitizers() {
		if !slices.ContainsFunc(
			e.Sanitizer, func(o TestOutcome) bool { return o.Name == tool && o.Result == Pass },
		) {
			return fmt.Errorf(
				"compute-sanitizer's %s was not run, and yet the verdict is %q", tool, e.Verdict,
			)
		}
	}
	if _, err := time.Parse(time.DateOnly, e.Date); err != nil {
		return fmt.Errorf("date %q: want one like 2006-01-02", e.Date)
	}
	return nil
}

var isHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// FileName is that of a device's evidence.
func FileName(device string) string {
	return strings.Trim(
		regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(device, "-"), "-",
	) + ".json"
}

// Read reads the evidence in a folder, by file name. What is in a file is checked.
func Read(folder fs.FS) (map[string]*Evidence, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	all := map[string]*Evidence{}
	for _, name := range names {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		e := &Evidence{}
		if err := json.Unmarshal(data, e); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if want := FileName(e.Device); path.Base(name) != want {
			return nil, fmt.Errorf("%s: is of %s, whose file is %s", name, e.Device, want)
		}
		all[name] = e
	}
	return all, nil
}

// Write writes evidence into a folder, whatever it says.
func (e *Evidence) Write(folder string) (string, error) {
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(folder, FileName(e.Device))
	return file, fileio.WriteFile(file, append(text, '\n'))
}
