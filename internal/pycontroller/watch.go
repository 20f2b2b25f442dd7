package pycontroller

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/internal/plain"
)

//go:embed watch.py
var watchScript string

// Conditions are what a controller that is watched finds around it. The zero value is
// the world as it is, but for the network and other processes, which are always refused.
type Conditions struct {
	Undo bool `json:"undo"` // what it patches is put back before it answers
	Deny bool `json:"deny"` // files other than modules are not found
	// where clocks begin, in seconds; each call moves them on by Tick. 0: real ones
	Clock float64 `json:"clock"`
	Tick  float64 `json:"tick"`
	Seed  uint64  `json:"seed"` // of the random module for each route; 0: a random one
}

// A Touch is a thing that a controller touched beyond its arguments.
type Touch struct {
	Kind string `json:"kind"` // such as "patch", "time", "random", "file", "network"
	Name string `json:"name"`
}

// Kinds of touches that Watch itself knows of.
const (
	touchEnd     = "end"    // the last of a process that ended by itself
	TouchSilence = "silent" // a process was ended, or has kept its last word back
	touchGarbled = "garbled"
)

// Watch sees what a controller touches beyond its arguments: what it patches in the
// simulator's modules, NumPy and Python, clocks, generators, files, the network, other
// processes, the objects of its process. It is told as it happens, by the process itself,
// which a controller may deceive: take it for evidence of what is in it, and not of the
// absence of anything else. What the engine computes of the answers cannot be touched.
type Watch struct {
	Conditions Conditions

	mu   sync.Mutex
	seen map[Touch]bool
}

// Touched are the things of all processes so far, sorted. Those of processes that still
// run may be missing.
func (w *Watch) Touched() (list []Touch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t := range w.seen {
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b Touch) int {
		return strings.Compare(a.Kind+"\n"+a.Name, b.Kind+"\n"+b.Name)
	})
	return list
}

func (w *Watch) add(t Touch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[Touch]bool{}
	}
	if len(w.seen) < maxTouches {
		w.seen[t] = true
	}
}

// maxTouches bounds what is kept, and maxTouch how long a line may be.
const (
	maxTouches = 2000
	maxTouch   = 4096
)

// sight is the pipe from a process to its Watch. All its methods may be called on nil.
type sight struct {
	watch  *Watch
	ours   *os.File
	theirs *os.File
	done   chan struct{}
}

// prepare adds to a command what makes the process tell.
func (w *Watch) prepare(command *exec.Cmd) (*sight, error) {
	if w == nil {
		return nil, nil
	}
	if runtime.GOOS == "windows" {
		return nil, errors.New("a controller cannot be watched on Windows")
	}
	conditions, err := json.Marshal(w.Conditions)
	if err != nil {
		return nil, err
	}
	s := &sight{watch: w, done: make(chan struct{})}
	if s.ours, s.theirs, err = os.Pipe(); err != nil {
		return nil, err
	}
	command.Args = append(command.Args, watchScript, string(conditions))
	command.ExtraFiles = []*os.File{s.theirs}
	if w.Conditions.Seed != 0 {
		command.Env = append(command.Env, "PYTHONHASHSEED=0")
	}
	return s, nil
}

// started reads from now on what the process tells, or cleans up if it was not started.
func (s *sight) started(err error) {
	if s == nil {
		return
	}
	s.theirs.Close()
	if err != nil {
		close(s.done)
		s.ended()
		return
	}
	go s.read()
}

func (s *sight) read() {
	defer close(s.done)
	last := false
	lines := bufio.NewScanner(s.ours)
	lines.Buffer(make([]byte, maxTouch), maxTouch)
	for lines.Scan() {
		var t Touch
		switch err := json.Unmarshal(lines.Bytes(), &t); {
		case err != nil || t.Kind == "":
			s.watch.add(Touch{touchGarbled, "what the process says of itself makes no sense"})
		case t.Kind == touchEnd:
			last = true
		default:
			s.watch.add(Touch{plain.Text(t.Kind), plain.Text(t.Name)})
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		s.watch.add(Touch{touchGarbled, fmt.Sprintf("a line of more than %d bytes", maxTouch)})
	}
	if !last {
		s.watch.add(Touch{TouchSilence, "a process ended without its last word"})
	}
}

// ended waits for the last of it, unless somebody else keeps the pipe open.
func (s *sight) ended() {
	if s == nil {
		return
	}
	select {
	case <-s.done:
	case <-time.After(time.Second):
	}
	s.ours.Close()
	<-s.done
}
