package assetstest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/assets"
)

// fake is a test that notes how it ended.
type fake struct {
	testing.TB
	outcome string
}

func (f *fake) Helper() {}
func (f *fake) Fatal(args ...any) {
	f.outcome = "failed: " + fmt.Sprint(args...)
	runtime.Goexit()
}
func (f *fake) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
func (f *fake) Skip(args ...any) {
	f.outcome = "skipped: " + fmt.Sprint(args...)
	runtime.Goexit()
}

// outcome runs a test and says how it ended.
func outcome(test func(testing.TB)) string {
	f := &fake{outcome: "crashed"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
		f.outcome = "passed"
	}()
	<-done
	return f.outcome
}

func TestAbsent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LOCKSTEP_ASSETS", dir)
	for _, c := range []struct {
		name string
		test func(testing.TB)
		lack string
	}{
		{"model", func(t testing.TB) { Model(t) }, assets.Model},
		{
			"route", func(t testing.TB) { Route(t, "00000", lockstep.Profile{}) },
			filepath.Join("routes", "00000.csv"),
		},
		{"other", func(t testing.TB) { Find(t, assets.PublishedCosts) }, assets.PublishedCosts},
	} {
		why := "no " + c.lack + " in " + dir + ": set LOCKSTEP_ASSETS to a folder that holds " +
			"it, or to none"
		for required, want := range map[string]string{
			"1": "failed: LOCKSTEP_REQUIRE_ASSETS=1, but " + why,
			"0": "skipped: not run for want of assets: " + why,
			"":  "skipped: not run for want of assets: " + why,
		} {
			t.Setenv("LOCKSTEP_REQUIRE_ASSETS", required)
			if got := outcome(c.test); got != want {
				t.Errorf(
					"%s, LOCKSTEP_REQUIRE_ASSETS=%s:\n got %s\nwant %s", c.name, required, got,
					want)
			}
			if strings.Contains(want, "\n") {
				t.Errorf("%q is more than one line", want)
			}
		}
	}
}

func TestPresent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("LOCKSTEP_ASSETS", dir)
	t.Setenv("LOCKSTEP_REQUIRE_ASSETS", "1")
	if err := os.Mkdir(filepath.Join(dir, assets.Routes), 0o777); err != nil {
		t.Fatal(err)
	}
	text := "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n" + strings.Repeat(
		"0,30,0,0,0,0\n", lockstep.MinRows)
	for name, text := range map[string]string{
		assets.Model:                          "model",
		filepath.Join(assets.Routes, "1.csv"): text,
		filepath.Join(assets.Routes, "2.csv"): "t\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if got := outcome(func(t testing.TB) {
		if got, want := Model(t), filepath.Join(dir, assets.Model); got != want {
			t.Fatalf("model %s, want %s", got, want)
		}
		if r := Route(t, "1", lockstep.Profile{}); r.Name != "1" || r.Len() != lockstep.MinRows {
			t.Fatalf("route %s of %d rows, want 1 of %d", r.Name, r.Len(), lockstep.MinRows)
		}
	}); got != "passed" {
		t.Error(got)
	}
	if got := outcome(func(t testing.TB) { Route(t, "2", lockstep.Profile{}) }); !strings.HasPrefix(
		got, "failed: "+filepath.Join(dir, assets.Routes, "2.csv")+":1:1: ",
	) {
		t.Errorf("a damaged route: %s, want it to fail with its place", got)
	}
}
