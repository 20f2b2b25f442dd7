// Package upstream runs the unmodified Python program for benchmarks and
// comparisons, as a process that answers one request at a time.
package upstream

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"lockstep"
)

//go:embed upstream.py
var script string

// Program is a running Python process.
type Program struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	stderr  strings.Builder
	folder  string // holds data, a link to the folder of the routes
}

// Start starts the program of a checkout of commaai/controls_challenge with a
// Python that has the packages of golden/requirements.txt. The process ends
// with ctx or by Close.
func Start(ctx context.Context, python, checkout, model string) (*Program, error) {
	if _, err := os.Stat(filepath.Join(checkout, "tinyphysics.py")); err != nil {
		return nil, fmt.Errorf("%s is no checkout of commaai/controls_challenge: %w", checkout, err)
	}
	folder, err := os.MkdirTemp("", "lockstep-upstream-*")
	if err != nil {
		return nil, err
	}
	p := &Program{folder: folder}
	p.command = exec.CommandContext(
		ctx, python, "-c", script, "--upstream", checkout, "--model", model)
	p.command.WaitDelay = time.Second // for what it has left behind with its pipes
	p.command.Stderr = &p.stderr
	p.in, err = p.command.StdinPipe()
	if err == nil {
		var out io.Reader
		if out, err = p.command.StdoutPipe(); err == nil {
			p.out = bufio.NewReader(out)
			err = p.command.Start()
		}
	}
	if err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	return p, nil
}

// Close ends the process.
func (p *Program) Close() error {
	p.in.Close()
	err := p.command.Wait()
	return errors.Join(err, os.RemoveAll(p.folder))
}

// Rollout runs one route file with the PID controller or with zero, loading included,
// under the path data/<file name>, and returns its time and costs.
func (p *Program) Rollout(file string,
	policy lockstep.Policy) (time.Duration, lockstep.Costs, error) {
	dir, name := filepath.Split(file)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return 0, lockstep.Costs{}, err
	}
	link := filepath.Join(p.folder, "data")
	os.Remove(link) // of the rollout before
	if err := os.Symlink(dir, link); err != nil {
		return 0, lockstep.Costs{}, err
	}
	var answer struct {
		Seconds float64
		Costs   [3]string
	}
	request := map[string]any{"rollout": filepath.Join(link, name)}
	switch policy := policy.(type) {
	case lockstep.PID:
		request["gains"] = []float64{policy.P, policy.I, policy.D}
	case lockstep.Zero:
	default:
		return 0, lockstep.Costs{}, fmt.Errorf(
			"the Python program is asked for pid and zero alone, not %v", policy)
	}
	if err := p.ask(request, &answer); err != nil {
		return 0, lockstep.Costs{}, err
	}
	var costs [3]float64
	for i, text := range answer.Costs {
		if costs[i], err = strconv.ParseFloat(text, 64); err != nil {
			return 0, lockstep.Costs{}, err
		}
	}
	return duration(answer.Seconds), lockstep.Costs{
		Lataccel: costs[0], Jerk: costs[1], Total: costs[2],
	}, nil
}

// Network returns the fastest of n calls of the program's ONNX Runtime session
// on one sequence.
func (p *Program) Network(n int) (time.Duration, error) {
	var answer struct{ Seconds float64 }
	err := p.ask(map[string]any{"network": n}, &answer)
	return duration(answer.Seconds), err
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}

func (p *Program) ask(request, answer any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return p.died(err)
	}
	if line, err = p.out.ReadBytes('\n'); err != nil {
		return p.died(err)
	}
	return json.Unmarshal(line, answer)
}

// died describes the end of the process by the last line it wrote.
func (p *Program) died(err error) error {
	p.in.Close()
	p.command.Wait() // so that its last words are all here
	lines := strings.Split(strings.TrimSpace(p.stderr.String()), "\n")
	return fmt.Errorf("the Python program ended (%w): %s", err, lines[len(lines)-1])
}
