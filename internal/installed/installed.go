// Package installed finds the arithmetic of an installation of Python: that of its NumPy,
// pandas and ONNX Runtime on this machine. A process asks them the probes of package
// fingerprint, and for ten steps of a rollout; what they answer is kept by interpreter,
// packages and CPU.
package installed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"

	"lockstep"
	"lockstep/internal/fingerprint"
	"lockstep/internal/pycontroller"
	"lockstep/reference"
)

// Found is the arithmetic that a Python was found to have.
type Found struct {
	Profile  lockstep.Profile     `json:"profile"`            // to compute with
	Python   string               `json:"python,omitempty"`   // that was asked
	Version  string               `json:"version,omitempty"`  // its
	Packages map[string]string    `json:"packages,omitempty"` // their versions
	Answers  []fingerprint.Answer `json:"answers,omitempty"`  // in the order of a profile's words
	Rollout  RolloutVerdict       `json:"rollout"`

	// Unasked is why no Python answered, so that the profile is assumed.
	Unasked string `json:"unasked,omitempty"`
}

// The names that stand for a profile: that of the Python of this machine, and that which the
// challenge's pinned packages have on this CPU.
const (
	Host = "host"
	Pins = "pins"
)

// Variable is the environment variable that says what Host stands for.
const Variable = "LOCKSTEP_PROFILE"

// Choose is the profile of a name: Host, Pins, or a profile's own. Where a Python was to
// be asked, found says which and what it answered; python names it, that which runs
// controllers if empty.
func Choose(
	ctx context.Context,
	name, python string,
) (p lockstep.Profile, found *Found, err error) {
	variable := os.Getenv("LOCKSTEP_PROFILE")
	given := name == Host && variable != "" && variable != Host
	if given {
		name = variable
	}
	switch name {
	case Host:
		found = Find(ctx, python)
		return found.Profile, found, ctx.Err()
	case Pins:
		return assumed(), nil, nil
	}
	if p, err = lockstep.ParseProfile(name); err != nil && given {
		err = fmt.Errorf("%s: %w", Variable, err)
	}
	return p, nil, err
}

var (
	memory = map[place]*Found{}
	lock   sync.Mutex
)

// A place is what the arithmetic of a Python depends on: what its key is of, its file among it; of
// a script, which may run another in each folder, the folder.
type place struct {
	key    key
	folder string
}

// Find is the arithmetic of a Python, that which runs controllers if none is named. A process
// finds it once, unless the name is another Python's by now.
func Find(ctx context.Context, python string) *Found {
	lock.Lock()
	defer lock.Unlock()
	path, err := lookUp(python)
	if err != nil {
		return unasked(err)
	}
	at := place{key: newKey(path)}
	if isScript(path) {
		at.folder, _ = os.Getwd()
	}
	if f := memory[at]; f != nil {
		return f
	}
	f := find(ctx, path)
	if ctx.Err() == nil {
		memory[at] = f
	}
	return f
}

// unasked is what is found where no Python can be asked.
func unasked(err error) *Found { return &Found{Profile: assumed(), Unasked: err.Error()} }

func find(ctx context.Context, python string) *Found {
	path, err := interpreter(ctx, python)
	if err != nil {
		return unasked(err)
	}
	key := newKey(path)
	if f := key.read(); f != nil {
		return f
	}
	r, err := ask(ctx, path)
	f := judge(path, r, err)
	if f.whole() {
		key.write(f, r)
	}
	return f
}

// Ask asks a Python afresh, and returns all that it answered.
func Ask(ctx context.Context, python string) (*Found, *Replies, error) {
	path, err := interpreter(ctx, python)
	if err != nil {
		return nil, nil, err
	}
	r, err := ask(ctx, path)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return judge(path, r, nil), r, nil
}

// assumed is the profile of what nobody answered for: that of the challenge's pins on this CPU,
// or, on arm64, where no profile is that, the one that ARM's recordings have.
func assumed() lockstep.Profile {
	if arch == "arm64" {
		return lockstep.Profile{
			LayerNorm: lockstep.LayerNorm130ARM,
			Softmax:   lockstep.SoftmaxNEON,
			Exp:       lockstep.ExpC,
			CSV:       lockstep.CSVExact,
		}
	}
	return reference.HostProfile()
}

// judge says which arithmetic answers are of. Parts that nobody answered for are assumed.
func judge(python string, r *Replies, failed error) *Found {
	f := &Found{
		Profile:  assumed(),
		Python:   python,
		Version:  r.Python,
		Packages: r.Packages,
	}
	if failed != nil {
		f.Unasked = fmt.Sprintf("%s: %v", python, failed)
	}
	probes, err := fingerprint.Probes()
	if err != nil {
		f.Unasked = err.Error()
		return f
	}
	for k, p := range probes {
		reply, ok := r.Replies[p.Name]
		var a fingerprint.Answer
		switch {
		case !ok && f.Unasked != "":
			continue
		case !ok:
			a = fingerprint.Answer{
				Probe: p.Name,
				Rows:  len(p.Rows),
				Error: "the process ended before it answered",
			}
		case reply.Missing || reply.Error != "":
			a = fingerprint.Answer{
				Probe:   p.Name,
				Rows:    len(p.Rows),
				Missing: reply.Missing,
				Error:   reply.Error,
			}
		default:
			a = p.Judge(reply.Bits)
			if a.Form != "" {
				f.Profile, _ = fingerprint.Replace(f.Profile, k, a.Form)
			}
		}
		f.Answers = append(f.Answers, a)
	}
	f.Rollout = judgeRollout(f.Profile, r)
	return f
}

// whole reports whether every probe was answered, or cannot be since its package is not
// installed. Else the next command asks again.
func (f *Found) whole() bool {
	for _, a := range f.Answers {
		if a.Error != "" {
			return false
		}
	}
	return f.Unasked == "" && len(f.Answers) > 0 && f.Rollout.Error == ""
}

// Complete reports whether every part of the profile is what a library answered.
func (f *Found) Complete() bool {
	for _, a := range f.Answers {
		if _, ok := fingerprint.Replace(f.Profile, index(a.Probe), a.Form); !ok {
			return false
		}
	}
	return len(f.Answers) == len(strings.Split(f.Profile.String(), "-"))
}

// Known reports whether all that was asked was answered in a form that the profile has.
func (f *Found) Known() bool { return len(f.Warnings()) == 0 }

// Source says in a phrase where the profile is from.
func (f *Found) Source() string {
	var versions, missing []string
	if f.Version != "" {
		versions = append(versions, "Python "+f.Version)
	}
	for _, name := range packages {
		if v := f.Packages[name]; v != "" {
			versions = append(versions, name+" "+v)
		}
	}
	answered := false
	for _, a := range f.Answers {
		if a.Bits != "" {
			answered = true
		} else if a.Missing {
			missing = append(missing, strings.Split(f.Profile.String(), "-")[index(a.Probe)])
		}
	}
	pins, since := "that of the challenge's pinned packages on this CPU", ", since "
	if !hostKnown() {
		pins = "not that of the challenge's pinned packages, whose arithmetic on this CPU no " +
			"engine computes"
		if arch == "arm64" {
			pins = "that of newer packages on arm64 (ONNX Runtime 1.30, NumPy 2.4, pandas 3.1), " +
				"as recorded under emulation, and " + pins
		}
		since = "; no Python answered: "
	}
	if !answered {
		why := f.Unasked
		if why == "" {
			why = f.Python + " has no numpy, pandas and onnxruntime to be asked"
			if len(missing) < len(f.Answers) {
				why = f.Python + " could not answer"
			}
		}
		return pins + since + why
	}
	text := fmt.Sprintf("as %s answered (%s)", f.Python, strings.Join(versions, ", "))
	if len(missing) > 0 {
		text += fmt.Sprintf(
			"; without packages to ask, %s is %s", strings.Join(missing, " and "), pins,
		)
	}
	return text
}

// What this machine is, but in tests of other CPUs.
var (
	hostKnown = reference.HostKnown
	arch      = runtime.GOARCH
)

// index is the place of a probe in a profile's name.
func index(probe string) int {
	k, _ := fingerprint.Part(probe)
	return k
}

// String is the profile, and where it is from.
func (f *Found) String() string { return fmt.Sprintf("profile %s, %s", f.Profile, f.Source()) }

// Warnings are what is not known of the arithmetic, one line each, with what is computed
// instead and what that means.
func (f *Found) Warnings() (lines []string) {
	const means = "its results may differ in their last bits, its costs seldom, " +
		"and equality with it is not claimed; `lockstep doctor --fingerprint FILE` writes what " +
		"is needed to add it"
	words := strings.Split(f.Profile.String(), "-")
	answered, unanswered := false, false
	for _, a := range f.Answers {
		if a.Bits != "" {
			answered = true
		}
		word := words[index(a.Probe)]
		switch {
		case a.Missing:
			unanswered = true
		case a.Error != "":
			lines = append(
				lines,
				fmt.Sprintf(
					"%s: probe %s could not be answered (%s): %s is assumed", f.Python, a.Probe,
					a.Error, word,
				),
			)
		case a.Form != word:
			lines = append(
				lines,
				fmt.Sprintf(
					"%s: probe %s: %s, which no profile has (%s): %s is computed instead: %s",
					f.Python, a.Probe, a.Describe(), f.versions(a.Probe), word, means,
				),
			)
		}
	}
	switch r := f.Rollout; {
	case r.Error != "" && answered:
		lines = append(
			lines,
			fmt.Sprintf("%s: probe rollout could not be answered: %s", f.Python, r.Error),
		)
	case r.Equal < r.Steps && len(lines) == 0:
		lines = append(
			lines,
			fmt.Sprintf(
				"%s: probe rollout: answer %s has the logits and lataccels of %s at %d of %d "+
					"steps, though all other probes answer so (%s): %s",
				f.Python, r.Bits, f.Profile, r.Equal, r.Steps, f.versions(""), means,
			),
		)
	}
	if (unanswered || !answered) && !hostKnown() {
		lines = append(
			lines,
			"what the challenge's pinned packages compute on this CPU no profile has, which of "+
				"x86-64 wants AVX2 and FMA; on arm64 pandas up to 3.0 reads numbers otherwise, "+
				"and the other forms are found by asking a Python: costs may differ from those "+
				"of a Python on it",
		)
	}
	return lines
}

// features is the CPU's, but in tests of others.
var features = processor

// firstCPU is the model and the features of the first CPU of those that Linux tells of: answers of
// another CPU are not taken from the cache.
func firstCPU(info string) string {
	var lines []string
	for line := range strings.Lines(info) {
		name, _, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "model name", "flags", "Features", "CPU part", "CPU implementer":
			lines = append(lines, line)
		case "":
			return strings.Join(lines, "")
		}
	}
	return strings.Join(lines, "")
}

// newer are the extensions of arm64's CPUs with which libraries take other kernels, such as
// KleidiAI's in ONNX Runtime: the profiles of arm64 were recorded on a CPU that has none.
func newer() (has []string) {
	for line := range strings.Lines(features()) {
		if name, words, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "Features" {
			for _, word := range strings.Fields(words) {
				switch word {
				case "sve", "sve2", "sme", "sme2", "i8mm", "bf16":
					has = append(has, word)
				}
			}
		}
	}
	return has
}

// versions are those of the package that a probe asks, or of all, and what is newer in the CPU than
// where arm64's profiles were recorded, as text.
func (f *Found) versions(probe string) string {
	var all []string
	_, asked := fingerprint.Part(probe)
	for _, name := range packages {
		if probe == "" || asked == name {
			all = append(all, name+" "+f.Packages[name])
		}
	}
	if has := newer(); len(has) > 0 {
		all = append(all, "a CPU with "+strings.Join(has, " "))
	}
	return strings.Join(all, ", ")
}

// packages are those that decide on the arithmetic.
var packages = []string{"numpy", "pandas", "onnxruntime"}

// lookUp is the path of a Python, or of a script in its place.
func lookUp(python string) (path string, err error) {
	if python == "" {
		return pycontroller.FindPython()
	}
	return pycontroller.LookUp(python)
}

// interpreter is the path of the Python that is asked. A script in its place, as pyenv's,
// is asked which one it runs, which may be another one in each folder.
func interpreter(ctx context.Context, python string) (path string, err error) {
	path, err = lookUp(python)
	if err != nil || !isScript(path) {
		return path, err
	}
	out, err := run(ctx, path, nil, "-c", "import sys; print('"+mark+"' + sys.executable)")
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok && name != "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s: %w", path, errors.New("it does not say which Python it runs"))
}
