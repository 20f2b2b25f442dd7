package figures

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"lockstep"
)

// engine is one that has been in its network for a while, or does not say.
type engine struct{ network func() time.Duration }

func (e engine) About() lockstep.About { return lockstep.About{NetworkTime: e.network} }

// TestFigures: each time and each number is said by its own name, to people and to programs.
func TestFigures(t *testing.T) {
	c := &Meter{
		setUp: 1500 * time.Millisecond, load: 250 * time.Millisecond, rolling: 4 * time.Second,
		routes: 3, rollouts: 12, steps: 2000,
	}
	f := c.Of(engine{func() time.Duration { return 7 * time.Second }})
	f.OnDevice("its counts", 9*time.Second)
	const object = `{"set_up_seconds":1.5,"load_seconds":0.25,"routes":3,"rollout_seconds":4,` +
		`"rollouts":12,"steps":2000,"us_per_step":2000,"network_seconds":7,` +
		`"device":"its counts","device_idle_seconds":9}`
	if text, err := json.Marshal(f); err != nil || string(text) != object {
		t.Errorf("%s, %v, want %s", text, err, object)
	}
	const line = "set-up 1.5000 s; 3 routes loaded in 0.2500 s; 12 rollouts of 2000 steps in " +
		"4.0000 s, 2000 µs a step"
	for network, want := range map[*engine]string{
		{}: line + "\n",
		{func() time.Duration { return 7 * time.Second }}: line + "; 7.0000 s in the network, " +
			"by all threads together\n",
	} {
		var text strings.Builder
		f := c.Of(network)
		if err := f.WriteText(&text); err != nil || text.String() != want {
			t.Errorf("%q, %v, want %q", text.String(), err, want)
		}
	}
	if f := new(Meter).Of(engine{}); f.Step != 0 || f.Network != nil {
		t.Errorf("of no step: %+v", f)
	}
}
