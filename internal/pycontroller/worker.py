"""Steers routes with a controller of the challenge. Package pycontroller runs it.

  python -u -X faulthandler -c <this text> path/to/controllers/foo.py BYTES [<watch.py> CONDITIONS]

BYTES is how much memory it may have, 0 for as much as there is. Under conditions,
which are JSON, watch.py sees what the controller touches beyond its arguments.

Messages come on standard input and are answered on standard output. Numbers are
little-endian; a message begins with the number of bytes that follow, a uint32.

The first is the controller's file and all others in its folder that end in .py: for each
its name and its text, each uint32 length and bytes. What is imported from there is made of
these texts, whatever the files hold by now.

  S  start: uint32 route. Makes the route's controller. Routes come in order; the
     first, 0, makes the ones of before forgotten.
  U  update: uint32 step, uint8 running (routes), float64 current lataccel (routes),
     uint32 rows (routes), float64 (sum of rows, 4): target lataccel, roll lataccel,
     v ego, a ego of the route's next rows, the first of them the first step's.

A process is given rows as the plan shows them, and no later ones: nothing that is in
it knows more of a route than its controller may.

The answer to U begins with float64 steer (routes). Both end with what failed: uint32
count; for each uint32 route, uint32 1 if it is that memory ran out and 0 else, and two
texts, the error in one line and Python's traceback, each uint32 length and UTF-8. The
first message has such an answer, when the controller's file has been loaded.

Every answer ends with what the controller was found to be made of since the last one: uint32
count; for each the texts of its name and of its version or hash. See Inputs.
"""

import sys

# Not the working folder: its files may bear the names of modules.
sys.path[:] = [p for p in sys.path if p]

import collections
import ctypes
import faulthandler
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import linecache
import os
import random
import select
import signal
import struct
import threading
import time
import traceback
import types

CONTROL_START_IDX = 100  # the program looks at no steer command before
FUTURE_PLAN_STEPS = 50

GRACE = 5  # seconds for a controller's own clean-up after the pipe was closed


watch = None  # see watch.py


class Failed(Exception):
    """An error that one line describes."""


def take_pipes():
    """Moves the messages off the standard streams, so that a controller may print."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return requests, replies


def end_with_parent(requests):
    """Ends this process when nobody can ask any more, even if a controller hangs."""

    def watch():
        poll = select.poll()
        poll.register(requests.fileno(), 0)  # hang-up is always reported
        poll.poll()
        time.sleep(GRACE)
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with what the controller has started
        os._exit(1)

    if hasattr(select, "poll"):
        threading.Thread(target=watch, daemon=True).start()


def limit_memory(limit):
    """Makes Python raise MemoryError where a controller would take all memory."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    # Of data, since libraries reserve far more addresses than they use.
    resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))


# --- loading -----------------------------------------------------------------


def stand_in(name, **names):
    """A module that offers names of the challenge's own, for files outside a checkout of it."""
    module = types.ModuleType(name)
    module.__file__ = "lockstep's stand-in, outside a checkout of the challenge"
    module.__dict__.update(names)
    sys.modules[name] = module
    return module


class BaseController:
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        raise NotImplementedError


def unpack_sources(message, folder):
    """The texts of the first message, by the paths of their files."""
    parts, at = [], 0
    while at < len(message):
        size = struct.unpack_from("<I", message, at)[0]
        parts.append(message[at + 4 : at + 4 + size])
        at += 4 + size
    return {
        os.path.join(folder, os.fsdecode(name)): text for name, text in zip(parts[::2], parts[1::2])
    }


sources = {}  # the texts of the first message, by the paths of their files


class Given(importlib.machinery.SourceFileLoader):
    """Makes a module of the text that this process was given, and of no compiled one."""

    def path_stats(self, path):
        raise OSError("a compiled module need not be of the given text")

    def get_data(self, path):
        if watch and path != sys.argv[1]:
            watch.note("module", path)
        return sources[path]


class Finder:
    """Finds the modules of the controller's folder, and Given to load them."""

    def __init__(self, folder, package):
        self.folder, self.package = folder, package  # package is None if the folder is none
        for path, text in sources.items():  # for tracebacks
            try:
                lines = importlib.util.decode_source(text).splitlines(True)
            except (SyntaxError, UnicodeDecodeError):
                continue
            linecache.cache[path] = len(text), None, lines, path

    def find_spec(self, name, path=None, target=None):
        if path is None and name == self.package:
            return self.spec(name, "__init__.py", [self.folder])
        if self.folder not in (sys.path if path is None else path):
            return None
        file = name.rpartition(".")[2] + ".py"
        there = importlib.machinery.PathFinder.find_spec(name, path, target)
        origin = there.origin if there and there.origin else ""
        if os.path.join(self.folder, file) not in sources:
            if origin == os.path.join(self.folder, file):
                raise ImportError(
                    "%s could not be read when the run began" % origin, name=name, path=origin
                )
            return None
        if origin != os.path.join(self.folder, file) and origin.startswith(
            os.path.join(self.folder, "")
        ):
            return None  # a package or a compiled module, which comes before a file
        return self.spec(name, file, None)

    def spec(self, name, file, inside):
        path = os.path.join(self.folder, file)
        loader = Given(name, path)
        return importlib.util.spec_from_file_location(
            name, path, loader=loader, submodule_search_locations=inside
        )


def load(file, message):
    """Imports a controller as the program does, and returns what Steering is made of.

    The program runs in the folder that holds the package `controllers`. A file
    that is in no package becomes part of one.
    """
    folder, name = os.path.split(file)
    stem = name[: -len(".py")]
    sources.update(unpack_sources(message, folder))
    in_package = os.path.join(folder, "__init__.py") in sources
    in_checkout = in_package or os.path.basename(folder) == "controllers"
    root = os.path.dirname(folder) if in_checkout else folder
    package = os.path.basename(folder) if in_package else "controllers"
    sys.path.insert(0, root)
    os.chdir(root)
    sys.meta_path.insert(0, Finder(folder, package if in_package else None))
    global inputs
    inputs = Inputs(folder, root)

    if not in_package:
        stand_in("controllers", BaseController=BaseController).__path__ = [folder]
    elif importlib.util.find_spec("controllers") is None:
        stand_in("controllers", BaseController=BaseController)
    State = collections.namedtuple("State", ["roll_lataccel", "v_ego", "a_ego"])
    FuturePlan = collections.namedtuple(
        "FuturePlan", ["lataccel", "roll_lataccel", "v_ego", "a_ego"]
    )
    State.__module__ = FuturePlan.__module__ = "tinyphysics"
    names = {
        "State": State,
        "FuturePlan": FuturePlan,
        "BaseController": BaseController,
        "ACC_G": 9.81,
        "FPS": 10,
        "CONTROL_START_IDX": CONTROL_START_IDX,
        "COST_END_IDX": 500,
        "CONTEXT_LENGTH": 20,
        "VOCAB_SIZE": 1024,
        "LATACCEL_RANGE": [-5, 5],
        "STEER_RANGE": [-2, 2],
        "MAX_ACC_DELTA": 0.5,
        "DEL_T": 0.1,
        "LAT_ACCEL_COST_MULTIPLIER": 50.0,
        "FUTURE_PLAN_STEPS": FUTURE_PLAN_STEPS,
    }
    if importlib.util.find_spec("tinyphysics") is None:
        stand_in("tinyphysics", **names)
    if watch:
        watch.begin(names)

    before = random.getstate()
    module = importlib.import_module(package + "." + stem)
    seeded = random.getstate() if random.getstate() != before else None
    if watch:
        watch.check()
        if seeded:
            watch.note("random", "random")
    if module.__file__ != file and not os.path.samefile(module.__file__, file):
        raise Failed("Python imports %s in its place" % module.__file__)
    if not callable(getattr(module, "Controller", None)):
        raise Failed("no class Controller in it")
    program = sys.modules.get("tinyphysics")  # the checkout's, if the controller imports it
    return (
        module.Controller,
        seeded,
        getattr(program, "State", State),
        getattr(program, "FuturePlan", FuturePlan),
    )


# --- what it is made of ------------------------------------------------------


class Inputs:
    """What a controller is made of beyond the texts of the first message.

    These are the versions of Python and of packages, and the hashes of other modules and of files
    that were opened for reading, each time they are. What native code opens is not seen, and what
    belongs to the machine, as clocks and devices do, is no file.
    """

    def __init__(self, folder, root):
        self.folder, self.root = folder, os.path.join(root, "")
        self.library = os.path.join(os.path.dirname(os.__file__), "")
        self.said, self.fresh = {}, []  # by name, what was said; what is still to be said
        self.scanned, self.written = set(), set()  # names of modules; paths of what it makes itself
        self.thread = threading.local()
        self.add("Python", sys.version.split()[0])
        sys.addaudithook(self.audit)

    def add(self, name, value):
        if self.said.get(name) != value:
            self.said[name] = value
            self.fresh.append((name, value))

    def add_file(self, kind, name, path):
        digest = hashlib.sha256()
        self.thread.inside = True
        try:
            with open(path, "rb") as file:
                for part in iter(lambda: file.read(1 << 20), b""):
                    digest.update(part)
        except OSError:  # its reader hears of it
            return
        finally:
            self.thread.inside = False
        self.add("%s %s" % (kind, name), digest.hexdigest())

    def audit(self, event, args):
        if event != "open" or getattr(self.thread, "inside", False):
            return
        try:
            path = os.path.abspath(os.fsdecode(args[0]))
        except (TypeError, ValueError):  # a number of an open file
            return
        if path in sources or path.endswith(".pyc") or "-packages" + os.sep in path:
            return
        if path.startswith((self.library, "/proc/", "/sys/", "/dev/")):
            return
        if path.endswith(".py") and sys._getframe(1).f_code.co_filename.startswith("<frozen"):
            return  # it is imported, and so is a module
        mode, flags = args[1], args[2] or 0
        if (isinstance(mode, str) and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR):
            self.written.add(path)
        elif path not in self.written and os.path.isfile(path):
            below = path.startswith(self.root)
            self.add_file("file", os.path.relpath(path, self.folder) if below else path, path)

    def scan(self):
        """Looks for modules that were imported since the last time."""
        if len(sys.modules) == len(self.scanned):
            return
        for name, module in list(sys.modules.items()):
            if name in self.scanned:
                continue
            self.scanned.add(name)
            file = getattr(module, "__dict__", {}).get("__file__")
            if not isinstance(file, str) or file in sources or not os.path.isfile(file):
                continue
            if "-packages" + os.sep in file:
                package = name.partition(".")[0]
                version = getattr(sys.modules.get(package), "__dict__", {}).get("__version__")
                if isinstance(version, str):
                    self.add("package " + package, version)
                    continue
            elif file.startswith(self.library):
                continue
            self.add_file("module", name, file)

    def pack(self):
        self.scan()
        fresh, self.fresh = self.fresh, []
        parts = [struct.pack("<I", len(fresh))]
        for text in (text for pair in fresh for text in pair):
            data = text.encode("utf-8", "backslashreplace")
            parts.append(struct.pack("<I", len(data)) + data)
        return b"".join(parts)


inputs = None  # from when the first message was read


def pack_answer(errors):
    return pack_errors(errors) + (inputs.pack() if inputs else struct.pack("<I", 0))


# --- errors ------------------------------------------------------------------

MESSAGE, TRACEBACK = 300, 4000  # characters that are worth reading


def cut(text, limit):
    """A text's beginning and end, if it is long."""
    if len(text) <= limit:
        return text
    return "%s ... (%d characters) ... %s" % (text[: limit // 2], len(text), text[-limit // 2 :])


def describe(error):
    """An error in one line, and Python's traceback without this file's frames."""
    if isinstance(error, Failed):
        return cut(" ".join(str(error).split()), MESSAGE), ""
    frames = error.__traceback__
    while frames and (
        frames.tb_frame.f_globals is globals()
        or "__lockstep__" in frames.tb_frame.f_globals
        or frames.tb_frame.f_globals.get("__name__", "").startswith("importlib")
    ):
        frames = frames.tb_next
    text = cut("".join(traceback.format_exception(type(error), error, frames)).rstrip(), TRACEBACK)
    line = type(error).__name__
    try:
        line += ": " + str(error).splitlines()[0]
    except Exception:  # no message, or none that can be had
        pass
    return cut(line, MESSAGE), "" if text == line else text


def pack_errors(errors):
    parts = [struct.pack("<I", len(errors))]
    for route, error in errors:
        parts.append(struct.pack("<II", route, isinstance(error, MemoryError)))
        for text in describe(error):
            data = text.encode("utf-8", "backslashreplace")
            parts.append(struct.pack("<I", len(data)) + data)
    return b"".join(parts)


# --- steering ----------------------------------------------------------------


class Route:
    """One route's controller, and its columns so far, in the types that the program uses."""

    def __init__(self):
        self.first = None  # the step of the first row
        self.target, self.states = [], []  # of np.float64
        self.plan = [], [], [], []  # of float
        self.random = None  # the random module's state for this route, if the controller seeds it

    def make(self, Controller, seeded):
        """Makes the controller; seeded: the random module's state if importing the file set it."""
        random.setstate(seeded) if seeded else random.seed(watch and watch.seed)
        before = random.getstate()
        self.controller = Controller()
        if random.getstate() != before and watch:
            watch.note("random", "random")
        if seeded or random.getstate() != before or watch:
            self.random = random.getstate()

    def extend(self, step, rows, State):
        if self.first is None:
            self.first = step
        for row in rows:
            target, *state = row
            self.target.append(target)
            self.states.append(State(*state))
        for column, values in zip(self.plan, rows.T.tolist()):
            column.extend(values)

    def update(self, step, current, FuturePlan):
        target, roll, v, a = self.plan
        first, step = self.first, step - self.first
        i, j = step + 1, step + FUTURE_PLAN_STEPS
        plan = FuturePlan(lataccel=target[i:j], roll_lataccel=roll[i:j], v_ego=v[i:j], a_ego=a[i:j])
        if self.random is None:
            return self.controller.update(
                self.target[step], current, self.states[step], future_plan=plan
            )
        # Other routes are steered in between, and this one may not notice.
        random.setstate(self.random)
        try:
            if watch:
                update = self.controller.update
                return watch.around(
                    first + step,
                    update,
                    self.target[step],
                    current,
                    self.states[step],
                    future_plan=plan,
                )
            return self.controller.update(
                self.target[step], current, self.states[step], future_plan=plan
            )
        finally:
            self.random = random.getstate()


def number(action, np):
    """The float that the program makes of an answer: np.clip, then an array with other floats."""
    try:
        row = np.array([0.0, np.clip(action, -2, 2)])
        if row.shape == (2,) and row.dtype.kind in "fiubO":
            value = float(row[1])
            if value == row[1] or value != value or row.dtype.kind == "O":
                return value
            raise Failed(
                "update returned a %s that is no float64: %r" % (type(action).__name__, action)
            )
    except Failed:
        raise
    except Exception:
        pass
    shape = " of shape %s" % (action.shape,) if hasattr(action, "shape") else ""
    raise Failed(
        "update returned a %s%s, not a number: %.100r" % (type(action).__name__, shape, action)
    )


def global_stream(np):
    """A function that returns the state of np.random, to be compared.

    Asking for it takes 50 us, reading the same memory 0.1 us.
    """
    generator = np.random.mtrand._rand._bit_generator

    def ask():
        state = generator.state["state"]
        return state["key"].astype("=u4").tobytes() + struct.pack("=i", state["pos"])

    try:
        memory = (ctypes.c_char * (625 * 4)).from_address(generator.ctypes.state_address)
        if memory.raw == ask():
            return lambda: memory.raw
    except Exception:  # another NumPy may keep it elsewhere
        pass
    return ask


DREW = Failed(
    "update changed np.random's global stream. The challenge's program draws its simulation from "
    "the same stream, so no result would be the program's: use np.random.default_rng(seed) instead"
)


class Steering:
    def __init__(self, Controller, seeded, State, FuturePlan, np):
        self.Controller, self.seeded, self.State, self.FuturePlan, self.np = (
            Controller,
            seeded,
            State,
            FuturePlan,
            np,
        )
        self.stream = global_stream(np)
        self.routes = []

    def start(self, message):
        number = struct.unpack_from("<I", message, 1)[0]
        del self.routes[number:]
        self.routes.append(Route())
        errors = []
        try:
            self.routes[number].make(self.Controller, self.seeded)
        except BaseException as error:
            errors.append((number, error))
        self.np.random.seed()  # the program does it here, too, but see update
        if watch:
            watch.check()
        return pack_answer(errors)

    def update(self, message):
        np, FuturePlan, stream = self.np, self.FuturePlan, self.stream
        step, n = struct.unpack_from("<I", message, 1)[0], len(self.routes)
        running = message[5 : 5 + n]
        current = list(np.frombuffer(message, "<f8", n, 5 + n))  # of np.float64
        counts = struct.unpack_from("<%dI" % n, message, 5 + 9 * n)
        rows, at = np.frombuffer(message, "<f8", offset=5 + 13 * n).reshape(-1, 4), 0
        steer, errors, exact = [0.0] * n, [], (float, np.float64)
        before = stream()  # of a seed that no controller could set again unnoticed
        for i, route in enumerate(self.routes):
            if not running[i]:
                continue
            route.extend(step, rows[at : at + counts[i]], self.State)
            at += counts[i]
            try:
                action = route.update(step, current[i], FuturePlan)
                if stream() != before:
                    if watch:
                        watch.note("random", "numpy.random")
                    raise DREW
                if step >= CONTROL_START_IDX:
                    steer[i] = action if type(action) in exact else number(action, np)
            except BaseException as error:
                errors.append((i, error))
                np.random.seed()
                before = stream()
        if watch:
            watch.check()
        return struct.pack("<%dd" % n, *steer) + pack_answer(errors)


def main():
    requests, replies = take_pipes()
    end_with_parent(requests)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)  # says where a controller hangs

    def reply(payload):
        replies.write(struct.pack("<I", len(payload)) + payload)
        replies.flush()

    def ask():
        header = requests.read(4)
        return requests.read(*struct.unpack("<I", header)) if len(header) == 4 else None

    if (source := ask()) is None:
        return
    try:
        if limit := int(sys.argv[2]):
            limit_memory(limit)
        try:
            import numpy as np
        except ImportError as error:
            raise Failed(
                "this Python cannot import numpy (%s): install it there, or set LOCKSTEP_PYTHON to "
                "a Python that has it" % error
            ) from error
        if len(sys.argv) > 3:
            global watch
            module = types.ModuleType("watch")
            exec(compile(sys.argv[3], "watch.py", "exec"), module.__dict__)
            watch = module.Watch(json.loads(sys.argv[4]))
            del sys.argv[3:]
        steering = Steering(*load(sys.argv[1], source), np=np)
    except BaseException as error:
        reply(pack_answer([(0, error)]))
        return
    reply(pack_answer([]))

    while (message := ask()) is not None:
        reply(steering.start(message) if message[:1] == b"S" else steering.update(message))
    if watch:
        watch.end()


main()
