package report

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

var renew = flag.Bool("renew", false, "TestPages: write the pages as they are now")

// apart are what pages have in common: style and scripts; far are lines of many places.
var (
	apart = regexp.MustCompile(`(?s)<(style|script)[^>]*>.*?</(style|script)>`)
	far   = regexp.MustCompile(`"[^"]{200,}"`)
)

// brief is a page in lines that can be read: of what is far the beginning is there, and its hash.
func brief(data []byte) string {
	own := apart.ReplaceAllString(string(data), "")
	page := far.ReplaceAllStringFunc(own, func(s string) string {
		return fmt.Sprintf("%.60s… %d bytes of SHA-256 %.8x\"", s, len(s), sha256.Sum256([]byte(s)))
	})
	return regexp.MustCompile(`\s*\n\s*`).ReplaceAllString(page, "\n")
}

// fixedPages are pages of fixed inputs, with something of everything that is drawn.
func fixedPages(t *testing.T) map[string]func(path string) error {
	single := Single{Run: testRun("pid", 60, 1.25), Origin: testEval(1).Origin}
	route := &lockstep.Route{}
	for i := range 600 {
		route.RollLataccel = append(route.RollLataccel, float64(i%50)/40)
		route.VEgo = append(route.VEgo, 20+float64(i%7)/3)
	}
	single.Routes[0].Route, single.Routes[1].Trajectory = route, wave(130, 0.5)
	single.Routes[7].Err, single.Routes[9].Costs = errors.New("it broke"), costs(math.NaN(), 1)
	single.Routes[11].Costs = costs(math.Inf(1), 1)
	eval := testEval(60)
	eval.Test.Routes[7].Err, eval.Baseline.Routes[8].Err = errors.New("a"), errors.New("b")
	eval.Test.Routes[9].Costs, eval.Baseline.Routes[11].Costs = costs(math.NaN(), 1), costs(1, 1e9)
	eval.Test.Routes[12].Costs, eval.Test.Routes[2].Trajectory = costs(300, 2), nil
	search := &SearchReport{
		Title: "Gains", Routes: []string{"00000", "00001", "00002"},
		Bounds: []Bound{{"floor", []float64{1, 2.5, 30}}, {"other", []float64{9, 8, 7}}},
		Curve: &Curves{Label: "mean total cost", X: "generation", Names: []string{"best", "mean"},
			Values: [][]float64{{900, 420, 77.5, 77}, {2100, 800, 433, math.NaN()}}},
		Origin: eval.Origin,
	}
	for i, policy := range []lockstep.Policy{
		lockstep.DefaultPID(), lockstep.PIDFF{P: 0.25, I: 0.125, D: -0.5}, lockstep.Zero{},
	} {
		var results []lockstep.Result
		for k := range search.Routes {
			results = append(results, lockstep.Result{Costs: costs(float64(1+i+7*k), float64(k))})
		}
		if err := search.Add(policy, results); err != nil {
			t.Fatal(err)
		}
	}
	long := testComparison(tinyphysics.Logits)
	long.Report.First.ULPs, long.Report.First.Values = 1<<40, 1
	long.Report.Flips.Explained, long.Report.Flips.Stage = 4, tinyphysics.Sample
	long.Report.Tolerated = []parity.Tolerance{
		{Stage: tinyphysics.Probs, Steps: 3}, {Stage: tinyphysics.Logits, Steps: 5}, // has findings
	}
	long.Report.Flips.Examples = append(long.Report.Flips.Examples,
		&parity.Explanation{Rollout: "one that something explains", Explained: true})
	long.Report.Exercised = &parity.Exercised{}
	for len(long.Report.Rollouts) < maxDrives+7 {
		long.Report.Rollouts = append(long.Report.Rollouts, long.Report.Rollouts[0])
	}
	far := testEval(5) // whose test controller loses each route but one
	far.Test, far.Baseline = distant(far.Baseline, 20_000_000), distant(far.Test, 10_000_000)
	far.Baseline.Engine = "batched"
	lost, tied := &far.Test.Routes[2], &far.Test.Routes[3]
	lost.Costs, tied.Costs = far.Baseline.Routes[2].Costs, far.Baseline.Routes[3].Costs
	lost.Costs.Total += 0.5
	farRoute := Single{Run: distant(testRun("pid", 20, 1.25), 16_777_216), Origin: far.Origin}
	farSearch := &SearchReport{
		Title: "Gains", Routes: []string{"00000", "00001"},
		Bounds: []Bound{{"floor", []float64{33_554_433.125, 16_777_217.375}}},
		Curve: &Curves{Label: "mean total cost", X: "generation", Names: []string{"best", "mean"},
			Values: [][]float64{
				{33_554_439, 33_554_437.5, 33_554_434},
				{33_554_441, 33_554_440, 33_554_436, 33_554_435},
			}},
	}
	results := []lockstep.Result{{Costs: costs(671_088.7, 3)}, {Costs: costs(335_544.4, 1)}}
	if err := farSearch.Add(lockstep.PID{P: 16_777_217.5}, results); err != nil {
		t.Fatal(err)
	}
	farGate := testGate()
	farGate.Seconds, farGate.Checks[1].Seconds = 33_554_433, 33_554_433.3
	farGate.Checks[4].Mutants[0].Seconds = 33_554_435.3
	farParity := testComparison(tinyphysics.Draw)
	farParity.Report.Stages = append([]string{"own"}, farParity.Report.Stages...)
	farParity.Report.Findings[0].Stage, farParity.Report.Findings[0].Findings = schema.Extent, 1
	farParity.Report.Findings = append(farParity.Report.Findings, parity.StageFindings{
		Stage: "route", Findings: 1, Rollouts: 1,
	}, parity.StageFindings{Stage: "own", Findings: 1})
	farParity.Report.Compared["own"] = 1
	farParity.Report.Flips.Explained, farParity.Report.Flips.Stage = 1, tinyphysics.Sample
	broken := verdict.Comparison{Kind: "engines", Want: "reference", Got: "gpu", Error: "it broke"}
	for _, c := range farParity.Report.Plot.Charts {
		for _, l := range c.Lines {
			for i := range l.Values {
				l.Values[i] += 1 << 26
			}
		}
	}
	charts := farParity.Report.Plot.Charts
	charts[1].Lines[0].Values = charts[1].Lines[0].Values[:110] // got is the longest, and the last
	charts[2].Lines[0].Values[5] = parity.Float(math.NaN())
	return map[string]func(path string) error{
		"eval-far":    func(path string) error { return WriteEval(path, far) },
		"rollout-far": func(path string) error { return WriteRollout(path, farRoute) },
		"search-far":  func(path string) error { return WriteSearch(path, farSearch) },
		"gate-far":    func(path string) error { return WriteGate(path, farGate, Origin{}) },
		"parity-far": func(path string) error {
			return WriteParity(path, Parity{Comparisons: []verdict.Comparison{
				testComparison(tinyphysics.Logits), farParity, broken,
			}})
		},
		"parity-long": func(path string) error {
			return WriteParity(path, Parity{Comparisons: []verdict.Comparison{long}})
		},
		"eval":     func(path string) error { return WriteEval(path, eval) },
		"eval-few": func(path string) error { return WriteEval(path, testEval(3)) },
		"rollout":  func(path string) error { return WriteRollout(path, single) },
		"search":   func(path string) error { return WriteSearch(path, search) },
		"gate":     func(path string) error { return WriteGate(path, testGate(), Origin{}) },
		"parity": func(path string) error {
			return WriteParity(path, Parity{Comparisons: []verdict.Comparison{
				testComparison(), testComparison(tinyphysics.Logits, tinyphysics.Draw),
			}})
		},
	}
}

// distant is a run whose numbers are so far from 0 that 32 bits do not hold what they differ by.
func distant(r Run, by float64) Run {
	for i := range r.Routes {
		route := &r.Routes[i]
		route.Costs = costs(route.Costs.Lataccel+by, route.Costs.Jerk+by/8)
		route.Floor += by
		if t := route.Trajectory; t != nil {
			for _, column := range [][]float64{t.Target, t.Lataccel, t.Action} {
				for k := range column {
					column[k] += by
				}
			}
		}
	}
	return r
}

// TestPages: the pages of fixed inputs are what they were, every number and place in them. Where
// they are to be others, `go test ./cmd/internal/report -run TestPages -renew` writes them anew,
// and the difference of testdata/pages is what changed.
func TestPages(t *testing.T) {
	for name, write := range fixedPages(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "page.html")
			if err := write(path); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, kept := brief(data), filepath.Join("testdata", "pages", name+".txt")
			if *renew {
				if err := os.WriteFile(kept, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(kept)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("%s is another: %s", kept, d)
			}
		})
	}
}

// TestGateRequires: a gate's page names what was required, if anything was, and nothing else.
func TestGateRequires(t *testing.T) {
	for want, r := range map[string]verdict.GateResult{
		"":                 {},
		"hardware":         {RequireHardware: true},
		"assets, gpu":      {Require: []string{"assets", "gpu"}},
		"assets, hardware": {Require: []string{"assets"}, RequireHardware: true},
	} {
		p := written(t, func(path string) error { return WriteGate(path, &r, Origin{}) })
		said := ""
		if _, after, ok := strings.Cut(string(p.bytes), "<dt>required</dt><dd>"); ok {
			said, _, _ = strings.Cut(after, "<")
		}
		if said != want {
			t.Errorf("%q is required, want %q", said, want)
		}
	}
}

// TestMost: of a list that is too long for a page it is said how long it is, or how much is left
// out, and of one that fits nothing.
func TestMost(t *testing.T) {
	for _, more := range []int{-1, 0, 1} {
		n := maxMessages + more
		c := verdict.Check{
			Outcome: verdict.Failed,
			Cases:   slices.Repeat([]verdict.CheckCase{{Outcome: verdict.Failed}}, n),
		}
		want := map[bool]int{true: n}[more > 0] // all of them
		if r := newCheckRow(&c); r.More != want || len(r.Failures) != min(n, maxMessages) {
			t.Errorf("%d messages: %d, of %d", n, len(r.Failures), r.More)
		}
		l := make(failureList, maxFailures+more)
		if l.More() != max(more, 0) || len(l.Shown()) != min(len(l), maxFailures) {
			t.Errorf("%d failures: %d and %d more", len(l), len(l.Shown()), l.More())
		}
		drives := verdict.Comparison{Report: &parity.Report{
			Exercised: &parity.Exercised{}, Rollouts: make([]parity.Verdict, maxDrives+more),
		}}
		if e := newExercisedPart(&drives); e.More != max(more, 0) ||
			len(e.Drives) != min(maxDrives+more, maxDrives) {
			t.Errorf("%d drives: %d and %d more", maxDrives+more, len(e.Drives), e.More)
		}
		n = fewPoints + more
		few := strings.HasSuffix(newEvalPage(testEval(n)).Scatter.Class, " few")
		if few != (more <= 0) {
			t.Errorf("%d points are few: %v", n, few)
		}
	}
}
