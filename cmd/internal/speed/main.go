//go:build unix

// Command speed prints how many times faster than Gymnasium one core computes
// classic control, in CPU time of one run: uniform actions, all answers written.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"lockstep/classic"
	"lockstep/engines"
)

func main() {
	python := flag.String("python", "python3", "Python with Gymnasium")
	script := flag.String("script", "cmd/internal/speed/speed.py", "what measures Gymnasium")
	num := flag.Int("num-envs", 256, "environments")
	flag.Parse()
	if err := run(*python, *script, *num); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(python, script string, num int) error {
	c := exec.Command(python, script)
	c.Stderr = os.Stderr
	out, err := c.Output()
	if err != nil {
		return err
	}
	var theirs map[string]float64
	if err := json.Unmarshal(out, &theirs); err != nil {
		return err
	}
	for _, e := range classic.Environments() {
		own, err := measure(e.Name, num)
		if err != nil {
			return err
		}
		fmt.Printf(
			"%-26s %12.4g steps/s, Gymnasium %10.4g: %6.0f times", e.Name, own, theirs[e.Name],
			own/theirs[e.Name],
		)
		if e.Name == "CartPole-v1" {
			fmt.Printf(", and %.1f times the vector class", own/theirs["CartPoleVectorEnv"])
		}
		fmt.Println()
	}
	return nil
}

// measure is steps per second of CPU time.
func measure(name string, num int) (float64, error) {
	engine, err := engines.Classic().Open("batched", 1)
	if err != nil {
		return 0, err
	}
	task, err := classic.Make(name, num, nil)
	if err != nil {
		return 0, err
	}
	v, err := engine.Make(task)
	if err != nil {
		return 0, err
	}
	defer v.Close()
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		return 0, err
	}
	key := uint64(1)
	start, steps := cpu(), 0
	for cpu()-start < time.Second {
		if err := v.Run(context.Background(), classic.Policy{Uniform: &key}, 1000,
			nil); err != nil {
			return 0, err
		}
		steps += 1000 * num
	}
	return float64(steps) / (cpu() - start).Seconds(), nil
}

// cpu is the time that this process has computed.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
