package classic_test

import (
	"math"
	"strings"
	"testing"

	"lockstep/classic"
)

// TestGravity: a pendulum is pulled by a finite number whatever its angle is: with an infinite
// one Gymnasium's speed, and what a network observes, is NaN.
func TestGravity(t *testing.T) {
	for g, fits := range map[string]bool{
		"-1e300": true, "1e300": true, "1.7e308": false, "-1.1e300": false, "inf": false,
		"nan": false,
	} {
		_, err := classic.Make("Pendulum-v1", 1, map[string]string{"g": g})
		if (err == nil) != fits {
			t.Errorf("g=%s: %v", g, err)
		}
	}
	task, err := classic.Make("Pendulum-v1", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []float64{1e300, -1e300, 0} {
		if task.Gravity = g; task.Check() != nil {
			t.Errorf("a task has no g %v: %v", g, task.Check())
		}
	}
	for _, g := range []float64{
		math.Nextafter(1e300, 2e300), 1.7e308, 1.1e300, -1.1e300, math.Inf(-1), math.NaN(),
	} {
		task.Gravity = g
		if err := task.Check(); err == nil || !strings.HasSuffix(err.Error(), "within ±1e+300") {
			t.Errorf("a task has g %v: %v", g, err)
		}
	}
}
