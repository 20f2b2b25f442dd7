package reference

import (
	"math"

	"lockstep"
)

// MeanCosts is the average over routes that the Python program prints: pandas'
// mean of each column, which leaves NaN out.
func MeanCosts(costs []lockstep.Costs) lockstep.Costs {
	column := func(value func(lockstep.Costs) float64) float64 {
		values := make([]float64, len(costs))
		n := 0
		for i, c := range costs {
			if v := value(c); !math.IsNaN(v) {
				values[i] = v
				n++
			}
		}
		return sum(values) / float64(n)
	}
	return lockstep.Costs{
		Lataccel: column(func(c lockstep.Costs) float64 { return c.Lataccel }),
		Jerk:     column(func(c lockstep.Costs) float64 { return c.Jerk }),
		Total:    column(func(c lockstep.Costs) float64 { return c.Total }),
	}
}
