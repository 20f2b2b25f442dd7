package fuzz

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"lockstep/classic"
	golden "lockstep/golden/classic"
	"lockstep/internal/want"
)

// TestClassicLive holds all engines to the Gymnasium that is installed, on seeds and
// options of the day: LOCKSTEP_CLASSIC_LIVE steps of each environment.
func TestClassicLive(t *testing.T) {
	python := want.Gymnasium.Need(t)
	total := 2000
	if text := os.Getenv("LOCKSTEP_CLASSIC_LIVE"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		total = int(n)
	}
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for _, e := range classic.Environments() {
		t.Run(e.Name, func(t *testing.T) {
			compared := 0
			for compared < total {
				cases := liveCases(r, e, total-compared)
				recording, err := golden.Record(
					t.Context(), python, "../golden/classic/record.py", cases,
				)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(recording.NumPy, "1.") {
					t.Fatalf("NumPy %s: this test wants NumPy 2", recording.NumPy)
				}
				for i, c := range recording.Cases {
					if c.Name() != cases[i].Name() || c.Steps != cases[i].Steps {
						t.Fatalf("%s was recorded for %s", c.Name(), cases[i].Name())
					}
					for _, engine := range classicEngines(t) {
						if err := c.Compare(engine); err != nil {
							t.Errorf("key %d: %v", c.Uniform, err)
						}
					}
					compared += c.Steps * c.Num
				}
			}
			t.Logf("%d steps compared", compared)
		})
	}
}

// liveCases draws cases of some steps.
func liveCases(r *rand.Rand, e classic.Environment, steps int) []golden.RecordedCase {
	var cases []golden.RecordedCase
	modes := []string{"next-step", "same-step", "disabled", "off"}
	values := map[string][]string{
		"max_episode_steps":     {"1", "30", "250"},
		"sutton_barto_reward":   {"True"},
		"kinematics_integrator": {"semi-implicit"},
		"book_or_nips":          {"nips"},
		"goal_velocity":         {"0.01", "0.04"},
		"g":                     {"9.81", "1.62"},
	}
	for steps > 0 && len(cases) < 20 {
		c := golden.RecordedCase{
			Env: e.Name, Autoreset: modes[r.IntN(4)], Num: 1 + r.IntN(40),
			Seed: r.Int64N(1 << 50), Uniform: r.Uint64(),
			Options: map[string]string{}, Every: 100, Values: 1,
		}
		if e.Shared {
			c.Autoreset = "next-step"
		}
		if r.IntN(4) == 0 {
			c.Network = golden.Goal(e.Name)
		}
		for _, o := range e.Options() {
			if r.IntN(3) == 0 {
				c.Options[o] = values[o][r.IntN(len(values[o]))]
			}
		}
		c.Steps = min(max(steps/c.Num/100, 1), 20) * 100
		steps -= c.Steps * c.Num
		cases = append(cases, c)
	}
	return cases
}
