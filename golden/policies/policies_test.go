package policies_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockstep"
	"lockstep/engines"
	"lockstep/golden"
	"lockstep/golden/policies"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/policyfile"
	"lockstep/routefile"
)

// byName are the recorded policies.
func byName(t *testing.T) map[string]lockstep.Native {
	t.Helper()
	n, err := policies.Network()
	if err != nil {
		t.Fatal(err)
	}
	wide, err := policies.Wide()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]lockstep.Native{"pidff": policies.PIDFF(), "network": n, "wide": wide}
}

// TestExport writes the controllers for record.py, to the folder that is named.
func TestExport(t *testing.T) {
	dir := os.Getenv("LOCKSTEP_EXPORT")
	if dir == "" {
		dir = t.TempDir()
	}
	for name, p := range byName(t) {
		source, err := policyfile.Export(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".py"), source, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecordings holds every engine that is not slow to the exported controllers in the unmodified
// Python program: what the network saw and answered, every action and lataccel, and
// the costs, on all routes.
func TestRecordings(t *testing.T) {
	profile, recordings, err := policies.Read(policies.Challenge)
	if err != nil {
		t.Fatal(err)
	}
	// The wide network's recording is with the project's own network alone: it is large.
	if want := len(assetstest.RouteNames) * (len(byName(t)) - 1); len(recordings) != want {
		t.Fatalf("%d recordings, want %d", len(recordings), want)
	}
	holdAll(t, false, profile, recordings, func(name string) (model, route string) {
		return assetstest.Find(t, assets.Model), assetstest.RoutePath(t, name)
	})
}

// TestOwn is the same with the project's own network and a route of its own, in each profile
// that is recorded; slow engines are here in the first, with the networks that steer.
func TestOwn(t *testing.T) {
	model, routes, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[lockstep.Profile]bool{}
	for k, file := range policies.Default() {
		profile, recordings, err := policies.Read(file)
		if err != nil || len(recordings) != len(byName(t)) || seen[profile] {
			t.Fatal(file, profile, err, len(recordings))
		}
		seen[profile] = true
		t.Run(profile.String(), func(t *testing.T) {
			holdAll(
				t,
				k == 0,
				profile,
				recordings,
				func(name string) (string, string) {
					return model, filepath.Join(routes, name+".csv")
				},
			)
		})
	}
}

func holdAll(
	t *testing.T, slow bool, profile lockstep.Profile, recordings []policies.PolicyRecording,
	files func(name string) (model, route string)) {
	t.Helper()
	list := byName(t)
	var jobs []lockstep.Job
	loader := routefile.Loader{Profile: profile}
	model := ""
	for _, r := range recordings {
		var path string
		model, path = files(r.Route)
		route, err := loader.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if hash := golden.HashRoute(route); !slices.Equal(hash[:], r.RouteHash) {
			t.Fatalf("route %s is another than the one that was recorded", r.Route)
		}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: list[r.Policy]})
	}
	for _, e := range engines.Checked() {
		jobs, recordings := jobs, recordings
		if e.Slow {
			if !slow {
				continue
			}
			var networks []int
			for _, name := range []string{"network", "wide"} {
				networks = append(networks, slices.IndexFunc(
					recordings, func(r policies.PolicyRecording) bool { return r.Policy == name },
				))
			}
			jobs, recordings = pick(jobs, networks), pick(recordings, networks)
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, engines.Config{Model: model, Profile: profile})
			if s.Profile() != profile {
				t.Skipf(
					"it computes with profile %s on this machine, the recordings are of %s",
					s.Profile(), profile)
			}
			hold(t, s, jobs, recordings)
		})
	}
}

// pick are the elements at those places.
func pick[T any](all []T, places []int) (some []T) {
	for _, i := range places {
		some = append(some, all[i])
	}
	return some
}

func hold(t *testing.T, s lockstep.Simulator, jobs []lockstep.Job,
	recordings []policies.PolicyRecording) {
	t.Helper()
	jobs = slices.Clone(jobs)
	faults := make([]string, len(jobs))
	steps := make([]int, len(jobs))
	for i := range jobs {
		r := &recordings[i]
		jobs[i].Observe = func(s *lockstep.Step) {
			steps[i]++
			if faults[i] != "" {
				return
			}
			at, acts := s.Index-lockstep.ContextLength, s.Index-lockstep.ControlStartIdx
			switch {
			case acts >= 0 && len(r.Raw) > 0 && golden.Hash(s.Observation) != r.Observation[acts]:
				faults[i] = fmt.Sprintf("step %d: another observation", s.Index)
			case acts >= 0 && len(r.Raw) > 0 && !slices.Equal(s.Actor, r.Actor[2*acts:2*acts+2]):
				faults[i] = fmt.Sprintf(
					"step %d: the network answers %v, want %v", s.Index, s.Actor,
					r.Actor[2*acts:2*acts+2])
			case acts >= 0 && len(r.Raw) > 0 && s.Raw != r.Raw[acts]:
				faults[i] = fmt.Sprintf(
					"step %d: raw action %v, want %v", s.Index, s.Raw, r.Raw[acts])
			case s.Action != r.Action[at]:
				faults[i] = fmt.Sprintf(
					"step %d: action %v, want %v", s.Index, s.Action, r.Action[at])
			case s.Lataccel != r.Lataccel[at]:
				faults[i] = fmt.Sprintf(
					"step %d: lataccel %v, want %v", s.Index, s.Lataccel, r.Lataccel[at])
			}
		}
	}
	for i, result := range s.Simulate(
		context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory},
	) {
		name := recordings[i].Route + "." + recordings[i].Policy
		switch {
		case result.Err != nil:
			t.Error(result.Err)
		case faults[i] != "":
			t.Errorf("%s, %s", name, faults[i])
		case steps[i] != len(recordings[i].Action):
			t.Errorf("%s: %d steps, want %d", name, steps[i], len(recordings[i].Action))
		case result.Costs != recordings[i].Costs:
			t.Errorf("%s: costs %v, want %v", name, result.Costs, recordings[i].Costs)
		}
	}
}
