"""Sees what a controller touches beyond its arguments. worker.py has it watch; watch.go reads.

Each thing is written to a pipe of its own as it happens, one line of JSON: {"kind", "name"}. What
it takes note of once it never notes again. A controller that sets out to deceive this, from within
its own process, may: nothing that is computed from its answers depends on what is written here.
"""

import builtins
import contextlib
import datetime
import json
import math
import os
import random
import site
import sys
import sysconfig
import time
import types

PIPE = 3
OWN = "__lockstep__"  # in the globals of code that is ours
__lockstep__ = True

REFUSED_NETWORK = (
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"),
    *("socket.getaddrinfo", "socket.getnameinfo", "socket.gethostbyname", "socket.gethostbyaddr"),
)
NETWORK = ("socket.__new__", "urllib.Request")
PROCESSES = (
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
    *("subprocess.Popen", "pty.spawn"),
)
FILES = ("os.listdir", "os.scandir")
CHANGES = (
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
)
OBJECTS = ("gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys._current_frames")

# What the challenge's program has, by its names.
METHODS = {
    "LataccelTokenizer": ("encode", "decode", "clip"),
    "TinyPhysicsModel": ("softmax", "predict", "get_current_lataccel"),
    "TinyPhysicsSimulator": (
        *("reset", "get_data", "sim_step", "control_step", "get_state_target_futureplan"),
        *("step", "plot_data", "compute_cost", "rollout"),
    ),
}
FUNCTIONS = ("get_available_controllers", "run_rollout", "download_dataset")

STEP = """
def control_step(self, step_idx, call):
    return call()
"""


class Watch:
    def __init__(self, conditions):
        self.undo, self.deny = conditions["undo"], conditions["deny"]
        # Where clocks begin, 0 where they are real.
        self.clock, self.tick = (
            conditions["clock"],
            conditions["tick"],
        )
        self.seed = conditions["seed"] or None  # of the random module
        self.calls = 0  # of clocks
        self.noted, self.ready, self.inside = set(), False, False
        paths = [
            sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")
        ]
        paths += [site.getusersitepackages()]
        self.library = tuple(
            {p + os.sep for path in paths[:2] for p in (path, os.path.realpath(path))}
        )
        self.controller = os.path.realpath(sys.argv[1])
        self.installed = tuple(
            {p + os.sep for path in paths for p in (path, os.path.realpath(path))}
        )
        os.set_inheritable(PIPE, False)

    def note(self, kind, name):
        """Says it at once: what the controller does next can no longer keep it back."""
        key = (kind, name)
        if key in self.noted or len(self.noted) > 1000:
            return
        self.noted.add(key)
        with contextlib.suppress(OSError):  # who closed it has told by that
            os.write(PIPE, json.dumps({"kind": kind, "name": name[:300]}).encode() + b"\n")

    # --- who asks ---------------------------------------------------------------

    def ours(self, frame):
        return frame.f_globals.get(OWN) is not None or frame.f_globals.get("__name__") == "__main__"

    def foreign(self, frame):
        """Whether code is neither Python's, nor that of an installed package, nor ours."""
        file = frame.f_code.co_filename
        if self.ours(frame) or file.startswith("<frozen"):
            return False
        return not file.startswith(self.installed)

    def asked(self, frame):
        """Whether Python's library does something for such code."""
        while (
            frame and frame.f_code.co_filename.startswith(self.library) and not self.package(frame)
        ):
            frame = frame.f_back
        return frame is not None and self.foreign(frame)

    def package(self, frame):
        return "-packages" in frame.f_code.co_filename  # which are in a folder of the library's

    # --- what is called ----------------------------------------------------------

    def audit(self, event, args):
        if self.inside or not self.ready:
            return
        self.inside = True
        try:
            refusal = self.judge(event, args)
        finally:
            self.inside = False
        if refusal:
            raise refusal

    def judge(self, event, args):
        if event == "open" or event in FILES:
            return self.file(event, args)
        if event in REFUSED_NETWORK or event in NETWORK:
            self.note("network", event)
            if event in REFUSED_NETWORK:
                return ConnectionRefusedError("lockstep verify: the network is closed")
        elif event in PROCESSES:
            self.note("process", event)
            return PermissionError("lockstep verify: no other processes")
        elif event in CHANGES:
            self.note("file written", "%s %s" % (event, args[0]))
        elif event in OBJECTS or event.startswith("ctypes."):
            if self.asked(sys._getframe(2)):
                self.note("objects" if event in OBJECTS else "native code", event)
        elif event == "sys._getframe":
            frame = sys._getframe(2)
            if self.foreign(frame) or frame.f_globals.get("__name__") == "inspect":
                self.note("objects", event)
        return None

    def file(self, event, args):
        path = args[0]
        if isinstance(path, int) or path is None:
            return None
        path = os.path.abspath(os.fsdecode(path))
        if path.startswith((*self.installed, os.devnull)):
            return None
        if event != "open":
            if sys._getframe(3).f_code.co_filename.startswith("<frozen"):
                return None  # an import looks for a module
        elif (isinstance(args[1], str) and set(args[1]) & set("wax+")) or (
            args[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            self.note("file written", path)
            # What is opened with "r+" or "a+" is read, too; what was just made or emptied is not.
            if not args[2] & os.O_RDWR or args[2] & (os.O_TRUNC | os.O_EXCL):
                return None
        frame = sys._getframe(3)
        module = path.endswith((".py", ".pyc")) and frame.f_code.co_filename.startswith("<frozen")
        if module:
            if os.path.realpath(path) != self.controller:
                self.note("module", path)
            return None
        while frame and frame.f_code.co_filename.startswith(self.installed):
            frame = frame.f_back
        if frame is None or not self.foreign(frame):
            return None
        self.note("file", path)
        if self.deny:
            return FileNotFoundError(2, "lockstep verify: no files", path)
        return None

    # --- time ---------------------------------------------------------------------

    def watched(self, name, real, unit):
        """A clock that says when it is asked. One that is not real goes on with each call alone."""

        def clock():
            if self.ready and self.asked(sys._getframe(1)):
                self.note("time", name)
            if not self.clock:
                return real()
            self.calls += 1
            return type(unit)((self.clock + self.tick * self.calls) * unit)

        return clock

    def watch_time(self):
        clocks = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
        for name in clocks:
            setattr(time, name, self.watched("time." + name, getattr(time, name), 1.0))
            ns = name + "_ns"
            setattr(time, ns, self.watched("time." + ns, getattr(time, ns), 10**9))
        watch, now = self, time.time

        class OfNow(type):
            def __instancecheck__(cls, x):
                return isinstance(x, cls.__mro__[1])

            def __subclasscheck__(cls, c):
                return issubclass(c, cls.__mro__[1])

        def seen(name, ask):
            if watch.ready and watch.foreign(sys._getframe(2)):
                watch.note("time", name)
            return ask

        class Moment(datetime.datetime, metaclass=OfNow):
            @classmethod
            def now(cls, tz=None):
                return seen("datetime.now", cls.__mro__[1].fromtimestamp)(now(), tz)

            @classmethod
            def utcnow(cls):
                return seen("datetime.utcnow", cls.__mro__[1].utcfromtimestamp)(now())

            @classmethod
            def today(cls):
                return seen("datetime.today", cls.__mro__[1].fromtimestamp)(now())

        class Day(datetime.date, metaclass=OfNow):
            @classmethod
            def today(cls):
                return seen("date.today", cls.__mro__[1].fromtimestamp)(now())

        for watched, real in ((Moment, datetime.datetime), (Day, datetime.date)):
            watched.__name__ = watched.__qualname__ = real.__name__
            watched.__module__ = "datetime"
        datetime.datetime, datetime.date = Moment, Day

    # --- the simulator's modules ----------------------------------------------------

    def simulator(self, names):
        """The checkout's program, if it is here and can be imported, or a module with its names."""
        module = sys.modules.get("tinyphysics")  # worker.py's, where there is no other
        if module is None:
            try:
                import tinyphysics as module
            except Exception:  # it lacks a package, or is another program: then it is not here
                module = sys.modules["tinyphysics"] = types.ModuleType("tinyphysics")
        if not hasattr(module, "TinyPhysicsSimulator"):
            for name, value in names.items():
                module.__dict__.setdefault(name, value)
            for name, methods in METHODS.items():
                body = {m: absent(name + "." + m) for m in ("__init__", *methods)}
                module.__dict__.setdefault(
                    name, type(name, (), {**body, "__module__": "tinyphysics"})
                )
            for name in FUNCTIONS:
                module.__dict__.setdefault(name, absent(name))
        self.program = module
        self.decoy = self.make_decoy(module.TinyPhysicsSimulator)
        code = {OWN: True}
        exec(compile(STEP, "tinyphysics.py", "exec"), code)
        self.step = code["control_step"]

    def make_decoy(self, simulator):
        """An object where a controller that looks for the simulator on the stack finds one."""
        note = self.note

        class TinyPhysicsSimulator(simulator):
            __slots__ = ()

            def __getattribute__(self, name):
                if name not in ("__class__", "__dict__", "__doc__"):
                    note("simulator", "reads " + name)
                return object.__getattribute__(self, name)

            def __setattr__(self, name, value):
                note("simulator", "sets " + name)

            def __delattr__(self, name):
                note("simulator", "deletes " + name)

        TinyPhysicsSimulator.__module__ = "tinyphysics"
        return object.__new__(TinyPhysicsSimulator)

    def around(self, step, update, *args, **named):
        """Has a controller answer, from where the program would call it."""
        before = random.getstate()
        try:
            return self.step(self.decoy, step, lambda: update(*args, **named))
        finally:
            if random.getstate() != before:
                self.note("random", "random")

    def spaces(self):
        """The names whose change is a patch: module or class, and what it is called."""
        import numpy as np

        modules = [
            self.program,
            np,
            np.random,
            np.linalg,
            random,
            math,
            time,
            datetime,
            builtins,
            sys,
        ]
        for module in modules:
            yield module.__name__, module
            for name, value in list(vars(module).items()):
                if module in (self.program, random) and isinstance(value, type):
                    yield "%s.%s" % (module.__name__, name), value

    # What Python itself keeps in these modules changes as they are used.
    IGNORED = (
        *(
            "__builtins__",
            "__warningregistry__",
            "__cached__",
            "__loader__",
            "__spec__",
            "__abstractmethods__",
        ),
        *(
            "_abc_impl",
            "last_exc",
            "last_type",
            "last_value",
            "last_traceback",
            "argv",
            "path",
            "modules",
        ),
        *("path_importer_cache", "meta_path", "path_hooks", "stdout", "stderr", "_"),
    )

    def begin(self, names):
        """Before the controller is imported."""
        # A compiled module beside a file need not be what the file says.
        sys.dont_write_bytecode, sys.pycache_prefix = True, os.path.join(os.devnull, "none")
        self.watch_time()
        self.simulator(names)
        self.before = {name: (space, dict(vars(space))) for name, space in self.spaces()}
        sys.addaudithook(self.audit)
        self.ready = True

    def check(self):
        """Says what was patched since begin, and undoes it if that is the condition."""
        for prefix, (space, before) in self.before.items():
            now = vars(space)
            if len(now) == len(before) and all(now.get(k) is v for k, v in before.items()):
                continue
            for name in {**before, **now}:
                if now.get(name, self) is before.get(name, self) or name in self.IGNORED:
                    continue
                if name not in before and isinstance(now[name], types.ModuleType):
                    continue  # a part of a package that was imported
                self.note("patch", "%s.%s" % (prefix, name))
                if self.undo:
                    if name in before:
                        setattr(space, name, before[name])
                    else:
                        delattr(space, name)

    def end(self):
        self.check()
        self.note("end", "")


def absent(name):
    def method(*args, **named):
        raise RuntimeError(
            "lockstep verify has no %s: a controller is judged by what it makes of its arguments"
            % name
        )

    method.__name__ = method.__qualname__ = name
    return method
