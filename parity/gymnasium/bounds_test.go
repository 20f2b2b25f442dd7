package gymnasium_test

import (
	"fmt"
	"slices"
	"testing"

	"lockstep/classic"
)

// TestBounds: a reset draws each number of a state between the bounds of that number, and of no
// other, and an episode of one step ends with it.
func TestBounds(t *testing.T) {
	for _, name := range []string{"reference", "batched"} {
		maker := open(t, name)
		for _, e := range classic.Environments() {
			if e.Shared {
				continue // its bounds are its own
			}
			t.Run(fmt.Sprintf("%s/%s", name, e.Name), func(t *testing.T) {
				task, err := classic.Make(e.Name, 7, map[string]string{"max_episode_steps": "1"})
				must(t, err)
				v, err := maker.Make(task)
				must(t, err)
				defer v.Close()
				bounds := len(task.Low)
				for k := range bounds {
					low, high := make([]float64, bounds), make([]float64, bounds)
					low[k], high[k] = -0.0625, -0.03125
					must(t, v.Reset(classic.Reset{Seed: 4, Low: low, High: high}))
					states := make([]float64, len(task.State)*task.Num)
					v.Observe(nil, states)
					row := states[k*task.Num:][:task.Num]
					least, most := slices.Min(row), slices.Max(row)
					if least < low[k] || most > high[k] || least == most {
						t.Errorf("value %d is drawn from %v to %v, want %v to %v", k, least, most,
							low[k], high[k])
					}
					for d := range bounds {
						if x := states[d*task.Num]; d != k && x != 0 {
							t.Errorf("value %d is %v, with bounds of 0", d, x)
						}
					}
				}
				key, record := uint64(3), []classic.Transition{classic.NewTransition(task)}
				must(t, v.Run(t.Context(), classic.Policy{Uniform: &key}, 1, record))
				if slices.Contains(record[0].Truncated, false) {
					t.Errorf("an episode of one step goes on: %v", record[0].Truncated)
				}
			})
		}
	}
}
