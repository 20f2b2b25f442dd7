package installed

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/defaults"
	"lockstep/internal/fingerprint"
	"lockstep/internal/group"
	"lockstep/internal/pycontroller"
)

//go:embed probe.py
var script string

// mark begins the lines that are answers.
const mark = "lockstep-answer "

// limit is how long a Python may take to answer, as long as a controller may take to load, and
// maxOutput how much it may print.
var limit = pycontroller.DefaultTimeout

const maxOutput = 16 << 20

// Replies are all that a Python answered.
type Replies struct {
	Python   string // its version
	Packages map[string]string
	Replies  map[string]Reply // by probe
	Logits   []byte           // of the rollout
	Lataccel []byte

	watched []string // folders and files in which packages are found
}

// Reply is the answer to a probe.
type Reply struct {
	Bits    []byte `json:"bits,omitempty"`
	Missing bool   `json:"missing,omitempty"`
	Error   string `json:"error,omitempty"`
}

type question struct {
	Name    string   `json:"name"`
	Package string   `json:"package"`
	Network []byte   `json:"network,omitempty"`
	Numbers []byte   `json:"numbers,omitempty"`
	Texts   []string `json:"texts,omitempty"`
}

func newQuestion(p *fingerprint.Probe) question {
	q := question{Name: p.Name, Package: p.Package, Network: p.Network()}
	q.Numbers, q.Texts = p.Input()
	return q
}

// questions are all questions in one line of JSON, which the process reads first; the network
// follows.
var questions = sync.OnceValues(func() ([]byte, error) {
	probes, err := fingerprint.Probes()
	if err != nil {
		return nil, err
	}
	var all struct {
		Probes  []question      `json:"probes"`
		Rollout rolloutQuestion `json:"rollout"`
	}
	for _, p := range probes {
		all.Probes = append(all.Probes, newQuestion(p))
	}
	if all.Rollout, err = newRolloutQuestion(); err != nil {
		return nil, err
	}
	line, err := json.Marshal(all)
	return append(line, '\n'), err
})

// ask runs a Python and asks it all questions. If it fails, ask returns the answers that had
// come by then, beside the error.
func ask(ctx context.Context, python string) (*Replies, error) {
	r := &Replies{Packages: map[string]string{}, Replies: map[string]Reply{}}
	input, err := questions()
	if err != nil {
		return r, err
	}
	out, err := run(ctx, python, slices.Concat(input, defaults.Model()), "-c", script)
	for line := range strings.Lines(string(out)) {
		if text, ok := strings.CutPrefix(line, mark); ok {
			r.read(text)
		}
	}
	if err == nil && len(r.Replies) <= len(packages) {
		err = fmt.Errorf("only %d of its answers can be read", len(r.Replies))
	}
	return r, err
}

// read keeps the answer of one line. A line that cannot be read is left out.
func (r *Replies) read(text string) {
	var a struct {
		Probe, Bits, Error        string
		Missing                   bool
		Python, Package           string
		Version, File, Executable string
		Path                      []string
	}
	if json.Unmarshal([]byte(text), &a) != nil {
		return
	}
	switch {
	case a.Python != "":
		r.Python, r.watched = a.Python, append(r.watched, a.Path...)
	case a.Package != "":
		r.Packages[a.Package], r.watched = a.Version, append(r.watched, a.File)
	case a.Probe == "rollout" && a.Bits != "":
		logits, lataccels, _ := strings.Cut(a.Bits, " ")
		var e1, e2 error
		r.Logits, e1 = base64.StdEncoding.DecodeString(logits)
		r.Lataccel, e2 = base64.StdEncoding.DecodeString(lataccels)
		if errors.Join(e1, e2) == nil {
			r.Replies[a.Probe] = Reply{}
		}
	case a.Probe != "":
		if data, err := base64.StdEncoding.DecodeString(a.Bits); err == nil {
			r.Replies[a.Probe] = Reply{Bits: data, Missing: a.Missing, Error: a.Error}
		}
	}
}

// run runs a Python until it ends, but not for longer than the limit. If it fails, the error
// has the last line that it wrote to standard error.
func run(ctx context.Context, python string, input []byte, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	// ONNX Runtime 1.32 leaves a file where temporary ones are, just by being imported.
	c := group.Command(within, python, args...)
	if temporary, err := os.MkdirTemp("", "lockstep-probe-*"); err == nil {
		defer os.RemoveAll(temporary)
		c.Env = append(os.Environ(), "TMPDIR="+temporary, "TMP="+temporary, "TEMP="+temporary)
	}
	c.WaitDelay = time.Second // for what it has started and left behind with its pipes
	out, errs := &bounded{full: cancel}, &bounded{full: cancel}
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), out, errs
	err := c.Run()
	switch {
	case err == nil:
		return out.kept, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case len(out.kept) > maxOutput || len(errs.kept) > maxOutput:
		return out.kept, fmt.Errorf("it printed more than %d bytes", maxOutput)
	case within.Err() != nil:
		return out.kept, fmt.Errorf("no answer within %v", limit)
	}
	lines := bytes.Split(bytes.TrimSpace(errs.kept), []byte("\n"))
	if last := bytes.TrimSpace(lines[len(lines)-1]); len(last) > 0 {
		err = fmt.Errorf("%w: %.200q", err, last)
	}
	return out.kept, err
}

// bounded keeps what is written. Once that is more than maxOutput bytes, it calls full.
type bounded struct {
	kept []byte
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept) <= maxOutput {
		b.kept = append(b.kept, p...)
	} else {
		b.full()
	}
	return len(p), nil
}

// isScript reports whether a file begins as a script does.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	start := make([]byte, 2)
	n, _ := f.Read(start)
	return string(start[:n]) == "#!"
}
