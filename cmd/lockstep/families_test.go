package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// boats are a family beside those that there are, whose runs hold a file.
type boats struct {
	Boat  string `name:"boat" family:"boats" placeholder:"NAME" help:"A boat."`
	Sails int    `name:"sails" family:"boats" help:"How many."`
}

func (*boats) tag() (tag, flag string) { return "boats", "boat" }

func (b *boats) asked() bool { return b.Boat != "" }

func (b *boats) rollout(env *environment, _ *rolloutCommand) error {
	fmt.Fprintln(env.stdout, b.Boat, b.Sails)
	return nil
}

func (*boats) compare(*comparisons, *compareCommand) error { return nil }

func (*boats) replay(p *comparisons, file string, names []string) (func() error, error) {
	if !strings.HasSuffix(file, "boat.json") {
		return nil, nil
	}
	return func() error {
		fmt.Fprintln(p.env.stdout, "it sails again")
		return nil
	}, nil
}

func (*boats) watch(out io.Writer, dir string) (done bool, err error) {
	if _, err := os.Stat(filepath.Join(dir, "log")); err != nil {
		return false, fs.ErrNotExist
	}
	fmt.Fprintln(out, "it sails")
	return true, nil
}

// TestSecondFamily: with another family beside classic control each is asked, wherever it stands:
// for its flags, its folders and its cases.
func TestSecondFamily(t *testing.T) {
	before := familyRows
	t.Cleanup(func() { familyRows = before })
	sea := familyRow{flags: func() family { return &boats{} }}
	dir := t.TempDir()
	run, carts := filepath.Join(dir, "run"), filepath.Join(dir, "carts")
	for _, file := range []string{filepath.Join(run, "log"), filepath.Join(dir, "boat.json")} {
		if err := os.WriteFile(mkdir(t, file), []byte("{}"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, rows := range map[string][]familyRow{
		"first": append([]familyRow{sea}, before...), "last": append(before[:1:1], sea),
	} {
		familyRows = rows
		for _, c := range []struct {
			args   string
			status int
			says   string
		}{
			{"rollout --boat gig --sails 2", exitOK, "gig 2\n"},
			{"rollout --env CartPole-v1 --steps 5 --out " + carts, exitOK, "5 steps in "},
			{"rollout --sails 2", exitUsage, "--sails goes with --boat\n"},
			{"rollout --num-envs 2", exitUsage, "--num-envs goes with --env\n"},
			{"rollout --boat gig --num-envs 2", exitUsage, "--num-envs does not go with --boat\n"},
			{"rollout --env CartPole-v1 --sails 2", exitUsage, "--sails does not go with --env\n"},
			{"rollout --boat gig --pid 1,0,0", exitUsage, "--pid does not go with --boat\n"},
			{"rollout --boat gig --json", exitOK, "gig 0\n"},
			{"watch " + run, exitOK, "it sails\n"},
			{"watch " + carts, exitOK, "5 of 5 steps of each"},
			{"watch " + dir, exitUsage, "plan.json: no such file"},
			{"rollout --own --num_segs 1 --out " + run, exitUsage,
				run + " is of another run, of --boat: give another folder"},
			{"rollout --own --num_segs 1 --out " + carts, exitUsage,
				carts + " is of another run, of --env: give another folder"},
			{"replay " + filepath.Join(dir, "boat.json"), exitUsage, "it sails again\n"},
		} {
			status, stdout, stderr := lockstepRun(t.Context(), strings.Fields(c.args)...)
			if said := stdout + stderr; status != c.status || !strings.Contains(said, c.says) ||
				strings.Contains(said, "\x1b") { // which is for terminals alone
				t.Errorf("%s, %s: exit %d, %s; want %d and %s", name, c.args, status, said,
					c.status, c.says)
			}
		}
	}
}
