//go:build unix

package pycontroller

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/simtest"
)

// helperFile in the environment makes the test program steer with that file, as a
// parent process that tests may end.
const helperFile = "PYCONTROLLER_TEST_FILE"

func TestMain(m *testing.M) {
	if file := os.Getenv(helperFile); file != "" {
		c, err := New(context.Background(), Options{File: file})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, os.Interrupt)
		go drive(c, testRoutes(2, 150))
		<-interrupted
		time.Sleep(200 * time.Millisecond) // a worker's last words would come now
		c.Close()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestEndOfParent holds workers to end, and without a word, when their parent is
// killed or interrupted from the keyboard, also while a controller hangs.
func TestEndOfParent(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
		for name, hang := range map[string]string{
			"sleeps":  "time.sleep(1000)",
			"loops":   "while True: pass",
			"answers": "time.sleep(0.05)",
		} {
			t.Run(fmt.Sprint(name, " ", sig), func(t *testing.T) {
				t.Parallel()
				python := python(t)
				dir := write(
					t,
					map[string]string{
						"c.py": source("print('pid', os.getpid())\n" + hang + "\nreturn 1"),
					},
				)
				parent := exec.Command(os.Args[0])
				parent.Env = append(
					os.Environ(), helperFile+"="+filepath.Join(dir, "c.py"),
					"LOCKSTEP_PYTHON="+python,
				)
				parent.SysProcAttr = &syscall.SysProcAttr{
					Setpgid: true,
				} // as a terminal's foreground group
				pipe, err := parent.StderrPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := parent.Start(); err != nil {
					t.Fatal(err)
				}
				stderr := bufio.NewScanner(pipe)
				pid := 0
				for pid == 0 && stderr.Scan() {
					if text, ok := strings.CutPrefix(stderr.Text(), "pid "); ok {
						pid, _ = strconv.Atoi(text)
					}
				}
				if pid == 0 {
					t.Fatal("no worker")
				}
				defer syscall.Kill(-pid, syscall.SIGKILL)
				if err := syscall.Kill(-parent.Process.Pid, sig); err != nil {
					t.Fatal(err)
				}
				for stderr.Scan() {
					if !strings.HasPrefix(stderr.Text(), "pid ") {
						t.Errorf("printed: %s", stderr.Text())
					}
				}
				parent.Wait()
				for begin := time.Now(); alive(pid); time.Sleep(50 * time.Millisecond) {
					if time.Since(begin) > time.Minute {
						t.Fatal("the worker lives on")
					}
				}
			})
		}
	}
}

// alive reports whether a process exists that is not just waiting to be reaped.
func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return !strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

// TestNoLeaks holds goroutines, open files and processes to be as many after
// Close as before New, whatever happened.
func TestNoLeaks(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("no /proc/self/fd here")
	}
	python(t)
	count := func() [3]int {
		files, _ := filepath.Glob("/proc/self/fd/*")
		return [3]int{runtime.NumGoroutine(), len(files), children(t)}
	}
	routes := 66 // two processes have some
	if simtest.Whole(t) {
		routes = 130
	}
	work := func(bodies ...string) {
		for _, body := range bodies {
			c := start(
				t, source("if self.n == 5:\n    "+body+"\nreturn 1"),
				func(o *Options) { o.Workers = 3 },
			)
			if strings.Contains(body, "sleep(1000)") {
				c.options.Timeout = time.Second
			}
			drive(c, testRoutes(2, 110))
			drive(c, testRoutes(routes, 101))
			c.options.Timeout = DefaultTimeout // to start is no matter of this test
			unfinished, err := c.Policy().New(testRoutes(2, 110))
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			unfinished.Close()
			for line := range strings.Lines(c.options.Stderr.(*buffer).String()) {
				if text, ok := strings.CutPrefix(line, "child "); ok {
					if pid, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || alive(pid) {
						t.Errorf("a controller's child lives on: %s", line)
						syscall.Kill(pid, syscall.SIGKILL)
					}
				}
			}
		}
		New(
			context.Background(),
			Options{File: filepath.Join(write(t, map[string]string{"c.py": "1 / 0"}), "c.py")},
		)
		New(
			context.Background(),
			Options{
				File:   filepath.Join(write(t, map[string]string{"c.py": ""}), "c.py"),
				Python: "/dev/null",
			},
		)
	}
	work("return 1") // what is made once and stays
	before := count()
	work(
		"return 1", "os._exit(3)", "time.sleep(1000)",
		"import subprocess; print('child', subprocess.Popen(['sleep', '1000']).pid); os._exit(3)",
	)
	after := count()
	more := func() bool {
		return after[0] > before[0] || after[1] > before[1] || after[2] > before[2]
	}
	for begin := time.Now(); more() &&
		time.Since(begin) < time.Minute; time.Sleep(50 * time.Millisecond) {
		after = count()
	}
	if more() {
		t.Errorf("%v goroutines, files and processes, before %v", after, before)
	}
}

// children counts this process's child processes.
func children(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// TestProtocol: what a process answers is believed only whole: numbers and errors of the routes
// that it was asked for, and nothing behind them. What stands for Python has all answers ready: to
// its source, to each route, and the case's to the first step.
func TestProtocol(t *testing.T) {
	routes := testRoutes(2, 150)
	steers := string(appendFloats(nil, []float64{0.25, -0.5}))
	nothing := little(0, 0) // no error, and no input that came with it
	failed := func(route, memory int, where string) string {
		return little(1, route, memory) + said("too far") + said(where) + little(0)
	}
	const nonsense, far = "c.py: the answer makes no sense", "c.py: too far\nline 3"
	both := [2]string{nonsense, nonsense}
	for name, c := range map[string]struct {
		answer string
		length int // that is said, if it is not the answer's
		fails  [2]string
		passes bool // as another process may do better
	}{
		"whole":    {answer: steers + nothing},
		"an error": {answer: steers + failed(1, 0, "line 3"), fails: [2]string{"", far}},
		"nowhere":  {answer: steers + failed(0, 0, ""), fails: [2]string{"c.py: too far"}},
		"out of memory": {
			answer: steers + failed(0, 1, "line 3"), fails: [2]string{far}, passes: true,
		},
		"half a number":   {answer: steers[:15], fails: both},
		"numbers alone":   {answer: steers, fails: both},
		"another's error": {answer: steers + failed(2, 0, ""), fails: both},
		"more":            {answer: steers + nothing + "!", fails: both},
		"half an error": {
			answer: steers + failed(0, 0, "")[:20], fails: both,
		},
		"too much": {
			answer: steers + nothing, length: maxAnswer + 1, fails: both,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.length == 0 {
				c.length = len(c.answer)
			}
			dir := write(t, map[string]string{
				"c.py": "", "ready": strings.Repeat(said(nothing), 3) + little(c.length) + c.answer,
				"python": "#!/bin/sh\ncat \"${0%/*}/ready\"\nexec cat >/dev/null\n",
			})
			python := filepath.Join(dir, "python")
			if err := os.Chmod(python, 0o700); err != nil {
				t.Fatal(err)
			}
			controllers, err := New(context.Background(), Options{
				File: filepath.Join(dir, "c.py"), Python: python, Stderr: &buffer{},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer controllers.Close()
			if n := controllers.options.Workers; n != runtime.GOMAXPROCS(0) {
				t.Errorf("%d processes at most, where none are said", n)
			}
			controller, err := controllers.Policy().New(routes)
			if err != nil {
				t.Fatal(err)
			}
			defer controller.Close()
			s := lockstep.NewBatchStep(2)
			s.Step, s.Running = lockstep.ContextLength, []bool{true, true}
			if err := controller.Update(s); err != nil {
				t.Fatal(err)
			}
			for i, want := range c.fails {
				switch err := s.Err[i]; {
				case (want == "") != (err == nil) || want != "" &&
					(!strings.HasSuffix(err.Error(), "/"+want) ||
						lockstep.IsPassing(err) != (c.passes || want == nonsense)):
					t.Errorf("route %d fails with %v, want %q", i, err, want)
				case err == nil && s.Steer[i] != []float64{0.25, -0.5}[i]:
					t.Errorf("route %d is steered by %v", i, s.Steer[i])
				}
			}
		})
	}
}

// little is numbers of 4 bytes, as messages have them, and said a text behind its length.
func little(x ...int) string {
	var b []byte
	for _, x := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return string(b)
}

func said(text string) string { return little(len(text)) + text }

// halfway are the routes of each of two processes, and one of them whose controller is not made.
const halfway, unmade = 64, 6

// ready is what a process answers that steers so many steps: to its source, to each route, to each
// step.
func ready(steps int) string {
	nothing := little(0, 0)
	all := said(nothing)
	for i := range halfway {
		if i == unmade {
			all += said(little(1, i, 0) + said("too far") + said("line 3") + little(0))
		} else {
			all += said(nothing)
		}
	}
	for k := range steps {
		var steers string
		for i := range halfway {
			steers += string(appendFloats(nil, []float64{steered(k, i)}))
		}
		all += said(steers + nothing)
	}
	return all
}

func steered(k, i int) float64 { return float64(k) + float64(i%halfway)/halfway }

// update is what the process of a half is told of a step; what routes have been shown moves on.
func update(s *lockstep.BatchStep, routes []*lockstep.Route, shown []int, from int) string {
	var running, counts, rows string
	for i := from; i < from+halfway; i++ {
		r, begin, end := routes[i], shown[i], shown[i]
		if s.Running[i] && i%halfway != unmade {
			begin = max(begin, s.Step)
			end = max(begin, min(s.Step+lockstep.FuturePlanSteps, r.Len()))
			running += "\x01"
		} else {
			running += "\x00"
		}
		counts += little(end - begin)
		for j := begin; j < end; j++ {
			rows += string(appendFloats(nil, []float64{
				r.TargetLataccel[j], r.RollLataccel[j], r.VEgo[j], r.AEgo[j],
			}))
		}
		shown[i] = end
	}
	current := string(appendFloats(nil, s.CurrentLataccel[from:from+halfway]))
	return said("U" + little(s.Step) + running + current + counts + rows)
}

// recorded makes what stands for Python: it has all answers ready, and keeps what it is told.
func recorded(t *testing.T, ready string) (dir string, controllers *Controllers) {
	t.Helper()
	dir = write(t, map[string]string{
		"c.py": "x = 1\n", "ready": ready,
		"python": "#!/bin/sh\ncat \"${0%/*}/ready\"\nexec cat >\"${0%/*}/sent.$$\"\n",
	})
	python := filepath.Join(dir, "python")
	if err := os.Chmod(python, 0o700); err != nil {
		t.Fatal(err)
	}
	controllers, err := New(t.Context(), Options{
		File: filepath.Join(dir, "c.py"), Python: python, Stderr: &buffer{}, Workers: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, controllers
}

// TestMessages: two processes that steer half of the routes each are told of these, of each step,
// and of what its plans show and they have not been shown, byte by byte; of a route whose
// controller could not be made, or that does not run, no more than that.
func TestMessages(t *testing.T) {
	routes, steps := testRoutes(2*halfway, 150), []int{20, 21, 40, 99, 109, 110}
	dir, controllers := recorded(t, ready(len(steps)))
	defer controllers.Close()
	controller, err := controllers.Policy().New(routes)
	if err != nil {
		t.Fatal(err)
	}
	source := said(string(controllers.given))
	want := [2]string{source, source} // that each is told
	for i := range routes {
		want[i/halfway] += said("S" + little(i%halfway))
	}
	shown, s := make([]int, len(routes)), lockstep.NewBatchStep(len(routes))
	for k, step := range steps {
		s.Step = step
		clear(s.Err)
		for i, r := range routes {
			s.Running[i] = step < r.Len() && (k > 0 || i%5 > 0) // some begin later
			s.CurrentLataccel[i] = float64(step) - float64(i)/8
		}
		if err := controller.Update(s); err != nil {
			t.Fatal(err)
		}
		for p := range want {
			want[p] += update(s, routes, shown, p*halfway)
		}
		for i := range routes {
			fails := s.Running[i] && i%halfway == unmade
			if (s.Err[i] != nil) != fails || !fails && s.Steer[i] != steered(k, i) {
				t.Errorf("step %d, route %d: %v, %v", step, i, s.Steer[i], s.Err[i])
			}
		}
	}
	asksNobody(t, controllers, controller, s)
	if err := controllers.Close(); err != nil {
		t.Fatal(err)
	}
	told := sent(t, dir)
	for p := range want {
		if !told[want[p]] || len(told) != len(want) {
			t.Errorf("of %d processes none is told what that of half %d is to be", len(told), p)
		}
	}
}

// asksNobody has a controller go on where none of its routes runs, and one that has none.
func asksNobody(t *testing.T, all *Controllers, c lockstep.BatchController, s *lockstep.BatchStep) {
	t.Helper()
	clear(s.Running)
	if err := errors.Join(c.Update(s), c.Close()); err != nil {
		t.Fatal(err)
	}
	none, err := all.Policy().New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(none.Update(lockstep.NewBatchStep(0)), none.Close()); err != nil {
		t.Fatal(err)
	}
}

// sent is what each process was told.
func sent(t *testing.T, dir string) map[string]bool {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "sent.*"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told[string(text)] = true
	}
	return told
}
