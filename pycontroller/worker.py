"""Steers routes with a controller of the challenge. Package pycontroller runs it.

  python -u -X faulthandler -c <this text> path/to/controllers/foo.py BYTES

BYTES is how much memory it may have, 0 for as much as there is.

Messages come on standard input and are answered on standard output. Numbers are
little-endian; a message begins with the number of bytes that follow, a uint32.

  S  start: uint32 route and float64 (4, rows): target lataccel, roll lataccel,
     v ego, a ego. Makes the route's controller. Routes come in order; the first,
     0, makes the ones of before forgotten.
  U  update: uint32 step, uint8 running (routes), float64 current lataccel (routes).

The answer to U begins with float64 steer (routes). Both end with what failed:
uint32 count; for each uint32 route, and two texts, the error in one line and
Python's traceback, each uint32 length and UTF-8. One such answer comes unasked,
when the controller's file has been loaded.
"""

import sys

sys.path[:] = [p for p in sys.path if p]  # not the working folder: its files may bear the names of modules

import collections
import ctypes
import faulthandler
import importlib
import importlib.util
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


def load(file):
    """Imports a controller as the program does, and returns what Steering is made of.

    The program runs in the folder that holds the package `controllers`. A file
    that is in no package becomes part of one.
    """
    folder, name = os.path.split(file)
    stem = name[: -len(".py")]
    in_package = os.path.exists(os.path.join(folder, "__init__.py"))
    in_checkout = in_package or os.path.basename(folder) == "controllers"
    root = os.path.dirname(folder) if in_checkout else folder
    package = os.path.basename(folder) if in_package else "controllers"
    sys.path.insert(0, root)
    os.chdir(root)

    if not in_package:
        stand_in("controllers", BaseController=BaseController).__path__ = [folder]
    elif importlib.util.find_spec("controllers") is None:
        stand_in("controllers", BaseController=BaseController)
    State = collections.namedtuple("State", ["roll_lataccel", "v_ego", "a_ego"])
    FuturePlan = collections.namedtuple("FuturePlan", ["lataccel", "roll_lataccel", "v_ego", "a_ego"])
    State.__module__ = FuturePlan.__module__ = "tinyphysics"
    if importlib.util.find_spec("tinyphysics") is None:
        stand_in(
            "tinyphysics",
            State=State,
            FuturePlan=FuturePlan,
            BaseController=BaseController,
            ACC_G=9.81,
            FPS=10,
            CONTROL_START_IDX=CONTROL_START_IDX,
            COST_END_IDX=500,
            CONTEXT_LENGTH=20,
            VOCAB_SIZE=1024,
            LATACCEL_RANGE=[-5, 5],
            STEER_RANGE=[-2, 2],
            MAX_ACC_DELTA=0.5,
            DEL_T=0.1,
            LAT_ACCEL_COST_MULTIPLIER=50.0,
            FUTURE_PLAN_STEPS=FUTURE_PLAN_STEPS,
        )

    before = random.getstate()
    module = importlib.import_module(package + "." + stem)
    seeded = random.getstate() if random.getstate() != before else None
    if not os.path.samefile(module.__file__, file):
        raise Failed("Python imports %s in its place" % module.__file__)
    if not callable(getattr(module, "Controller", None)):
        raise Failed("no class Controller in it")
    program = sys.modules.get("tinyphysics")  # the checkout's, if the controller imports it
    return module.Controller, seeded, getattr(program, "State", State), getattr(program, "FuturePlan", FuturePlan)


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
        frames.tb_frame.f_globals is globals() or frames.tb_frame.f_globals.get("__name__", "").startswith("importlib")
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
        parts.append(struct.pack("<I", route))
        for text in describe(error):
            data = text.encode("utf-8", "backslashreplace")
            parts.append(struct.pack("<I", len(data)) + data)
    return b"".join(parts)


# --- steering ----------------------------------------------------------------


class Route:
    """One route's controller, and its columns with the types that the program gives them."""

    def __init__(self, columns, State):
        self.target = list(columns[0])  # of np.float64
        self.states = [State(*row) for row in zip(*map(list, columns[1:]))]
        self.plan = columns.tolist()  # lists of float
        self.random = None  # the random module's state for this route, if the controller seeds it

    def make(self, Controller, seeded):
        """Makes the controller; seeded is the random module's state if the file's import seeded it."""
        random.setstate(seeded) if seeded else random.seed()
        before = random.getstate()
        self.controller = Controller()
        if seeded or random.getstate() != before:
            self.random = random.getstate()

    def update(self, step, current, FuturePlan):
        target, roll, v, a = self.plan
        i, j = step + 1, step + FUTURE_PLAN_STEPS
        plan = FuturePlan(lataccel=target[i:j], roll_lataccel=roll[i:j], v_ego=v[i:j], a_ego=a[i:j])
        if self.random is None:
            return self.controller.update(self.target[step], current, self.states[step], future_plan=plan)
        # Other routes are steered in between, and this one may not notice.
        random.setstate(self.random)
        try:
            return self.controller.update(self.target[step], current, self.states[step], future_plan=plan)
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
            raise Failed("update returned a %s that is no float64: %r" % (type(action).__name__, action))
    except Failed:
        raise
    except Exception:
        pass
    shape = " of shape %s" % (action.shape,) if hasattr(action, "shape") else ""
    raise Failed("update returned a %s%s, not a number: %.100r" % (type(action).__name__, shape, action))


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
        self.Controller, self.seeded, self.State, self.FuturePlan, self.np = Controller, seeded, State, FuturePlan, np
        self.stream = global_stream(np)
        self.routes = []

    def start(self, message):
        number = struct.unpack_from("<I", message, 1)[0]
        columns = self.np.frombuffer(message, "<f8", offset=5).reshape(4, -1)
        del self.routes[number:]
        self.routes.append(Route(columns, self.State))
        errors = []
        try:
            self.routes[number].make(self.Controller, self.seeded)
        except BaseException as error:
            errors.append((number, error))
        self.np.random.seed()  # the program does it here, too, but see update
        return pack_errors(errors)

    def update(self, message):
        np, FuturePlan, stream = self.np, self.FuturePlan, self.stream
        step, n = struct.unpack_from("<I", message, 1)[0], len(self.routes)
        running = message[5 : 5 + n]
        current = list(np.frombuffer(message, "<f8", n, 5 + n))  # of np.float64
        steer, errors, exact = [0.0] * n, [], (float, np.float64)
        before = stream()  # of a seed that no controller could set again unnoticed
        for i, route in enumerate(self.routes):
            if not running[i]:
                continue
            try:
                action = route.update(step, current[i], FuturePlan)
                if stream() != before:
                    raise DREW
                if step >= CONTROL_START_IDX:
                    steer[i] = action if type(action) in exact else number(action, np)
            except BaseException as error:
                errors.append((i, error))
                np.random.seed()
                before = stream()
        return struct.pack("<%dd" % n, *steer) + pack_errors(errors)


def main():
    requests, replies = take_pipes()
    end_with_parent(requests)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, all_threads=False)  # says where a controller hangs

    def reply(payload):
        replies.write(struct.pack("<I", len(payload)) + payload)
        replies.flush()

    try:
        if limit := int(sys.argv[2]):
            limit_memory(limit)
        try:
            import numpy as np
        except ImportError as error:
            raise Failed(
                "this Python cannot import numpy (%s): install it there, or set LOCKSTEP_PYTHON to a Python that has it"
                % error
            ) from error
        steering = Steering(*load(sys.argv[1]), np=np)
    except BaseException as error:
        reply(pack_errors([(0, error)]))
        return
    reply(pack_errors([]))

    while True:
        header = requests.read(4)
        if len(header) < 4:
            return
        message = requests.read(*struct.unpack("<I", header))
        reply(steering.start(message) if message[:1] == b"S" else steering.update(message))


main()
