package lockstep_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lockstep"
)

// TestProfileText: each form goes with each of the others, once, and profiles read back.
func TestProfileText(t *testing.T) {
	seen, words := map[string]bool{}, [5]map[string]bool{}
	for _, p := range lockstep.Profiles() {
		name := p.String()
		if seen[name] {
			t.Errorf("two profiles are named %s", name)
		}
		seen[name] = true
		for k, word := range strings.Split(name, "-") {
			if words[k] == nil {
				words[k] = map[string]bool{}
			}
			words[k][word] = true
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		var q lockstep.Profile
		if err := json.Unmarshal(text, &q); err != nil || q != p {
			t.Errorf("%s reads back as %v, %v", text, q, err)
		}
	}
	product := 1
	for _, of := range words {
		product *= len(of)
	}
	if len(seen) != product || product < 72 {
		t.Errorf("%d profiles, of forms %v", len(seen), words)
	}
	for k, of := range words {
		for _, form := range lockstep.Forms(k) {
			delete(of, form.Word)
		}
		if lockstep.Forms(k)[0].Word = "mine"; len(of) > 0 {
			t.Errorf("word %d of a profile can also be %v", k, of)
		}
	}
	if want := "ort1.30-avx512-expU-sinfma-csv2"; (lockstep.Profile{}).String() != want ||
		!seen[want] {
		t.Errorf("the zero profile is %s, want %s", lockstep.Profile{}, want)
	}
}

func TestParseProfileErrors(t *testing.T) {
	for name, want := range map[string]string{
		"":             "want five words",
		"ort1.30-avx2": "want five words",
		"ort9-avx2-expU-sinfma-csv2": `"ort9" is not known, want one of ort1.30, ort1.27, ` +
			"ort1.23, ort1.30arm",
		"ort1.30-avx2-expU-sinfma-csv9":   `"csv9" is not known, want one of csv2, csvexact`,
		"ort1.30-avx2-expU-sinfma-csv2-x": "want five words",
	} {
		if _, err := lockstep.ParseProfile(name); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("ParseProfile(%q): %v, want …%s…", name, err, want)
		}
	}
}

func TestPolicyNames(t *testing.T) {
	for want, p := range map[string]lockstep.Policy{
		"zero":               lockstep.Zero{},
		"pid":                lockstep.DefaultPID(),
		"pid_0.3_0.05_-0.1":  lockstep.PID{P: 0.3, I: 0.05, D: -0.1},
		"mine":               lockstep.Custom{Name: "mine"},
		"pid_1e-07_-0_1e+20": lockstep.PID{P: 1e-7, I: minusZero(), D: 1e20},
	} {
		if p.String() != want {
			t.Errorf("%#v is named %s, want %s", p, p, want)
		}
	}
}

func minusZero() float64 { zero := 0.0; return -zero }
