package pycontroller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// watched steers two short routes under conditions, and returns the answers, what was
// touched, and the controllers' errors in one line.
func watched(
	t *testing.T, text string, conditions Conditions,
) (steer string, touched []string, failed string) {
	t.Helper()
	w := &Watch{Conditions: conditions}
	c := start(t, text, func(o *Options) { o.Watch = w })
	var all []any
	outcomes, err := drive(c, testRoutes(2, 108))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		all = append(all, o.steer)
		var e *Error
		if errors.As(o.err, &e) {
			failed = e.Message
		} else if o.err != nil {
			t.Fatal(o.err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, touch := range w.Touched() {
		touched = append(touched, touch.Kind+" "+touch.Name)
	}
	return fmt.Sprint(all...), touched, failed
}

// hostile is a controller with something at its import, and something in each update.
func hostile(top, body string) string {
	return strings.Replace(source(body), "\nclass Controller", "\n"+top+"\n\nclass Controller", 1)
}

// base are conditions under which a controller has no way to be random.
var base = Conditions{Clock: 1e9, Tick: 0.001, Seed: 1}

// TestWatch: what controllers touch is told, and what they answer depends on it or not.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		top, body string
		want      []string // touched, by their beginnings; nothing else
		other     func(*Conditions)
		depends   bool   // the answers, on what other changes
		fails     string // in both
	}{
		"honest": {"import math", "return math.sin(0.3 * (target_lataccel - current_lataccel))",
			nil, func(c *Conditions) {
				*c = Conditions{Clock: 2e9, Tick: 1, Seed: 7, Undo: true, Deny: true}
			}, false, ""},
		"sim_step": {"from tinyphysics import " +
			"TinyPhysicsSimulator\nTinyPhysicsSimulator.sim_step = lambda self, i: 0",
			"return 0.1", []string{"patch tinyphysics.TinyPhysicsSimulator.sim_step"},
			func(c *Conditions) { c.Undo = true }, false, ""},
		"a constant": {"import tinyphysics\ntinyphysics.LAT_ACCEL_COST_MULTIPLIER = 0",
			"return float(tinyphysics.LAT_ACCEL_COST_MULTIPLIER) / 50",
			[]string{"patch tinyphysics.LAT_ACCEL_COST_MULTIPLIER"},
			func(c *Conditions) { c.Undo = true }, true, ""},
		"a name of its own": {"import tinyphysics\ntinyphysics.kept = [0.1]",
			"return tinyphysics.kept[0] if hasattr(tinyphysics, 'kept') else 0.2",
			[]string{"patch tinyphysics.kept"}, func(c *Conditions) { c.Undo = true }, true, ""},
		"numpy.random": {"np.random.choice = lambda *a, **k: 512", "return 0.1",
			[]string{"patch numpy.random.choice"}, func(c *Conditions) { c.Undo = true }, false,
			""},
		"numpy": {"", "np.clip = lambda *a: 0.5\nreturn float(np.clip(0.1, -2, 2))",
			[]string{"patch numpy.clip"}, func(c *Conditions) { c.Undo = true }, false, ""},
		"global draws": {"", "return float(np.random.rand())", []string{"random numpy.random"},
			func(c *Conditions) { c.Seed = 2 }, false, "update changed np.random's global stream"},
		"draws": {"import random", "return random.random()", []string{"random random"},
			func(c *Conditions) { c.Seed = 2 }, true, ""},
		"draws in vain": {"import random", "random.random()\nreturn 0.1",
			[]string{"random random"}, func(c *Conditions) { c.Seed = 2 }, false, ""},
		"a file": {"import json", "try:\n    return len(open('c.py').read()) / 1e4\nexcept " +
			"OSError:\n    return 0.0",
			[]string{"file "}, func(c *Conditions) { c.Deny = true }, true, ""},
		"a file to be changed": {"", "try:\n    return len(open('c.py', 'r+').read()) / " +
			"1e4\nexcept OSError:\n    return 0.0",
			[]string{"file /", "file written "}, func(c *Conditions) { c.Deny = true }, true, ""},
		"a file to be added to": {"", "open('c.txt', 'a').close()\ntry:\n    with open('c.txt', " +
			"'ab+') as f:\n        f.write(b'x')\n        return f.tell() / 1e4\nexcept " +
			"OSError:\n    return 0.0",
			[]string{"file /", "file written "}, func(c *Conditions) { c.Deny = true }, true, ""},
		"a mapped file": {"", "try:\n    return len(np.memmap('c.py', np.uint8)) / 1e4\nexcept " +
			"OSError:\n    return 0.0",
			[]string{"file /", "file written "}, func(c *Conditions) { c.Deny = true }, true, ""},
		"a scratch file": {"", "with open('x.txt', 'w+') as f:\n    f.write('0.1')\n    " +
			"f.seek(0)\n    return float(f.read())",
			[]string{"file written "}, func(c *Conditions) { c.Deny = true }, false, ""},
		"writes": {"", "open('x.txt', 'w').close()\nreturn 0.1", []string{"file written "},
			func(c *Conditions) { c.Deny = true }, false, ""},
		"time": {"", "return time.time() % 1", []string{"time time.time"},
			func(c *Conditions) { c.Clock = 2e9 + 0.25 }, true, ""},
		"datetime": {"import datetime", "assert isinstance(datetime.datetime.now(), " +
			"datetime.datetime)\nreturn datetime.datetime.now().year / 3000",
			[]string{"time datetime.now"}, func(c *Conditions) { c.Clock = 2e9 }, true, ""},
		"every clock": {"import datetime, time", `
clocks = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
asked = [getattr(time, name)() + getattr(time, name + "_ns")() for name in clocks]
days = [datetime.datetime.utcnow(), datetime.datetime.today(), datetime.date.today()]
return sum(asked) / 1e18 + sum(day.year for day in days) / 1e4`, []string{
			"time time.time", "time time.time_ns", "time time.monotonic", "time time.monotonic_ns",
			"time time.perf_counter", "time time.perf_counter_ns", "time time.process_time",
			"time time.process_time_ns", "time time.thread_time", "time time.thread_time_ns",
			"time datetime.utcnow", "time datetime.today", "time date.today",
		}, func(c *Conditions) { c.Clock = 2e9 }, true, ""},
		"kinds of dates": {"import datetime", `
for kind, at in ((datetime.datetime, (2020, 1, 2)), (datetime.date, (2020, 1, 2))):
    made = kind(*at)
    mine = type("Mine", (type(made),), {})
    assert isinstance(made, kind) and isinstance(mine(*at), kind) and issubclass(mine, kind)
    assert not isinstance(3, kind) and not issubclass(int, kind)
return 0.1`, nil, func(c *Conditions) { c.Clock = 2e9 }, false, ""},
		"changes of files": {"", `
d = "d%d/" % os.getpid()
os.mkdir(d)
os.close(os.open(d + "a", os.O_RDONLY | os.O_CREAT))
os.truncate(d + "a", 9)
os.chmod(d + "a", 0o600)
os.link(d + "a", d + "b")
os.symlink("a", d + "c")
os.rename(d + "b", d + "e")
for name in ("a", "c", "e"):
    os.remove(d + name)
os.rmdir(d)
return 0.1`, []string{
			"file written os.mkdir", "file written os.truncate", "file written os.chmod",
			"file written os.link", "file written os.symlink", "file written os.rename",
			"file written os.remove", "file written os.rmdir", "file /",
		}, nil, false, ""},
		"a socket": {"import socket", "try:\n    socket.create_connection(('127.0.0.1', " +
			"9))\nexcept OSError as e:\n    return 0.1 if 'verify' in str(e) else 0.9",
			[]string{"network socket.getaddrinfo"}, nil, false, ""},
		"names": {"import socket", `
refused = 0
for ask in (lambda: socket.gethostbyname('localhost'), lambda: socket.gethostbyname_ex('localhost'),
            lambda: socket.gethostbyaddr('127.0.0.1'),
            lambda: socket.getnameinfo(('127.0.0.1', 9), 0),
            lambda: socket.getaddrinfo('localhost', 9)):
    try:
        ask()
    except OSError as e:
        refused += 'verify' in str(e)
assert refused == 5, refused
return 0.1`, []string{
			"network socket.gethostbyname", "network socket.gethostbyaddr", "network " +
				"socket.getnameinfo",
			"network socket.getaddrinfo",
		}, nil, false, ""},
		"a process": {
			"import subprocess",
			"try:\n    subprocess.run(['true'])\nexcept PermissionError:\n    return 0.1",
			[]string{"process subprocess.Popen"},
			nil,
			false,
			"",
		},
		"a raw fork": {"", "try:\n    os.fork()\nexcept PermissionError:\n    return 0.1",
			[]string{"process os.fork"}, nil, false, ""},
		"the stack": {"import inspect", `
for f in inspect.stack():
    sim = f.frame.f_locals.get('self')
    if type(sim).__name__ == 'TinyPhysicsSimulator':
        sim.current_lataccel = 0
        return 0.1 if hasattr(sim, 'data') else 0.2`, []string{
			"objects sys._getframe", "simulator reads data", "simulator sets current_lataccel",
		}, nil, false, ""},
		"a traceback": {"", `
try:
    raise ValueError
except ValueError as e:
    f = e.__traceback__.tb_frame
while f and type(f.f_locals.get('self')).__name__ != 'TinyPhysicsSimulator':
    f = f.f_back
return len(f.f_locals['self'].futureplan)`, []string{
			"simulator reads futureplan",
		}, nil, false, "AttributeError: 'TinyPhysicsSimulator' object has no attribute " +
			"'futureplan'"},
		"all objects": {"import gc", "if self.n: return 0.1\nreturn float(sum('TinyPhysics' in " +
			"type(x).__name__ for x in gc.get_objects()) > 50)",
			[]string{"objects gc.get_objects"}, nil, false, ""},
		"native code": {"import ctypes", "return float(ctypes.CDLL(None).abs(-1)) / 10",
			[]string{"native code ctypes.dl"}, nil, false, ""},
		"the model": {"from tinyphysics import TinyPhysicsModel",
			"return TinyPhysicsModel('m', False)", nil, nil, false, "RuntimeError: lockstep " +
				"verify has no TinyPhysicsModel.__init__"},
		"garbage": {"", "os.write(3, b'{}\\n')\nreturn 0.1", []string{"garbled "}, nil, false, ""},
		"closes": {"", "try:\n    os.close(3)\nexcept OSError:\n    pass\nreturn 0.1",
			[]string{"silent "}, nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := hostile(c.top, c.body)
			steer, touched, failed := watched(t, text, base)
			for _, want := range c.want {
				if !slices.ContainsFunc(
					touched, func(s string) bool { return strings.HasPrefix(s, want) },
				) {
					t.Errorf("%q is not in %q", want, touched)
				}
			}
			for _, got := range touched {
				if !slices.ContainsFunc(
					c.want, func(s string) bool { return strings.HasPrefix(got, s) },
				) {
					t.Errorf("%q is told", got)
				}
			}
			failedAgain := failed
			if c.other != nil {
				other, again := base, ""
				c.other(&other)
				again, _, failedAgain = watched(t, text, other)
				if depends := steer != again; depends != c.depends {
					t.Errorf(
						"the answers depend on it: %v, want %v\n%.200s\n%.200s", depends, c.depends,
						steer, again,
					)
				}
			}
			for _, message := range []string{failed, failedAgain} {
				if !strings.HasPrefix(message, c.fails) || (message == "") != (c.fails == "") {
					t.Errorf("it fails with %q, want %q", message, c.fails)
				}
			}
		})
	}
}

// TestWatchNothing: a controller that is watched in the world as it is answers as if it
// were not.
func TestWatchNothing(t *testing.T) {
	text := source(
		"return 0.3 * (target_lataccel - current_lataccel) + 0.01 * sum(future_plan.lataccel[:5])",
	)
	steer, touched, failed := watched(t, text, Conditions{})
	var all []any
	for _, o := range mustDrive(t, start(t, text), testRoutes(2, 108)) {
		all = append(all, o.steer)
	}
	if want := fmt.Sprint(all...); steer != want || len(touched) > 0 || failed != "" {
		t.Errorf("%q, %s\n%s\n%s", touched, failed, steer, want)
	}
}

// TestWatchEach: each event by which Python tells of what may be kept from a controller is told, by
// its kind, and refused or let through.
func TestWatchEach(t *testing.T) {
	refused := map[string]string{
		"network": "socket.connect socket.bind socket.sendto socket.sendmsg socket.getaddrinfo " +
			"socket.getnameinfo socket.gethostbyname socket.gethostbyaddr",
		"process": "os.system os.exec os.fork os.forkpty os.posix_spawn os.spawn " +
			"subprocess.Popen pty.spawn",
	}
	let := map[string]string{
		"network": "socket.__new__ urllib.Request",
		"file written": "os.remove os.rename os.mkdir os.rmdir os.link os.symlink os.truncate " +
			"os.chmod",
		"objects":     "gc.get_objects gc.get_referrers gc.get_referents sys._current_frames",
		"native code": "ctypes.dlopen",
	}
	var events, through, want []string
	for i, kinds := range []map[string]string{refused, let} {
		for kind, names := range kinds {
			for _, event := range strings.Fields(names) {
				events = append(events, event)
				if i == 1 {
					through = append(through, event)
				}
				told := kind + " " + event
				if kind == "file written" {
					told += " x"
				}
				want = append(want, told)
			}
		}
	}
	slices.Sort(events)
	slices.Sort(through)
	slices.Sort(want)
	text := hostile("import sys", fmt.Sprintf(`through = []
for event in %q.split():
    try:
        sys.audit(event, "x")
        through.append(event)
    except (PermissionError, ConnectionRefusedError):
        pass
raise ValueError(" ".join(through))`, strings.Join(events, " ")))
	_, touched, failed := watched(t, text, base)
	slices.Sort(touched)
	if d := cmp.Diff(want, touched); d != "" {
		t.Errorf("told: %s", d)
	}
	if want := "ValueError: " + strings.Join(through, " "); !strings.HasPrefix(failed, want) {
		t.Errorf("let through: %q, want %q", failed, want)
	}
}
