package parity

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"lockstep/internal/fileio"
	"lockstep/internal/plain"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// caseFormat is the version of the files.
const caseFormat = 2

// A Case is what all comparisons that are kept as a JSON file begin with. What a rollout
// is computed from is its family's, whose own type embeds this one.
type Case struct {
	Format int    `json:"format"`
	What   string `json:"what"`   // what broke, a few words
	Stage  string `json:"stage"`  // that was at fault
	Engine string `json:"engine"` // that was at fault
	Notes  string `json:"notes,omitempty"`

	Path string `json:"-"` // of the file, if there is one
}

// CaseResult is what a rollout came to.
type CaseResult struct {
	Steps   int       `json:"steps"`
	Hash    trace.Hex `json:"hash"` // of all stages of all steps, see schema.Roll (xxh64)
	Outcome []Float   `json:"outcome,omitempty"`
	Error   bool      `json:"error,omitempty"`
}

// Load reads a case into whole, which embeds c.
func (c *Case) Load(path string, whole any) error {
	data, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, c); err == nil && c.Format != caseFormat {
		return fmt.Errorf("%s: format version %d, want %d", path, c.Format, caseFormat)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(whole); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	c.Path = path
	return nil
}

// CaseFiles are a file, or the cases in a folder, in the order of their names.
func CaseFiles(path string) ([]string, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		return fileio.Glob(path, "*.json")
	}
	return []string{path}, nil
}

var (
	notWord = regexp.MustCompile(`[^a-z0-9]+`)
	flat    = regexp.MustCompile(`\[\n[^\[\]{}]*\]`) // not a text, which has no line's end
	line    = regexp.MustCompile(`\n *`)
)

// Save writes the case that embeds c to a file in dir named <stage>-<engine>-<what>.json,
// and sets Path. Arrays of numbers take one line.
func (c *Case) Save(dir string, whole any) error {
	c.Format = caseFormat
	name := strings.Trim(
		notWord.ReplaceAllString(strings.ToLower(c.Stage+"-"+c.Engine+"-"+c.What), "-"), "-",
	)
	path := filepath.Join(dir, name[:min(len(name), 120)]+".json")
	text, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return err
	}
	text = flat.ReplaceAllFunc(text, func(array []byte) []byte {
		array = bytes.ReplaceAll(line.ReplaceAll(array, []byte(" ")), []byte("[ "), []byte("["))
		return bytes.ReplaceAll(array, []byte(" ]"), []byte("]"))
	})
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	err = fileio.WriteFile(path, append(text, '\n'))
	if err == nil {
		c.Path = path
	}
	return err
}

// Replay is the command that replays the case, "" if it has no file.
func (c *Case) Replay() string {
	if c.Path == "" {
		return ""
	}
	return plain.Command([]string{"lockstep", "replay", c.Path})
}

// Results is what an engine computes of tasks, to be kept with a case or compared with
// what was.
func Results(ctx context.Context, e Adapter, tasks []RolloutTask) ([]CaseResult, error) {
	results := make([]CaseResult, len(tasks))
	observe := func(i int, s *schema.Step) {
		s.Sum(schema.XXH64)
		results[i].Steps++
		results[i].Hash = trace.Hex(e.Schema().Roll(schema.XXH64, uint64(results[i].Hash), s))
	}
	for i, end := range e.Run(ctx, tasks, observe) {
		results[i].Error, results[i].Outcome = end.Err != nil, Floats(end.Outcome)
	}
	return results, ctx.Err()
}

// CheckResults holds results to those that were kept: it reports on both if they are
// equal, else the error is the first difference.
func CheckResults(s *schema.Schema, tasks []RolloutTask, want, got []CaseResult) (*Report, error) {
	// The hash of a rollout is of all stages.
	r := &Report{Exact: true, Compared: map[string]int{}, Stages: s.Required()}
	if len(want) != len(tasks) || len(got) != len(tasks) {
		return nil, fmt.Errorf(
			"%d results of %d rollouts, and %d are kept", len(got), len(tasks), len(want),
		)
	}
	for i, w := range want {
		g, key := got[i], tasks[i].Key
		name := rolloutText(s, key)
		switch {
		case w.Error != g.Error:
			return nil, fmt.Errorf("%s: an error: %v, want %v", name, g.Error, w.Error)
		case w.Steps != g.Steps:
			return nil, fmt.Errorf("%s: %d steps, want %d", name, g.Steps, w.Steps)
		case w.Hash != g.Hash:
			return nil, fmt.Errorf("%s: stages of hash %v, want %v", name, g.Hash, w.Hash)
		}
		if d := DifferOutcome(s, Numbers(w.Outcome), Numbers(g.Outcome)); d != nil {
			d.Rollout, d.Key = name, key
			return nil, d
		}
		r.Rollouts = append(
			r.Rollouts,
			Verdict{
				Rollout:  name,
				Key:      key,
				Steps:    g.Steps,
				Equal:    true,
				WantHash: w.Hash,
				GotHash:  g.Hash,
			},
		)
		r.Steps += g.Steps
	}
	for _, stage := range r.Stages {
		r.Compared[stage] = r.Steps
	}
	r.Compared[s.Outcome.Name] = len(want)
	return r, nil
}
