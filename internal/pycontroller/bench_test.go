package pycontroller

import (
	"fmt"
	"testing"

	"lockstep"
)

// BenchmarkUpdate measures a PID controller in Python, all that it costs an
// engine included but the start of the routes.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			c := open(b, Options{File: "testdata/controllers/gains.py", Workers: 1})
			routes := testRoutes(n, 600)
			controller, err := c.Policy().New(routes)
			if err != nil {
				b.Fatal(err)
			}
			defer controller.Close()
			s := lockstep.NewBatchStep(n)
			for i := range routes {
				s.Running[i] = true
			}
			steps := 0
			for b.Loop() {
				s.Step = 100 + steps%200
				steps++
				if err := controller.Update(s); err != nil || s.Err[0] != nil {
					b.Fatal(err, s.Err[0])
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(steps*n), "us/route-step")
		})
	}
}

// BenchmarkStart measures the start of a chunk of 64 routes, which comes once in
// 580 steps.
func BenchmarkStart(b *testing.B) {
	c := open(b, Options{File: "testdata/controllers/gains.py", Workers: 1})
	routes := testRoutes(64, 600)
	for b.Loop() {
		controller, err := c.Policy().New(routes)
		if err != nil {
			b.Fatal(err)
		}
		controller.Close()
	}
}
