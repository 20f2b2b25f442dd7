package gpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
)

// benchRoutes are how many routes are timed: what the challenge has, and a round of the largest
// blocks on 132 multiprocessors. LOCKSTEP_BENCH_ROUTES gives another number, for machines that
// are slow.
func benchRoutes(b *testing.B) []int {
	if text := os.Getenv("LOCKSTEP_BENCH_ROUTES"); text != "" {
		n := 0
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			b.Fatalf("LOCKSTEP_BENCH_ROUTES=%s: want a number of routes", text)
		}
		return []int{n}
	}
	return []int{5000, 6 * 132}
}

// benchJobs are rollouts of n routes of their own memory and draws.
func benchJobs(n int, policy lockstep.Policy) []lockstep.Job {
	jobs := make([]lockstep.Job, n)
	for i := range jobs {
		r := *routes()[i%len(routes())]
		r.Seed, r.Draws = uint32(i), nil
		jobs[i] = lockstep.Job{Route: &r, Policy: policy}
	}
	return jobs
}

// BenchmarkRollouts times cost-only rollouts, first as they are run where nobody chooses, then
// for sizes of block and threads. All of the same jobs must have the same costs.
func BenchmarkRollouts(b *testing.B) {
	policies := map[string]lockstep.Policy{
		"pid": lockstep.DefaultPID(), "network": network(256, 256, 256, 256),
	}
	first := map[string][]float64{} // total costs
	for _, c := range []struct {
		policy          string
		routes, threads int
	}{
		{"pid", 0, 0}, {"pid", 6, 256}, {"pid", 5, 256}, {"pid", 4, 256}, {"pid", 2, 256},
		{"pid", 1, 256}, {"pid", 6, 128}, {"pid", 4, 128}, {"network", 0, 0}, {"network", 6, 256},
	} {
		way := "chosen"
		if c.routes > 0 {
			way = fmt.Sprintf("%d_by_%d", c.routes, c.threads)
		}
		for _, n := range benchRoutes(b) {
			b.Run(fmt.Sprintf("%s/%s/%d", c.policy, way, n), func(b *testing.B) {
				config := Config{RoutesPerBlock: c.routes, Threads: c.threads, Timed: true}
				costs := timeRollouts(b, config, benchJobs(n, policies[c.policy]))
				same := fmt.Sprint(c.policy, n)
				if first[same] == nil {
					first[same] = costs
				}
				if err := simtest.Same("costs", costs, first[same]); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// timeRollouts times b.N rounds of jobs, and reports a round. It returns their total costs.
func timeRollouts(b *testing.B, config Config, jobs []lockstep.Job) []float64 {
	s, costs, total := newSimulator(b, config), make([]float64, len(jobs)), 0.0
	before := s.Stats()
	for b.Loop() {
		opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
		for i, r := range results(b, s, context.Background(), jobs, opts) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
			costs[i], total = r.Costs.Total, total+r.Costs.Total
		}
	}
	took, n := s.Stats().Sub(before), float64(b.N)
	for unit, x := range map[string]float64{
		"kernel-s": took.Kernel.Seconds(), "upload-s": took.Upload.Seconds(),
		"download-s": took.Download.Seconds(), "upload-B": float64(took.UploadBytes),
		"download-B": float64(took.DownloadBytes), "launches": float64(took.Launches),
		"sampled": float64(took.Sampled), // steps whose token was drawn
		"serial":  float64(took.Serial),  // of those, the ones that wanted the running sum
		"cost":    total / float64(len(jobs)),
	} {
		b.ReportMetric(x/n, unit)
	}
	return costs
}

// BenchmarkPeer has PyTorch do the same work, where there is PyTorch, and shows what it says:
// how long it took, and how far it is from the exact rollouts.
func BenchmarkPeer(b *testing.B) {
	for _, n := range benchRoutes(b) {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			python := os.Getenv("LOCKSTEP_PYTHON")
			if python == "" {
				python = "python3"
			}
			if err := exec.Command(python, "-c", "import torch").Run(); err != nil {
				b.Skipf("%s has no PyTorch: %v", python, err)
			}
			program := "peer.py" // in the bundle
			if _, err := os.Stat(program); err != nil {
				program = filepath.Join("hardware", program)
			}
			data := b.TempDir()
			s, jobs := newSimulator(b, Config{}), benchJobs(n, lockstep.DefaultPID())
			writePeer(b, data, jobs, results(b, s, context.Background(), jobs, lockstep.Options{
				Shortcuts: lockstep.CostOnly, Trajectory: true,
			}))
			args := []string{program, "--data", data}
			if info, err := s.Info(); err != nil || info.Name == "stand-in" || info.Emulated {
				args = append(args, "--device", "cpu", "--runs", "1")
			}
			command := exec.Command(python, args...)
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			if err := command.Run(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// writePeer writes what peer.py reads: the packed weights, the routes' columns (roll
// lataccel, v ego, a ego, target), recorded commands, draws, that of step s at s, and of
// the exact rollouts the lataccels and the total costs.
func writePeer(b *testing.B, folder string, jobs []lockstep.Job, exact []lockstep.Result) {
	path, err := modelPath()
	if err != nil {
		b.Fatal(err)
	}
	weights, err := model.Load(path)
	if err != nil {
		b.Fatal(err)
	}
	const rows = lockstep.CostEndIdx
	var columns, steer, draws, totals, lataccels []float64
	for i, j := range jobs {
		r := j.Route
		if exact[i].Err != nil {
			b.Fatal(exact[i].Err)
		}
		for _, c := range [][]float64{r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel} {
			columns = append(columns, c[:rows]...)
		}
		steer = append(steer, r.SteerCommand[:lockstep.ControlStartIdx]...)
		totals = append(totals, exact[i].Costs.Total)
		lataccels = append(lataccels, exact[i].Trajectory.Lataccel[:rows]...)
		draws = append(draws, make([]float64, lockstep.ContextLength)...)
		draws = append(draws, lockstep.Draws(r.Seed, rows-lockstep.ContextLength)...)
	}
	shape, err := json.Marshal(map[string]int{"routes": len(jobs), "rows": rows})
	if err != nil {
		b.Fatal(err)
	}
	for name, data := range map[string]any{
		"weights.f32": kernels.Pack(weights), "columns.f64": columns, "steer.f64": steer,
		"draws.f64": draws, "costs.f64": totals, "lataccel.f64": lataccels, "shape.json": shape,
	} {
		var out bytes.Buffer
		if err := binary.Write(&out, binary.LittleEndian, data); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), out.Bytes(), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}
