package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/simtest"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/policyfile"
	"lockstep/reference"
	"lockstep/routefile"
	"lockstep/snapshotfile"
)

// TestPlain: what others have written comes to the terminal without what that would obey, on
// standard output and on standard error.
func TestPlain(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J"
	dir := t.TempDir()
	curve := filepath.Join(dir, "curve.csv")
	if err := os.WriteFile(curve, []byte("generation,"+hostile+"cost\n1,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"watch", dir, "--once"},
		{"watch", filepath.Join(dir, hostile), "--once"},
		{"rollout", "--data_path", filepath.Join(dir, hostile+".csv"), "--controller",
			hostile + ".py"},
	} {
		_, out, errs := lockstepRun(t.Context(), args...)
		if text := out + errs; strings.ContainsAny(text, "\x1b\x07") ||
			!strings.Contains(text, "owned") {
			t.Errorf("%q prints %q", args[0], text)
		}
	}
}

// nameForms are the forms that hold a name of any route, with what comes back from each.
var nameForms = map[string]func(t *testing.T, r *lockstep.Route) (string, error){
	"a snapshot": func(_ *testing.T, r *lockstep.Route) (string, error) {
		data, err := snapshotfile.Marshal(&lockstep.Snapshot{
			Rollouts: []lockstep.RolloutState{{Route: r.Name}},
		})
		if err != nil {
			return "", err
		}
		s, err := snapshotfile.Unmarshal(data)
		if err != nil {
			return "", err
		}
		return s.Rollouts[0].Route, nil
	},
	"a table of actions": func(_ *testing.T, r *lockstep.Route) (name string, err error) {
		data, err := policyfile.Marshal(&lockstep.Table{Actions: map[string][]float64{
			r.Name: make([]float64, lockstep.TableSteps),
		}})
		if err != nil {
			return "", err
		}
		p, err := policyfile.Unmarshal(data, ".json")
		if err != nil {
			return "", err
		}
		for name = range p.(*lockstep.Table).Actions {
		}
		return name, nil
	},
	"a trace": func(_ *testing.T, r *lockstep.Route) (string, error) {
		var b bytes.Buffer
		w, err := trace.NewWriter(&b, trace.Header{Schema: *tinyphysics.Schema(0)}, 0)
		if err != nil {
			return "", err
		}
		job := lockstep.Job{Route: r, Policy: lockstep.Zero{}}
		w.Begin(tinyphysics.Of(job)).End(nil, nil)
		if err := w.Close(); err != nil {
			return "", err
		}
		f, err := trace.NewFile(bytes.NewReader(b.Bytes()), "a.trace")
		if err != nil {
			return "", err
		}
		return f.Rollouts[0].Key[0], nil
	},
	"a case": func(t *testing.T, r *lockstep.Route) (string, error) {
		c, err := tinyphysics.NewCase([]lockstep.Job{{Route: r, Policy: lockstep.Zero{}}}, 0)
		if err != nil {
			return "", err
		}
		if err := c.Save(t.TempDir()); err != nil {
			return "", err
		}
		if c, err = tinyphysics.LoadCase(c.Path); err != nil {
			return "", err
		}
		return c.Routes[0].Name, nil
	},
}

// fileForms are those of the command, whose routes are files'.
var fileForms = map[string]func(t *testing.T, r *lockstep.Route) (string, error){
	"a plan": func(t *testing.T, r *lockstep.Route) (string, error) {
		dir := t.TempDir()
		o := runs.Opened{Simulator: &reference.Simulator{}, Plan: &runs.Plan{
			Version:     runs.Version,
			Controllers: []runs.PlannedController{{Name: "pid"}},
			Routes:      []runs.PlannedRoute{runs.PlanRoute(r)},
		}}
		if err := o.WritePlan(dir, 1); err != nil {
			return "", err
		}
		p, err := runs.OpenShards(dir)
		if err != nil {
			return "", err
		}
		return p.Routes[0].Name, nil
	},
	"a line of JSON": func(_ *testing.T, r *lockstep.Route) (string, error) {
		var b bytes.Buffer
		l := report.Lines{
			Controllers: []string{"pid"}, Routes: []string{r.Name}, Out: &b, JSON: true,
		}
		l.Add(0, lockstep.Result{})
		var line struct{ Route string }
		err := json.Unmarshal(b.Bytes(), &line)
		return line.Route, err
	},
}

// TestNames: a route's name comes back as it was from whatever holds it; one that is no UTF-8, as
// which no file's is loaded, may be refused by name.
func TestNames(t *testing.T) {
	route := &lockstep.Route{Draws: make([]float64, lockstep.MinRows-lockstep.ContextLength)}
	for _, column := range route.Columns() {
		*column = make([]float64, lockstep.MinRows)
	}
	for _, file := range []string{
		"00000", `"`, `\`, "a\nb", "\x1b[2J", "\x1b\"", "<&>", "\u2028", "é", "e\u0301", " a ",
		"=1", "[ 1,  2 ]", "\ufffd", "a\xff", "\xed\xa0\x80",
		"{\"route\": []}", strings.Repeat("n", 999),
	} {
		loaded := routefile.Name(filepath.Join("data", file+".csv"))
		if quoted := strconv.Quote(file); loaded != file && loaded != quoted[1:len(quoted)-1] {
			t.Errorf("route %q is loaded as %q", file, loaded)
		}
		route.Name = loaded
		for form, back := range fileForms {
			if got, err := back(t, route); err != nil || got != loaded {
				t.Errorf("%s of route %q is one of %q: %v", form, loaded, got, err)
			}
		}
		for form, back := range nameForms {
			for _, name := range slices.Compact([]string{file, loaded}) {
				route.Name = name
				got, err := back(t, route)
				if err != nil && !utf8.ValidString(name) {
					simtest.Refused(t, form, err, strconv.Quote(name)+" is no UTF-8")
				} else if err != nil || got != name && (form != "a trace" || got != loaded) {
					t.Errorf("%s of route %q is one of %q: %v", form, name, got, err)
				}
			}
		}
	}
}
