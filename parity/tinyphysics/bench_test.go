package tinyphysics

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"lockstep"
	"lockstep/batched"
	"lockstep/batched/onnxruntime"
	"lockstep/internal/assets/assetstest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
	"lockstep/reference"
)

// BenchmarkTrace measures, in one run of an engine on one core, what part of its time is
// spent in recording a trace: hashing all stages and writing the records.
func BenchmarkTrace(b *testing.B) {
	model := assetstest.Model(b)
	for _, c := range []struct {
		name string
		open func() (lockstep.Simulator, error)
		hash schema.Hash
		full schema.StageSet
	}{
		{"batched/xxh3", nil, schema.XXH3, 0},
		{"batched/xxh64", nil, schema.XXH64, 0},
		{"batched/sha256", nil, schema.SHA256, 0},
		{"batched/full", nil, schema.XXH3, everything},
		{"onnxruntime/xxh3", func() (lockstep.Simulator, error) {
			return onnxruntime.New(onnxruntime.Config{ModelPath: model, Workers: 1})
		}, schema.XXH3, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			if c.open == nil {
				c.open = func() (lockstep.Simulator, error) {
					return batched.New(batched.Config{ModelPath: model, Workers: 1})
				}
			}
			sim, err := c.open()
			if err != nil {
				b.Skip(err)
			}
			var inside atomic.Int64
			for b.Loop() {
				w, err := trace.NewWriter(
					io.Discard, trace.Header{Digest: c.hash, Schema: view.Schema}, c.full,
				)
				if err != nil {
					b.Fatal(err)
				}
				var jobs []lockstep.Job
				var writers []*trace.RolloutWriter
				for _, name := range assetstest.RouteNames {
					job := lockstep.Job{
						Route:  assetstest.Route(b, name, sim.Profile()),
						Policy: lockstep.DefaultPID(),
					}
					o := w.Begin(Of(job))
					step := view.NewStep()
					job.Observe = func(s *lockstep.Step) {
						start := time.Now()
						Expose(s, step)
						o.Observe(step)
						inside.Add(int64(time.Since(start)))
					}
					jobs, writers = append(jobs, job), append(writers, o)
				}
				for i, r := range sim.Simulate(
					b.Context(), jobs, lockstep.Options{Shortcuts: lockstep.AllSteps},
				) {
					writers[i].End(Outcome(r.Costs), r.Err)
				}
				if err := w.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(100*float64(inside.Load())/float64(b.Elapsed()), "%tracing")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkLocate flips one bit in a late step of the last of 500 rollouts of the onnxruntime
// engine, and measures what Compare takes from the end of the rollouts to the report
// with the bit in it. The recorded side is the engine's own trace, so that no time goes
// into another engine.
func BenchmarkLocate(b *testing.B) {
	sim, err := onnxruntime.New(
		onnxruntime.Config{ModelPath: assetstest.Model(b), Profile: reference.HostProfile()},
	)
	if err != nil {
		b.Skip(err)
	}
	defer sim.Close()
	var jobs []lockstep.Job
	for i := range 500 {
		name := assetstest.RouteNames[i%len(assetstest.RouteNames)]
		jobs = append(
			jobs,
			lockstep.Job{
				Route:  assetstest.Route(b, name, sim.Profile()),
				Policy: lockstep.PID{P: 0.2, I: 0.1, D: -0.0001 * float64(i)},
			},
		)
	}
	path := b.TempDir() + "/a.trace"
	if err := recordTo(b.Context(), sim, jobs, lockstep.CostOnly, trace.Header{}, 0,
		path); err != nil {
		b.Fatal(err)
	}
	file, err := trace.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	run := file.Rollouts[len(file.Rollouts)-1]
	changed := run.Digests.At(run.Digests.Len() - 7)
	changed.Bits[logits] ^= 1
	for b.Loop() {
		report, err := Compare(
			b.Context(), parity.Traced(file), Live(sim), jobs, lockstep.CostOnly,
			parity.CompareOptions{},
		)
		if err != nil {
			b.Fatal(err)
		}
		if d := report.First; d == nil || d.Stage != Logits || d.Step != changed.Index {
			b.Fatalf("%v", report.Err())
		}
		b.ReportMetric(report.Seconds, "s/all")
		b.ReportMetric(report.After, "s/after")
	}
	b.ReportMetric(0, "ns/op")
}
