package runs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
)

// shardsName is the folder of a plan's shards.
const shardsName = "shards"

// Range is the rollouts from ≤ i < to of a shard: as even parts of the plan as can
// be, in its order.
func (p *Plan) Range(shard int) (from, to int) {
	n := p.Rollouts()
	return n * shard / p.Shards, n * (shard + 1) / p.Shards
}

// A shard's file is a line that says of what it is, one record a rollout in order,
// and a line with the SHA-256 of all before. Nothing in it depends on when or where
// it was computed.
type shardHead struct {
	Plan  string `json:"plan"` // key
	Shard int    `json:"shard"`
	Of    int    `json:"of"`
}

// shardText is a shard's file.
func (p *Plan) shardText(shard int, results []Result) []byte {
	head, err := json.Marshal(shardHead{p.Key(), shard, p.Shards})
	if err != nil {
		panic(err) // strings and numbers
	}
	text := append(head, '\n')
	for _, r := range results {
		text = appendLine(text, "", r, 0)
	}
	sum := sha256.Sum256(text)
	return fmt.Appendf(text, "sha256 %x\n", sum)
}

// WritePlan puts the plan, in so many shards, and its inputs into a folder for these to be
// run in, which is made if it is not there. A folder of another plan is refused.
func (o *Opened) WritePlan(dir string, shards int) error {
	o.Plan.Shards = shards
	in := o.inputs
	in.Engine, in.Python = o.Simulator.Name(), "" // a shard runs in its machine's Python
	return writePlan(dir, o.Plan, in)
}

func writePlan(dir string, p *Plan, in Inputs) error {
	if p.Shards < 1 {
		return fmt.Errorf("%d shards: want 1 or more", p.Shards)
	}
	if err := p.check(); err != nil {
		return err
	}
	if err := fileio.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := p.adopt(dir); err != nil {
		return err
	}
	if err := fileio.MkdirAll(filepath.Join(dir, shardsName), 0o777); err != nil {
		return err
	}
	return in.write(dir)
}

// OpenShards reads the plan of a folder of shards.
func OpenShards(dir string) (*Plan, error) {
	p, err := openPlan(dir)
	if err == nil && p.Shards == 0 {
		err = fmt.Errorf(
			"%s: the run is not in shards: lockstep shard plan makes one that is, in another "+
				"folder",
			filepath.Join(dir, planName),
		)
	}
	return p, err
}

// Here says what is elsewhere on this machine than planned, or empty.
type Here struct {
	Model   string   // the network's file
	Data    []string // files of routes, and folders of them
	Python  string   // that runs controllers
	Program string   // see Inputs
}

// RunShard computes one shard of the plan in a folder and returns its file, which
// appears whole or not at all under a name that has its number and its content's
// hash. A shard with a rollout that failed with a passing error does not appear. One that is
// there, and sound, is not computed again. Where this machine has network,
// routes and Python elsewhere than planned, here says. The inputs must be those of the
// plan, down to the contents of what the shard needs: no more is loaded.
func RunShard(
	ctx context.Context, dir string, shard int, here Here, workers int, done func(),
) (string, error) {
	p, err := OpenShards(dir)
	if err != nil {
		return "", err
	}
	if shard < 0 || shard >= p.Shards {
		return "", fmt.Errorf("shard %d: the plan has %d, from 0 on", shard, p.Shards)
	}
	if path, err := p.keptShard(dir, shard); err != nil || path != "" {
		return path, err
	}
	in, err := readRecord[Inputs](filepath.Join(dir, inputsName), "the inputs of a plan")
	if err != nil {
		return "", err
	}
	in.Model, in.Python, in.Program = cmp.Or(here.Model, in.Model), here.Python, here.Program
	if len(here.Data) > 0 {
		in.Data = here.Data
	}
	from, to := p.Range(shard)
	o, err := in.openPart(ctx, workers, p, from, to)
	if err != nil {
		return "", err
	}
	defer o.Close()
	if d := p.Difference(o.Plan); d != "" {
		return "", fmt.Errorf("this machine would compute something else than planned: %s", d)
	}
	return p.runShard(ctx, dir, shard, o.Simulator, o.Jobs[from:to], done)
}

// keptShard is the file of a shard that is there, and sound, or empty. Who wrote it may have been
// ended before the folder knew of it on the disk.
func (p *Plan) keptShard(dir string, shard int) (string, error) {
	there, err := p.readShards(dir, shard)
	if err != nil || len(there.sound) == 0 {
		return "", err
	}
	return there.sound[0], fileio.SyncDir(filepath.Join(dir, shardsName))
}

// runShard computes a shard, of which the jobs are.
func (p *Plan) runShard(
	ctx context.Context, dir string, shard int, sim lockstep.Simulator, jobs []lockstep.Job,
	done func(),
) (string, error) {
	from, _ := p.Range(shard)
	results := make([]Result, 0, len(jobs))
	var lost []error
	work := Work{
		Simulator: sim,
		Jobs:      jobs,
		First:     from,
		Options:   lockstep.Options{Shortcuts: lockstep.CostOnly},
		Done:      done,
	}
	err := work.Stream(ctx, func(i int, r lockstep.Result) {
		if lockstep.IsPassing(r.Err) {
			lost = append(lost, fmt.Errorf("shard %d, rollout %d: %w", shard, i, r.Err))
		}
		results = append(results, NewResult(i, r))
	})
	if err != nil {
		return "", err
	}
	if len(lost) > 0 {
		return "", fmt.Errorf("shard %d is not kept, and the same command computes it: "+
			"%d of its rollouts were lost:\n%w", shard, len(lost), errors.Join(lost...))
	}
	text := p.shardText(shard, results)
	path := filepath.Join(dir, shardsName, fmt.Sprintf("%06d-%s.shard", shard, hash16(text)))
	return path, fileio.WriteFile(path, text)
}

// shardFiles are the files of a shard, in the order of their names.
func shardFiles(dir string, shard int) ([]string, error) {
	entries, err := fileio.Disk.ReadDir(filepath.Join(dir, shardsName))
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), fmt.Sprintf("%06d-", shard)) &&
			strings.HasSuffix(e.Name(), ".shard") {
			files = append(files, filepath.Join(dir, shardsName, e.Name()))
		}
	}
	return files, nil
}

// Merged is what the shards of a plan come to.
type Merged struct {
	Plan    *Plan
	Results []Result // of all rollouts, in order; none where Missing or Wrong is not empty
	SHA256  string   // of the plan's key and all results

	Missing []int    // shards without a file
	Wrong   []string // what is wrong, each with its files
}

// Merge puts the shards of a folder together. The result does not depend on where
// or in which order they were computed, nor on their number.
func Merge(dir string) (*Merged, error) {
	p, err := OpenShards(dir)
	if err != nil {
		return nil, err
	}
	m := &Merged{Plan: p}
	for shard := range p.Shards {
		there, err := p.readShards(dir, shard)
		if err != nil {
			return nil, err
		}
		m.Results = append(m.Results, there.results...)
		m.Wrong = append(m.Wrong, there.wrong...)
		switch {
		case len(there.sound) == 0:
			m.Missing = append(m.Missing, shard)
		case len(there.sound) > 1: // their names, and so their contents, differ
			m.Wrong = append(
				m.Wrong,
				fmt.Sprintf(
					"shard %d was computed with different results, so that a machine is broken: %s",
					shard, strings.Join(there.sound, " and "),
				),
			)
		}
	}
	if len(m.Missing)+len(m.Wrong) > 0 {
		m.Results = nil
		return m, nil
	}
	whole := *p
	whole.Shards = 0
	text := append([]byte(whole.Key()), '\n')
	for _, r := range m.Results {
		text = appendLine(text, "", r, 0)
	}
	sum := sha256.Sum256(text)
	m.SHA256 = hex.EncodeToString(sum[:])
	return m, nil
}

// shardsRead are the files of one shard.
type shardsRead struct {
	sound   []string
	results []Result // of the first that is sound
	wrong   []string // what is wrong with the others
}

// readShards reads all files of a shard.
func (p *Plan) readShards(dir string, shard int) (r shardsRead, err error) {
	files, err := shardFiles(dir, shard)
	if err != nil {
		return r, err
	}
	for _, file := range files {
		results, err := p.readShard(file, shard)
		if err != nil {
			r.wrong = append(r.wrong, fmt.Sprintf("%s: %v", file, err))
			continue
		}
		if r.sound = append(r.sound, file); len(r.sound) == 1 {
			r.results = results
		}
	}
	return r, nil
}

// readShard reads a shard's file and checks all that it says of itself.
func (p *Plan) readShard(path string, shard int) ([]Result, error) {
	data, err := fileio.ReadFile(path, fileio.Shard)
	if err != nil {
		return nil, err
	}
	end := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n') + 1
	sum := sha256.Sum256(data[:end])
	if string(data[end:]) != fmt.Sprintf("sha256 %x\n", sum) {
		return nil, fmt.Errorf("its hash is not that of its content: it is damaged")
	}
	if !strings.HasSuffix(path, "-"+hash16(data)+".shard") {
		return nil, fmt.Errorf("its name is not that of its content")
	}
	lines := bytes.Split(bytes.TrimSuffix(data[:end], []byte("\n")), []byte("\n"))
	var head shardHead
	if err := json.Unmarshal(lines[0], &head); err != nil {
		return nil, fmt.Errorf("its first line: %w", err)
	}
	if want := (shardHead{p.Key(), shard, p.Shards}); head != want {
		return nil, fmt.Errorf(
			"it is shard %d of %d of plan %.12s, not %d of %d of plan %.12s: another profile, "+
				"build, network, route or controller",
			head.Shard, head.Of, head.Plan, want.Shard, want.Of, want.Plan,
		)
	}
	from, to := p.Range(shard)
	var results []Result
	for k, text := range lines[1:] {
		r, _, err := parseLine(text, "", p.Rollouts())
		if err == nil && r.Rollout != from+k {
			err = fmt.Errorf("rollout %d, want %d next", r.Rollout, from+k)
		}
		if err == nil && r.Chosen != nil {
			err = errors.New("what a search chose, and no result")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", k+2, err)
		}
		results = append(results, r)
	}
	if len(results) != to-from {
		return nil, fmt.Errorf(
			"it has %d results, want those of rollouts %d to %d", len(results), from, to-1,
		)
	}
	return results, nil
}

// hash16 names a file by its content.
func hash16(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
