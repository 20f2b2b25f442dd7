package lockstep_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestSeen: what is declared reads back, and what is not there is refused by its text.
func TestSeen(t *testing.T) {
	for text, want := range map[string]string{
		"target[0]-lataccel[-1]":         "",
		"observation[255]":               "",
		"v[49]-20/15":                    "",
		"v[49]-20.1/15.3":                "",
		" a[-80] - roll[0] - -1.5 / 1e3": "a[-80]-roll[0]--1.5/1000",
		"action[-80]/-0.5":               "",
	} {
		if want == "" {
			want = text
		}
		s, err := lockstep.ParseSeen(text)
		if err != nil || s.String() != want {
			t.Errorf("%q is %v, %v, want %s", text, s, err, want)
		}
		if again, err := lockstep.ParseSeen(s.String()); err != nil || again != s {
			t.Errorf("%v reads back as %v, %v", s, again, err)
		}
	}
	for text, want := range map[string]string{
		"":                       "want such as",
		"target":                 "want such as",
		"speed[0]":               "want one of observation, action, lataccel, target, roll, v, a",
		"v[0]-speed[0]":          "want one of",
		"lataccel[0]":            "lataccel has -80 to -1",
		"action[-81]":            "action has -80 to -1",
		"target[50]":             "target has -80 to 49",
		"v[0]-observation[256]":  "observation has 0 to 255",
		"v[0]/0":                 "a divisor that is not 0",
		"v[0]--0":                "-0 is subtracted",
		"v[0]-1e999":             "not a number",
		"v[0]-1.2.3":             "not a number",
		"v[0]-v[1]-v[2]":         "want such as",
		"observation[-1]":        "observation has 0 to 255",
		"target[0]-lataccel[10]": "lataccel has -80 to -1",
	} {
		if s, err := lockstep.ParseSeen(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v, want %s", text, s, err, want)
		}
	}
	seeingNetworks(t)
}

// TestSeenNumbers: what is subtracted and what divides are finite, nothing is divided by 0, and
// no 0 that is subtracted has a sign, by which networks of one name would see other bits.
func TestSeenNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		shift, unit float64
		fits        bool
	}{
		{-2, -0.5, true}, {0, 0, false}, {nan, 1, false}, {0, nan, false}, {inf, 1, false},
		{-inf, 1, false}, {0, inf, false}, {0, -inf, false}, {math.MaxFloat64, 1, true},
		{math.Copysign(0, -1), 1, false},
	} {
		_, err := lockstep.NewSeeing(
			[]lockstep.Seen{{Of: lockstep.SourceRoll, Shift: c.shift, Unit: c.unit}},
			layers(0.1, 1, 2), 0.25)
		if (err == nil) != c.fits {
			t.Errorf("(roll[0] - %v) / %v: %v", c.shift, c.unit, err)
		}
	}
}

// TestSeenLimits: how much can be observed.
func TestSeenLimits(t *testing.T) {
	for n, want := range map[int]string{
		0: "0 numbers to observe, want 1 to 1024", 1: "", 1024: "",
		1025: "1025 numbers to observe, want 1 to 1024",
	} {
		sees := slices.Repeat([]lockstep.Seen{{Of: lockstep.SourceRoll, Unit: 1}}, n)
		if sees == nil {
			sees = []lockstep.Seen{}
		}
		_, err := lockstep.NewSeeing(sees, layers(0.1, n, 2), 0.25)
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d: %v, want %q", n, err, want)
		}
	}
}

// seeingNetworks: a network is made of what can be seen alone, has a name of its own for what it
// sees and computes, and is no company for one that sees other things.
func seeingNetworks(t *testing.T) {
	t.Helper()
	target := []lockstep.Seen{{Of: lockstep.SourceTarget, Unit: 1}}
	roll := []lockstep.Seen{{Of: lockstep.SourceRoll, Unit: 1}}
	for want, sees := range map[string][]lockstep.Seen{
		"0 numbers to observe":    {},
		"1025 numbers to observe": make([]lockstep.Seen, 1025),
		"no source 0":             {{Unit: 1}},
		"no source 9":             {{Of: 9, Unit: 1}},
		"no source -1":            {{Of: lockstep.SourceTarget, Less: -1, Unit: 1}},
		"not 0":                   {{Of: lockstep.SourceTarget}},
	} {
		_, err := lockstep.NewSeeing(sees, layers(0.1, 1, 2), 0.25)
		simtest.Refused(t, fmt.Sprint(sees), err, want)
	}
	most := slices.Repeat(target, lockstep.MaxWidth)
	if _, err := lockstep.NewSeeing(most, layers(0.001, len(most), 2), 0.25); err != nil {
		t.Errorf("as many as there may be: %v", err)
	}
	named := map[string]bool{}
	for _, tanh := range []bool{false, true} {
		for _, sees := range [][]lockstep.Seen{target, roll} {
			l := layers(0.1, 1, 3, 2)
			l[0].Tanh = tanh
			n, err := lockstep.NewSeeing(sees, l, 0.25)
			if err != nil || named[n.Name] {
				t.Errorf("%v, %v: another has its name", n, err)
			}
			named[n.Name] = true
		}
	}
	jobs := make([]lockstep.Job, 2)
	for i, sees := range [][]lockstep.Seen{target, roll} {
		n, err := lockstep.NewSeeing(sees, layers(0.1, 1, 2), 0.25)
		if err != nil {
			t.Fatal(err)
		}
		jobs[i].Policy = n
	}
	_, err := lockstep.NewExperience(jobs)
	simtest.Refused(t, "two that see other things", err,
		"does not observe what the first job's does")
}
