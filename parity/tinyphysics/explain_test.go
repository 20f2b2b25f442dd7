package tinyphysics

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
	"lockstep/reference"
)

// low rounds a toy's logits to sixteenths, as an engine of low precision would.
func low(_ string, _ int, stage string, s *lockstep.Step) {
	if stage == Logits {
		for i, x := range s.Logits {
			s.Logits[i] = float32(math.Round(float64(x)*16) / 16)
		}
	}
}

// TestInexact: an engine of low precision. Its flips are explained and counted
// against the budget.
func TestInexact(t *testing.T) {
	jobs := toyJobs(6, 150)
	a, b := &toy{name: "a"}, &toy{name: "low", plant: low}
	generous := parity.Budget{Flips: 1000}
	for name, c := range map[string]struct{ want, got parity.Side }{
		"live":         {Live(a), Live(b)},
		"got recorded": {Live(a), parity.Traced(record(t, b, jobs, lockstep.AllSteps, everything))},
		"recorded":     {parity.Traced(record(t, a, jobs, lockstep.AllSteps, everything)), Live(b)},
	} {
		r := compare(t, c.want, c.got, jobs, parity.CompareOptions{Inexact: true, Budget: generous})
		flips := explained(t, name, r)
		budgets(t, name, c.want, c.got, jobs, flips, r.Tolerated[2].Abs)
		// Exactly, all of it is wrong, and logits are to blame.
		exact := compare(t, c.want, c.got, jobs, parity.CompareOptions{Budget: generous})
		if exact.OK() || len(exact.Findings) != 1 || exact.Findings[0].Stage != Logits ||
			exact.Findings[0].Findings != r.Steps ||
			exact.Flips.Explained != 0 {
			t.Errorf("%s: exactly %+v", name, exact.Findings)
		}
	}
	// Without the values nothing can be explained.
	r := compare(
		t, Live(a), parity.Traced(record(t, b, jobs, lockstep.AllSteps, 0)), jobs,
		parity.CompareOptions{Inexact: true, Budget: generous},
	)
	if r.OK() || r.Flips.Unexplained == 0 || r.Flips.Explained != 0 || r.First.Stage != Sample ||
		r.Tolerated[2].Unknown != r.Tolerated[2].Steps {
		t.Errorf("without values: %v, flips %+v", r.Err(), r.Flips)
	}
}

// explained holds a report to flips that are all explained, and returns how many there are.
func explained(t *testing.T, name string, r *parity.Report) (flips int) {
	t.Helper()
	if r.Err() != nil || r.Flips.Explained == 0 || r.Flips.Unexplained != 0 || r.Equal() != 0 ||
		r.Unjudged != 0 ||
		r.Forced != r.Steps {
		t.Errorf(
			"%s: %v, flips %+v, %d equal, %d of %d steps forced, %d unjudged", name, r.Err(),
			r.Flips, r.Equal(), r.Forced, r.Steps, r.Unjudged,
		)
	}
	for _, v := range r.Rollouts {
		flips += v.Flips
	}
	if flips != r.Flips.Explained || len(r.Flips.Examples) != min(flips, 20) {
		t.Errorf(
			"%s: %d flips by rollout, %d in everything, %d examples", name, flips,
			r.Flips.Explained, len(r.Flips.Examples),
		)
	}
	for _, e := range r.Flips.Examples {
		if !e.Explained || e.Why != "" || e.Text == "" || len(e.Facts) != 4 ||
			!strings.HasPrefix(e.Rollout, "route 0") {
			t.Errorf("%s: %+v", name, e)
		}
	}
	tolerated(t, name, r)
	return flips
}

// tolerated: logits differ by a little at all steps, and it is known how far CDFs are apart.
func tolerated(t *testing.T, name string, r *parity.Report) {
	t.Helper()
	if len(r.Tolerated) != 3 || r.Tolerated[0].Stage != Logits ||
		r.Tolerated[0].Steps != r.Steps ||
		!(r.Tolerated[0].Abs > 0 && r.Tolerated[0].Abs <= 1./32) ||
		r.Tolerated[0].ULPs == 0 ||
		r.Tolerated[2].Unknown != 0 {
		t.Errorf("%s: tolerated %+v", name, r.Tolerated)
	}
}

// budgets: one flip fewer than there are is too few, and half of how far CDFs are apart too little.
func budgets(t *testing.T, name string, want, got parity.Side, jobs []lockstep.Job, flips int,
	apart parity.Float) {
	t.Helper()
	over := compare(
		t, want, got, jobs,
		parity.CompareOptions{Inexact: true, Budget: parity.Budget{Flips: flips - 1}},
	)
	if says := fmt.Sprintf("%d explained flips, the budget is %d", flips, flips-1); over.OK() ||
		!strings.Contains(over.Err().Error(), says) {
		t.Errorf("%s: %v, want %s", name, over.Err(), says)
	}
	for _, budget := range []parity.Float{apart, apart / 2} {
		limited := compare(
			t, want, got, jobs,
			parity.CompareOptions{
				Inexact: true,
				Budget: parity.Budget{
					Flips: flips,
					Apart: map[string]parity.Float{CDF: budget},
				},
			},
		)
		if limited.OK() != (budget == apart) {
			t.Errorf("%s: CDFs %g apart, budget %g: %v", name, apart, budget, limited.Err())
		}
	}
}

// TestInexactUnexplained: whatever an imprecise network does not explain fails, with any
// budget.
func TestInexactUnexplained(t *testing.T) {
	jobs := toyJobs(4, 150)
	once := func(step int) bool { return step == 120 }
	tenth := func(step int) bool { return step%10 == 0 }
	end := func(step int) bool { return step == -1 }
	const token = "the CDF got gives token "
	for name, c := range map[string]struct {
		stage  string // that is changed, and found
		when   func(step int) bool
		change func(s *lockstep.Step)
		why    string
	}{
		"the next token": {
			Sample, tenth, func(s *lockstep.Step) { s.Sample = min(s.Sample+1, 1023) }, token,
		},
		"another token": {Sample, once, func(s *lockstep.Step) { s.Sample ^= 256 }, token},
		"another draw":  {Draw, once, func(s *lockstep.Step) { s.Draw = 1 - s.Draw }, ""},
		"tokens":        {Tokens, once, func(s *lockstep.Step) { s.Tokens[19] ^= 1 }, ""},
		"decoding": {Prediction, once, func(s *lockstep.Step) {
			s.Prediction = float64(float32(s.Prediction))
		}, ""},
		"clip": {Lataccel, once, func(s *lockstep.Step) {
			s.Lataccel = math.Nextafter(s.Lataccel, 9)
		}, ""},
		"cost": {Costs, end, func(s *lockstep.Step) { s.Lataccel *= 2 }, ""},
	} {
		b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
			low(route, step, stage, s)
			if stage == c.stage && c.when(step) {
				c.change(s)
			}
		}}
		r := compare(
			t, Live(&toy{name: "a"}), Live(b), jobs,
			parity.CompareOptions{Inexact: true, Budget: parity.Budget{Flips: 1 << 20}},
		)
		if r.OK() || len(r.Findings) != 1 || r.Findings[0].Stage != c.stage ||
			r.First.Stage != c.stage {
			t.Errorf("%s: %v, %+v", name, r.Err(), r.Findings)
			continue
		}
		if c.why != "" &&
			(r.Flips.Unexplained != r.Findings[0].Findings || r.First.Explanation == nil ||
				!strings.HasPrefix(r.First.Explanation.Why, c.why)) {
			t.Errorf("%s: %+v, flips %+v", name, r.First.Explanation, r.Flips)
		}
	}
}

// TestInexactProfiles compares the reference in two arithmetic profiles: no bit of the
// logits is promised to be the same, and all else follows.
func TestInexactProfiles(t *testing.T) {
	model := assetstest.Model(t)
	var sims []*reference.Simulator
	for _, softmax := range []lockstep.Softmax{lockstep.SoftmaxAVX512, lockstep.SoftmaxAVX2} {
		s, err := reference.New(model, lockstep.Profile{Softmax: softmax})
		if err != nil {
			t.Fatal(err)
		}
		sims = append(sims, s)
	}
	jobs := []lockstep.Job{
		{Route: assetstest.Route(t, "04744", lockstep.Profile{}), Policy: lockstep.DefaultPID()},
	}
	jobs[0].Route = firstRows(jobs[0].Route, 200)
	r := compare(t, Live(sims[0]), Live(sims[1]), jobs, parity.CompareOptions{Inexact: true})
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if len(r.Tolerated) != 3 || r.Tolerated[0].Steps < 100 || !(r.Tolerated[0].Abs < 1e-4) ||
		!(r.Tolerated[2].Abs > 0 && r.Tolerated[2].Abs < 1e-4) ||
		r.Forced != 180 {
		t.Errorf("tolerated %+v, %d steps forced", r.Tolerated, r.Forced)
	}
	if r := compare(t, Live(sims[0]), Live(sims[1]), jobs, parity.CompareOptions{}); r.OK() ||
		r.First.Stage != Logits ||
		r.First.ULPs == 0 {
		t.Errorf("exactly: %v", r.Err())
	}
	if r.Want.Profile == r.Got.Profile {
		t.Errorf("both sides have profile %s", r.Want.Profile)
	}
}

// TestChoice: of any two growing CDFs and one draw, the tokens that they give are always
// explained; others never.
func TestChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "tokens")
		cdf := func(name string) []float64 {
			steps := rapid.SliceOfN(rapid.SampledFrom([]float64{0, 0.1, 0.25, 1, 1e-9}), n, n).Draw(
				t, name,
			)
			sum := 0.0
			for i, x := range steps {
				sum += x
				steps[i] = sum
			}
			for i := range steps {
				steps[i] /= sum
			}
			steps[n-1] = 1
			if sum == 0 {
				clear(steps[:n-1])
			}
			return steps
		}
		draw := rapid.OneOf(
			rapid.Float64Range(0, math.Nextafter(1, 0)),
			rapid.SampledFrom([]float64{0, 0.1, 0.2, 0.25, 0.5}),
		).Draw(t, "draw")
		side := func(name string) *lockstep.Step {
			s := &lockstep.Step{Draw: draw, CDF: cdf(name)}
			for s.CDF[s.Sample] <= draw {
				s.Sample++
			}
			return s
		}
		want, got := side("want"), side("got")
		if c := newChoice(exposed(want), exposed(got)); want.Sample != got.Sample &&
			(!c.explained || c.why != "") ||
			want.Sample == got.Sample && c.explained {
			t.Fatalf("%v: %+v", want, c)
		}
		wrong := rapid.IntRange(-1, n).Draw(t, "wrong token")
		broken := rapid.SampledFrom([]*lockstep.Step{want, got}).Draw(t, "side")
		if wrong == broken.Sample {
			return
		}
		broken.Sample = wrong
		if c := newChoice(exposed(want), exposed(got)); want.Sample != got.Sample &&
			(c.explained || c.why == "") {
			t.Fatalf("%v: %+v", want, c)
		}
	})
	if c := newChoice(exposed(&lockstep.Step{}), exposed(&lockstep.Step{})); c != nil {
		t.Errorf("without CDFs: %v", c)
	}
	nan := []float64{0.5, math.NaN(), 1}
	a, b := exposed(&lockstep.Step{Draw: 0.7, Sample: 2, CDF: []float64{0.2, 0.6, 1}}),
		exposed(&lockstep.Step{Draw: 0.7, Sample: 1, CDF: nan})
	if c := newChoice(a, b); c.explained || c.why != "the CDF got is none" {
		t.Errorf("a CDF that is no number: %+v", c)
	}
	b = exposed(&lockstep.Step{Draw: 0.6, Sample: 1, CDF: nan})
	if c := newChoice(a, b); c.explained || c.why != "the draws differ" {
		t.Errorf("of another draw, too: %+v", c)
	}
}

// firstRows is the beginning of a route.
func firstRows(r *lockstep.Route, n int) *lockstep.Route {
	c := *r
	c.Draws = nil
	c.RollLataccel, c.VEgo, c.AEgo = r.RollLataccel[:n], r.VEgo[:n], r.AEgo[:n]
	c.TargetLataccel, c.SteerCommand = r.TargetLataccel[:n], r.SteerCommand[:n]
	return &c
}

// TestInexactLogitsOnly: traces that hold nothing but logits. From the first step whose
// token may have differed, histories are not known to be equal.
func TestInexactLogitsOnly(t *testing.T) {
	file := func(offset float32) parity.Side {
		var b bytes.Buffer
		w, err := trace.NewWriter(&b, trace.Header{Schema: view.Schema}, everything)
		if err != nil {
			t.Fatal(err)
		}
		o := w.Begin(trace.Rollout{Key: []string{"00000", "pid"}})
		for i := range 100 {
			values := make([]float32, lockstep.VocabSize)
			values[3] = offset
			o.Observe(known(20+i, view.Set(Logits), lockstep.Step{Logits: values}))
		}
		o.End(nil, nil)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := trace.NewFile(bytes.NewReader(b.Bytes()), "logits.trace")
		if err != nil {
			t.Fatal(err)
		}
		return parity.Traced(f)
	}
	r := compare(t, file(1), file(1.5), nil, parity.CompareOptions{Inexact: true})
	if r.Err() != nil || r.Unjudged != 19 || len(r.Tolerated) != 1 || r.Tolerated[0].Abs != 0.5 ||
		r.Tolerated[0].Steps != 81 {
		t.Errorf("%v, %d unjudged, %+v", r.Err(), r.Unjudged, r.Tolerated)
	}
}

func exposed(s *lockstep.Step) *schema.Step {
	if s.Logits == nil { // so that a token below 0 is one, too
		s.Logits = []float32{0}
	}
	to := view.NewStep()
	Expose(s, to)
	return to
}

// TestMargins: where both sides' tokens are those of their own CDFs, the edges between the tokens
// are no further from the draw than the CDFs are apart, so that the distance need not be asked for:
// the draw lies between the two, and differences are rounded in their order.
func TestMargins(t *testing.T) {
	flips := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 6).Draw(t, "tokens")
		value := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{
			0, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-53, 0.5, math.Nextafter(0.5, 1),
			math.Nextafter(0.5, 0), 1, math.Nextafter(1, 2), math.MaxFloat64, math.Inf(1),
		}))
		draw := rapid.SampledFrom([]float64{0, 0x1p-53, 0.5, 1 - 0x1p-53, 0.3}).Draw(t, "draw")
		var sides [2]*chosen
		for k := range sides {
			c := &chosen{draw: draw, cdf: rapid.SliceOfN(value, n, n).Draw(t, "CDF")}
			slices.Sort(c.cdf)
			c.token = int64(slices.IndexFunc(c.cdf, func(x float64) bool { return x > draw }))
			if c.wrong("it") != "" {
				return
			}
			sides[k] = c
		}
		low, high := sides[0], sides[1]
		if low.token > high.token {
			low, high = high, low
		}
		if low.token == high.token {
			return
		}
		flips++
		apart := 0.0
		for i := range n {
			if low.cdf[i] != high.cdf[i] {
				apart = max(apart, math.Abs(low.cdf[i]-high.cdf[i]))
			}
		}
		if above := low.cdf[high.token-1] - draw; above > apart || above < 0 {
			t.Fatalf("the lower token's edge is %v above the draw, the CDFs %v apart", above, apart)
		}
		if below := draw - high.cdf[low.token]; below > apart || below < 0 {
			t.Fatalf("the higher one's edge is %v below the draw, the CDFs %v apart", below, apart)
		}
	})
	if flips == 0 {
		t.Error("no tokens differ")
	}
}
