package engines

import (
	"errors"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/reference"
)

// config is of the project's own network.
func config(t *testing.T) Config {
	t.Helper()
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return Config{Model: model, Profile: reference.HostProfile()}
}

// TestIdentity: every engine that is here has its name, the profile that is asked for
// unless some of it is its own, and an identity that no other has.
func TestIdentity(t *testing.T) {
	c := config(t)
	c.Profile.CSV = lockstep.CSVExact
	names, identities := map[string]bool{}, map[string]string{}
	whole := simtest.Whole(t)
	for _, e := range All() {
		if names[e.Name] {
			t.Errorf("two engines are called %s", e.Name)
		}
		names[e.Name] = true
		if e.Compiled && !whole {
			continue // the compiler takes half a minute for its instructions
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			id := lockstep.Identity(s)
			if other := identities[id]; other != "" || !strings.Contains(id, ": ") {
				t.Errorf("%s proves to be %q, as %q does", e.Name, id, other)
			}
			identities[id] = e.Name
			if sum, err := fileio.SHA256(c.Model); err != nil || s.About().Model != sum {
				t.Errorf("%s has the network %q, want %q (%v)", e.Name, s.About().Model, sum, err)
			}
			t.Log(id)
		})
	}
	if Reference().Want != nil || Reference().ByLibrary || Reference().Slow {
		t.Error("the reference must run everywhere, in any profile")
	}
}

// TestOpen: what is opened under another's name, or with another profile, is refused,
// and one that wrongly calls itself absent fails.
func TestOpen(t *testing.T) {
	c := config(t)
	e := *Reference()
	e.Name = "warp"
	if _, err := e.Open(c); err == nil ||
		!strings.Contains(err.Error(), "what is opened as engine warp calls itself reference") {
		t.Errorf("%v", err)
	}
	e = *Reference()
	e.New = func(c Config) (lockstep.Implementation, error) {
		c.Profile.CSV = 1 - c.Profile.CSV
		return Reference().New(c)
	}
	if _, err := e.Open(c); err == nil || !strings.Contains(err.Error(), "has profile") {
		t.Errorf("%v", err)
	}
	none := errors.New("no warp")
	here := &want.Want{
		Name: "warp",
		What: "a warp core",
		Find: func() (string, error) { return "/dev/warp", nil },
	}
	absent := &want.Want{
		Name: "warp",
		What: "a warp core",
		Find: func() (string, error) { return "", none },
	}
	e.Missing = func() error { return none }
	var lack *want.Error
	if e.Want = here; e.Absent() == nil || errors.As(e.Absent(), &lack) {
		t.Errorf("absent, though it is here: %v", e.Absent())
	}
	if e.Want = absent; !errors.As(e.Absent(), &lack) {
		t.Errorf("absent: %v", e.Absent())
	}
	if _, err := e.Open(c); err != none {
		t.Errorf("%v", err)
	}
}

// TestByName: names in their order, each once.
func TestByName(t *testing.T) {
	if list, err := ByName("gpu", "reference"); err != nil || len(list) != 2 ||
		list[0].Name != "gpu" ||
		list[1] != Reference() {
		t.Errorf("%v, %v", list, err)
	}
	for names, want := range map[string]string{
		"warp":    `engine "warp" is not known, want one of reference, `,
		"gpu gpu": "engine gpu is named twice",
	} {
		if _, err := ByName(strings.Fields(names)...); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", names, err)
		}
	}
	for _, e := range Tried() {
		if e.Slow {
			t.Errorf("%s is tried where nobody asks for it", e.Name)
		}
	}
	for file, want := range map[string]string{
		"reference/gpt.go":       "reference",
		"gpu/kernels/rollout.cu": "emulated gpu",
		"parity/judge.go":        "",
		"gpu":                    "",
	} {
		if got := strings.Join(Of(file), " "); got != want {
			t.Errorf("%s is of %q, want %q", file, got, want)
		}
	}
}
