#!/usr/bin/env python3
"""Record golden trajectories from the unmodified upstream tinyphysics program.

The upstream files are imported as they are, after their SHA-256 was checked,
and watched from outside: the session's run, numpy's choice and the simulator's
step are wrapped on the objects, nothing in the program is replaced. Every
recording lies in a folder named after the arithmetic profile, which is found
by asking the installed libraries (probes), never by their version strings.

  generate.py --upstream DIR --model FILE --routes DIR --out DIR
  generate.py --upstream DIR --model FILE --routes DIR --check DIR
  generate.py --probe-only

Exit status: 0 done, 1 a difference or an error, 2 a refusal (this machine,
these packages or these inputs cannot give the recorded bits) or wrong usage.
README.md describes the files.
"""

import argparse
import contextlib
import fnmatch
import hashlib
import importlib
import io
import json
import math
import os
import platform
import shutil
import signal
import struct
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

import numpy as np

FORMAT = 1

UPSTREAM_REPOSITORY = "commaai/controls_challenge"
UPSTREAM_COMMIT = "be8edfa849acdccfa2cb0092151ab28590d63c03"
UPSTREAM_SHA256 = {
    "controllers/__init__.py": "4c93ee5768730bf08dc61910d28512d6e72f0e097bc0b5f54721ec42aacdb99d",
    "controllers/pid.py": "d022c1945853753188d2176066c4a06ba8884ab238c75d878427a347eef92ff2",
    "controllers/zero.py": "65ef9e7f7b044a6ce2a99610228545b5200feacfcad42aa2af14af20b5229eb8",
    "tinyphysics.py": "2a0619147833384c9f21d32aa6a05b79025b37d1051b67efaaf399714f080202",
}
MODEL_SHA256 = "5beca7f07a3e9b183b4aa0402c780ddbc985416fe50ca788017b09705b4d0705"

# name of the recording -> (upstream controller, gains to set or None)
CONTROLLERS = {
    "zero": ("zero", None),
    "pid": ("pid", None),
    "pid_0.3_0.05_-0.1": ("pid", {"p": 0.3, "i": 0.05, "d": -0.1}),
    "pid_3_0_0": ("pid", {"p": 3.0, "i": 0.0, "d": 0.0}),  # its commands reach both bounds
    "pid_-3_0_0": ("pid", {"p": -3.0, "i": 0.0, "d": 0.0}),  # and drive out of the bins
}
WITHOUT_ONLY = ("zero", "pid", "pid_0.3_0.05_-0.1")  # what is recorded where --only is not given

FIRST_STEP = 20  # the program's first step index
CONTROL_START = 100  # the first step that the controller steers
EVEN_FULL_STEPS = 24  # at least so many steps keep all logits and probabilities
MARKED_STEPS = (20, 99, 100, 101, 499, 500)
COSTS = ("lataccel_cost", "jerk_cost", "total_cost")
ROUTE_COLUMNS = ("roll_lataccel", "v_ego", "a_ego", "target_lataccel", "steer_command")
CPU_FLAGS = ("sse4_1", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512dq",
             "avx512bw", "avx512vl", "avx512_vnni", "amx_tile")  # fmt: skip
CPU_SWITCHES = ("GLIBC_TUNABLES", "NPY_DISABLE_CPU_FEATURES")  # environment that hides CPU features


class Failed(Exception):
    """One line for the user; `status` is the process's exit status."""

    def __init__(self, message, status=1):
        super().__init__(message)
        self.status = status


def refuse(message):
    raise Failed(message, status=2)


# --- small shared tools -----------------------------------------------------


def sha256_file(path):
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise Failed(f"{path}: cannot be read ({error.strerror}): give an existing file") from error


def hash64(array):
    """First 8 bytes of the SHA-256 of the little-endian C-order bytes, as a big-endian number."""
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return int.from_bytes(hashlib.sha256(array.tobytes()).digest()[:8], "big")


def npz_bytes(arrays):
    """The bytes of an .npz with fixed time stamps: equal arrays give equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(
                member, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False
            )
            info = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = 0o644 << 16
            archive.writestr(info, member.getvalue())
    return buffer.getvalue()


def json_text(value):
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def bits_of(array):
    """The array's bit patterns as unsigned integers of the same width."""
    array = np.ascontiguousarray(array)
    return array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "f" else array


def write_whole(path, data):
    """Write to a temporary name beside `path`, then rename: no partial file remains."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


# --- float32 models of the two network probes -------------------------------
# The order of the operations is ONNX Runtime's: mean and variance of a row of
# 128 as three generations of versions take them, and a softmax over 20 as CPUs
# with and without AVX-512 take it. README.md lists which version has which.

F32 = np.float32


def fma32(a, b, c):
    """float32 a*b+c with one rounding, from float64 operations rounded to odd."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)  # exact
    c = np.asarray(c, np.float64)
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    even = (np.atleast_1d(total).view(np.int64).reshape(total.shape) & 1) == 0
    step = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even, np.nextafter(total, step), total)
    return odd.astype(np.float32)


def layer_norm_double_mean(x, weight, bias, epsilon):
    """Four double lanes for the mean, eight fma lanes for the variance (AVX2)."""
    d = [0.0] * 4
    for i, value in enumerate(x):
        d[i % 4] += float(value)
    mean = F32(((d[0] + d[2]) + (d[1] + d[3])) / len(x))
    a = np.zeros(8, np.float32)
    for i in range(0, len(x), 8):
        t = x[i : i + 8] - mean
        a = fma32(t, t, a)
    r = a[:4] + a[4:]
    variance = ((r[0] + r[2]) + (r[1] + r[3])) / F32(len(x)) + epsilon
    inverse = F32(1) / np.sqrt(variance)
    return fma32((x - mean) * inverse, weight, bias)


def layer_norm_sequential(x, weight, bias, epsilon):
    """One chain for the sum and one for the sum of squares, no fma."""
    total, squares = F32(0), F32(0)
    for value in x:
        total = total + value
        squares = squares + value * value
    mean = total / F32(len(x))
    variance = (squares / F32(len(x)) - mean * mean) + epsilon
    return (x - mean) / np.sqrt(variance) * weight + bias


def layer_norm_running(x, weight, bias, epsilon):
    """Welford's recurrence, one number at a time, no fma."""
    mean, squares = F32(0), F32(0)
    for i, value in enumerate(x):
        t = value - mean
        mean = mean + t / F32(i + 1)
        squares = squares + t * (value - mean)
    variance = squares / F32(len(x)) + epsilon
    return (x - mean) / np.sqrt(variance) * weight + bias


def layer_norm_running_fused(x, weight, bias, epsilon):
    """Welford's recurrence as a compiler leaves it that contracts products and sums (arm64)."""
    mean, squares = F32(0), F32(0)
    for i, value in enumerate(x):
        t = value - mean
        mean = mean + t / F32(i + 1)
        squares = F32(fma32(t, value - mean, squares))
    variance = squares / F32(len(x)) + epsilon
    return fma32((x - mean) / np.sqrt(variance), weight, bias)


def softmax_exp(x, width):
    """ONNX Runtime's float32 exp for x <= 0 as its softmax kernel of `width` lanes does it."""
    low = float.fromhex("-0x1.9fe36ap+6" if width == 16 else "-0x1.61814ap+6")
    x = np.maximum(x, F32(low))
    shift = F32(float.fromhex("0x1.8p+23"))
    m = fma32(F32(float.fromhex("0x1.715476p+0")), x, shift) - shift
    x = fma32(m, F32(float.fromhex("-0x1.62e4p-1")), x)
    x = fma32(m, F32(float.fromhex("-0x1.7f7d1cp-20")), x)
    p = F32(float.fromhex("0x1.694p-10"))
    for c in ("0x1.125edcp-7", "0x1.555b5ap-5", "0x1.55545p-3", "0x1.fffff6p-2", "0x1p0", "0x1p0"):
        p = fma32(p, x, F32(float.fromhex(c)))
    if width < 16:  # the power of two is built from exponent bits: none below 2^-126
        return np.where(m < -126, F32(0), p * np.exp2(np.maximum(m, -126)).astype(np.float32))
    return np.ldexp(p.astype(np.float64), m.astype(np.int64)).astype(np.float32)


def softmax_lanes(x, width):
    """Softmax whose sum runs in `width` lanes, folded 16 -> 8 and then by pairs."""
    e = softmax_exp(x + (-x.max()), width)
    lane = np.zeros(width, np.float32)
    for j, value in enumerate(e):
        lane[j % width] += value
    b = lane[:8] + lane[8:] if width == 16 else lane
    while len(b) > 1:
        b = b[0::2] + b[1::2]
    return e * (F32(1) / b[0])


# --- probes -------------------------------------------------------------------


def probe_row(n, salt):
    """n exact float32 between 0 and 4 with 22 fraction bits, from a multiplicative hash."""
    return np.array([(i + salt) * 2654435761 % 2**24 / 2**22 for i in range(n)], np.float32)


NORM_X = probe_row(128, 1)
NORM_WEIGHT = probe_row(128, 201)
NORM_BIAS = probe_row(128, 401)
NORM_EPSILON = F32(float.fromhex("0x1.4f8b58p-17"))
SOFTMAX_X = probe_row(20, 13)  # here the 8-lane and the 16-lane sum differ
SOFTMAX_X[19] -= 90  # the 16-lane kernel keeps the subnormal, the 8-lane kernel gives 0
SOFTMAX_PAIRS_X = probe_row(20, 14)  # on the first row four lanes have the sum of eight


def _varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _field(number, value):
    """One protobuf field: int -> varint, float -> 32 bits, text or bytes -> length-delimited."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def one_node_model(op, opset, attributes, n, initializers):
    """The ONNX bytes of y[1,n] = op(x[1,n], initializers...), written without the onnx package."""
    shape = b"".join(_field(1, _field(1, dim)) for dim in (1, n))
    tensor_type = _field(1, _field(1, 1) + _field(2, shape))
    node = _field(1, "x") + b"".join(_field(1, name) for name in initializers) + _field(2, "y")
    node += _field(4, op)
    for name, value in attributes.items():
        kind, number = (1, 2) if isinstance(value, float) else (2, 3)
        value = value if isinstance(value, float) else value % 2**64
        node += _field(5, _field(1, name) + _field(number, value) + _field(20, kind))
    graph = _field(1, node) + _field(2, "probe")
    for name, array in initializers.items():
        graph += _field(
            5,
            _field(1, len(array))
            + _field(2, 1)
            + _field(8, name)
            + _field(9, array.astype("<f4").tobytes()),
        )
    graph += _field(11, _field(1, "x") + _field(2, tensor_type))
    graph += _field(12, _field(1, "y") + _field(2, tensor_type))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, "") + _field(2, opset))


NORM_MODEL = one_node_model(
    "LayerNormalization",
    17,
    {"axis": -1, "epsilon": float(NORM_EPSILON)},
    128,
    {"weight": NORM_WEIGHT, "bias": NORM_BIAS},
)
SOFTMAX_MODEL = one_node_model("Softmax", 13, {"axis": -1}, 20, {})


def run_one_node(model, row):
    """Ask the installed ONNX Runtime, with the session options of the upstream program."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return session.run(None, {"x": row[None]})[0][0]


def row_answer(row):
    """A row as an answer: the hash of all its bits, and the bits of its first number."""
    row = np.asarray(row, np.float32)
    return f"{hash64(row):016x} {int(row.view(np.uint32)[0]):08x}"


def both(softmax):
    """A softmax's answer to the two rows of its probe."""
    return row_answer(np.concatenate([softmax(SOFTMAX_X), softmax(SOFTMAX_PAIRS_X)]))


def probe_exp():
    return (
        f"{int(np.exp(np.array([0xBF851592], np.uint32).view(np.float32)).view(np.uint32)[0]):08x}"
    )


def probe_sin():
    return float(np.sin(np.array([0.251296]))[0]).hex()


def probe_math_exp():
    return math.exp(2.726979).hex()


def probe_csv():
    import pandas

    return float(pandas.read_csv(io.StringIO("x\n31.452678722615314\n"))["x"][0]).hex()


def probe_layer_norm():
    return row_answer(run_one_node(NORM_MODEL, NORM_X))


def probe_softmax():
    return both(lambda x: run_one_node(SOFTMAX_MODEL, x))


def known_answers():
    """probe -> answer -> its name in the profile."""
    norm = (NORM_X, NORM_WEIGHT, NORM_BIAS, NORM_EPSILON)
    return {
        "layer_norm": {
            row_answer(layer_norm_double_mean(*norm)): "ort1.30",
            row_answer(layer_norm_running(*norm)): "ort1.27",
            row_answer(layer_norm_running_fused(*norm)): "ort1.30arm",
            row_answer(layer_norm_sequential(*norm)): "ort1.23",
        },
        "softmax": {
            both(lambda x: softmax_lanes(x, 16)): "avx512",
            both(lambda x: softmax_lanes(x, 8)): "avx2",
            both(lambda x: softmax_lanes(x, 4)): "neon",
        },
        "exp32": {"3eb504f4": "expU", "3eb504f2": "expF", "3eb504f3": "expC"},
        "sin": {
            "0x1.fd412bfc5368bp-3": "sinfma",
            "0x1.fd412bfc5368cp-3": "sinnofma",
            "0x1.fd412bfc5368dp-3": "sinsvml",
        },
        "csv": {
            "0x1.f73e2c0b53a54p+4": "csv2",
            "0x1.f73e2c0b53a52p+4": "csvfma",
            "0x1.f73e2c0b53a53p+4": "csvexact",
        },
        "math_exp": {"0x1.e92c1fd116c7fp+3": "fma", "0x1.e92c1fd116c80p+3": "nofma"},
    }  # fmt: skip


PROBES = {
    "layer_norm": ("LayerNormalization of one row of 128", probe_layer_norm),
    "softmax": ("Softmax of two rows of 20", probe_softmax),
    "exp32": ("np.exp(float32 bits bf851592)", probe_exp),
    "sin": ("np.sin(np.array([0.251296]))", probe_sin),
    "csv": ("pandas.read_csv of 31.452678722615314", probe_csv),
    "math_exp": ("math.exp(2.726979)", probe_math_exp),
}  # fmt: skip
PROFILE_PROBES = ("layer_norm", "softmax", "exp32", "sin", "csv")


def fingerprint():
    """Ask every probe; one that fails does not hide the others."""
    known = known_answers()
    result = {}
    for name, (question, ask) in PROBES.items():
        entry = {"question": question, "known": {v: k for k, v in known[name].items()}}
        try:
            entry["answer"] = ask()
            entry["name"] = known[name].get(entry["answer"])
        except Exception as error:  # a missing package, or one that cannot run
            entry["answer"] = entry["name"] = None
            words = [type(error).__name__, *str(error).split()]
            entry["error"] = " ".join(words)[:150]
        result[name] = entry
    return result


def profile_name(probes):
    for name, entry in probes.items():
        if entry["answer"] is None:
            refuse(
                f"probe {name} ({entry['question']}) cannot run: {entry['error']}: install "
                "requirements.txt"
            )
        if entry["name"] is None:
            refuse(
                f"probe {name} ({entry['question']}) answered {entry['answer']}, none of "
                f"{sorted(entry['known'].values())}: this arithmetic is not a known profile"
            )
    return "-".join(probes[name]["name"] for name in PROFILE_PROBES)


# --- provenance ------------------------------------------------------------


def package_version(name):
    try:
        return importlib.import_module(name).__version__
    except Exception:
        return None


def machine():
    """What the bits can depend on besides the probes; nothing that names the machine."""
    cpu = {"model": platform.machine(), "flags": {}}
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        info = dict((part.strip() for part in line.split(":", 1)) for line in lines if ":" in line)
        present = info.get("flags", info.get("Features", "")).split()
        cpu = {
            "model": info.get("model name", platform.machine()),
            "vendor": info.get("vendor_id"),
            "family": info.get("cpu family"),
            "model_number": info.get("model"),
            "flags": {flag: flag in present for flag in CPU_FLAGS},
        }
    except OSError:
        pass
    return {
        "cpu": cpu,
        "cpu_switches": {name: os.environ[name] for name in CPU_SWITCHES if os.environ.get(name)},
        "glibc": " ".join(platform.libc_ver()),
        "platform": sysconfig.get_platform(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in ("numpy", "onnxruntime", "pandas")},
    }  # fmt: skip


def upstream_provenance():
    return {
        "repository": UPSTREAM_REPOSITORY,
        "commit": UPSTREAM_COMMIT,
        "sha256": dict(UPSTREAM_SHA256),
    }


# --- the upstream program ----------------------------------------------------


def check_upstream(folder):
    for name, expected in UPSTREAM_SHA256.items():
        path = Path(folder) / name
        if not path.is_file():
            refuse(
                f"{path}: missing: --upstream must hold {UPSTREAM_REPOSITORY} at commit "
                f"{UPSTREAM_COMMIT}"
            )
        if sha256_file(path) != expected:
            refuse(
                f"{path}: not the file of {UPSTREAM_REPOSITORY} at commit {UPSTREAM_COMMIT} "
                "(SHA-256 differs): check that commit out unmodified"
            )


def load_upstream(folder):
    """Import the checked program; plots stay off the screen, no byte code is left behind.

    The program makes an interrupt end the process at once; that is undone, so
    that an interrupted recording still removes its temporary files.
    """
    check_upstream(folder)
    os.environ["MPLBACKEND"] = "Agg"
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(Path(folder).resolve()))
    try:
        program = importlib.import_module("tinyphysics")
    except ImportError as error:
        raise Failed(
            f"upstream program cannot be imported ({error}): install requirements.txt"
        ) from error
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return program


@contextlib.contextmanager
def routes_as_data(routes):
    """A temporary working directory in which `data` is the routes folder.

    The program seeds its random numbers from the path it is given, so every
    recording must be made with the path `data/<route>.csv`.
    """
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(Path(routes).resolve(), Path(folder) / "data")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


class RecordingSession:
    """Stands before the program's session and keeps what goes in and comes out."""

    def __init__(self, session, recorder):
        self.session = session
        self.recorder = recorder

    def run(self, names, inputs):
        outputs = self.session.run(names, inputs)
        self.recorder.network(inputs["tokens"], inputs["states"], outputs[0])
        return outputs


class Recorder:
    """Collects one rollout step by step."""

    def __init__(self, full_steps):
        self.full_steps = set(full_steps)
        self.step_index = FIRST_STEP
        self.rows = {name: [] for name in (
            "tokens", "states", "logits_hash", "probs_hash", "cdf_hash", "logits", "probs",
            "draw", "sample", "prediction", "lataccel", "action")}  # fmt: skip

    def keep(self, **values):
        for name, value in values.items():
            self.rows[name].append(value)

    def network(self, tokens, states, logits):
        if (tokens.dtype, tokens.shape) != (np.int64, (1, 20)):
            raise Failed(f"tokens are {tokens.dtype}{tokens.shape}, not int64(1, 20)")
        if (states.dtype, states.shape) != (np.float32, (1, 20, 4)):
            raise Failed(f"states are {states.dtype}{states.shape}, not float32(1, 20, 4)")
        if (logits.dtype, logits.shape) != (np.float32, (1, 20, 1024)):
            raise Failed(f"logits are {logits.dtype}{logits.shape}, not float32(1, 20, 1024)")
        last = logits[0, -1].copy()
        self.keep(tokens=tokens[0].copy(), states=states[0].copy(), logits_hash=hash64(last))
        if self.step_index in self.full_steps:
            self.keep(logits=last)

    def choose(self, choice, count, p):
        """Call numpy's choice, and find the uniform it consumes from a copy of the generator."""
        if p.dtype != np.float32 or p.shape != (1024,):
            raise Failed(f"probabilities are {p.dtype}{p.shape}, not float32(1024,)")
        copy = np.random.RandomState()
        copy.set_state(np.random.get_state())
        draw = copy.random_sample()
        sample = choice(count, p=p)
        cdf = p.astype(np.float64).cumsum()
        cdf /= cdf[-1]
        found = int(np.searchsorted(cdf, draw, side="right"))
        if found != sample or copy.random_sample() != self.peek():
            raise Failed(
                f"step {self.step_index}: np.random.choice returned {sample}, the CDF says "
                f"{found}: this numpy samples in another way"
            )
        self.keep(probs_hash=hash64(p), cdf_hash=hash64(cdf), draw=draw, sample=int(sample))
        if self.step_index in self.full_steps:
            self.keep(probs=p.copy())
        return sample

    @staticmethod
    def peek():
        """The next uniform of numpy's global generator, without consuming it."""
        copy = np.random.RandomState()
        copy.set_state(np.random.get_state())
        return copy.random_sample()

    def arrays(self, dtypes):
        return {name: np.array(self.rows[name], dtype) for name, dtype in dtypes.items()}


def full_steps_of(rows):
    """The steps that keep all 1024 logits and probabilities: spread evenly, and the marked ones."""
    even = np.linspace(FIRST_STEP, rows - 1, EVEN_FULL_STEPS).round().astype(int).tolist()
    return sorted({step for step in (*even, *MARKED_STEPS) if FIRST_STEP <= step < rows})


def make_controller(name):
    module, gains = CONTROLLERS[name]
    controller = importlib.import_module(f"controllers.{module}").Controller()
    for attribute, value in (gains or {}).items():
        setattr(controller, attribute, value)
    return controller


def record(program, model, route, controller_name):
    """Run one rollout of the upstream program; return its arrays and its provenance entry."""
    path = f"data/{route}.csv"
    controller = make_controller(controller_name)
    simulator = program.TinyPhysicsSimulator(model, path, controller=controller)
    rows = len(simulator.data)
    if rows <= FIRST_STEP:
        raise Failed(f"{path}: {rows} rows, at least {FIRST_STEP + 1} are needed")
    full_steps = full_steps_of(rows)
    recorder = Recorder(full_steps)

    plain_session = model.ort_session
    plain_predict = model.get_current_lataccel
    plain_choice = np.random.choice
    plain_step = simulator.step

    def predict(*args, **kwargs):
        prediction = plain_predict(*args, **kwargs)
        recorder.keep(prediction=prediction)
        return prediction

    def step():
        recorder.step_index = simulator.step_idx
        plain_step()
        recorder.keep(lataccel=simulator.current_lataccel, action=simulator.action_history[-1])

    model.ort_session = RecordingSession(plain_session, recorder)
    model.get_current_lataccel = predict
    np.random.choice = lambda count, p: recorder.choose(plain_choice, count, p)
    simulator.step = step
    try:
        costs = simulator.rollout()
    finally:
        model.ort_session = plain_session
        del model.get_current_lataccel
        np.random.choice = plain_choice

    columns = {name: np.asarray(simulator.data[name].values, np.float64) for name in ROUTE_COLUMNS}
    columns["steer_command"] = columns["steer_command"][:CONTROL_START]
    arrays = recorder.arrays(
        {
            "tokens": np.int64,
            "states": np.float32,
            "logits_hash": np.uint64,
            "probs_hash": np.uint64,
            "cdf_hash": np.uint64,
        }
    )
    arrays["full_steps"] = np.array(full_steps, np.int64)
    arrays.update(recorder.arrays({
        "logits": np.float32, "probs": np.float32, "draw": np.float64, "sample": np.int64,
        "prediction": np.float64, "lataccel": np.float64, "action": np.float64,
    }))  # fmt: skip
    arrays["costs"] = np.array([costs[name] for name in COSTS], np.float64)
    arrays["route_hash"] = np.array([hash64(columns[name]) for name in ROUTE_COLUMNS], np.uint64)
    check_shapes(arrays, rows - FIRST_STEP, len(full_steps), path)

    named = {"format": np.array([FORMAT], np.int64)}
    named.update({f"{route}/{name}": array for name, array in arrays.items()})
    seed = int(hashlib.md5(path.encode()).hexdigest(), 16) % 10**4
    gains = {k: getattr(controller, k) for k in ("p", "i", "d") if hasattr(controller, k)}
    entry = {
        "controller": CONTROLLERS[controller_name][0],
        "costs": {name: {"hex": float(costs[name]).hex(), "repr": repr(float(costs[name]))}
                  for name in COSTS},
        "file": f"{route}.{controller_name}.npz",
        "gains": gains or None,
        "recording": controller_name,
        "route": route,
        "route_sha256": sha256_file(path),
        "rows": rows,
        "seed": seed,
        "seed_string": path,
    }  # fmt: skip
    return named, entry


def check_shapes(arrays, steps, full, path):
    shapes = {"tokens": (steps, 20), "states": (steps, 20, 4), "logits": (full, 1024),
              "probs": (full, 1024), "full_steps": (full,), "costs": (3,),
              "route_hash": (5,)}  # fmt: skip
    for name, array in arrays.items():
        if array.shape != shapes.get(name, (steps,)):
            raise Failed(
                f"{path}: {name} has shape {array.shape}, expected "
                f"{shapes.get(name, (steps,))}: the wrapped program behaved unexpectedly"
            )


def record_all(options, wanted, folder, profile, probes):
    """Record the wanted (route, controller name) pairs into `folder`."""
    program = load_upstream(options.upstream)
    model_path = str(Path(options.model).resolve())
    folder = Path(folder).resolve()
    entries = []
    with routes_as_data(options.routes):
        try:
            model = program.TinyPhysicsModel(model_path, debug=False)
        except Exception as error:
            raise Failed(
                f"{options.model}: the upstream program cannot load it ({type(error).__name__}): "
                "give tinyphysics.onnx"
            ) from error
        for route, controller_name in wanted:
            try:
                named, entry = record(program, model, route, controller_name)
            except Failed:
                raise
            except Exception as error:
                raise Failed(
                    f"{route}.csv: the upstream program failed on it "
                    f"({type(error).__name__}: {error}): check the route and the model"
                ) from error
            data = npz_bytes(named)
            entry["npz_sha256"] = hashlib.sha256(data).hexdigest()
            write_whole(folder / entry["file"], data)
            entries.append(entry)
            print(
                f"{entry['file']}: {entry['rows']} rows, {len(data)} bytes, "
                f"total_cost {entry['costs']['total_cost']['repr']}",
                flush=True,
            )
    provenance = {
        "fingerprint": {name: {k: entry[k] for k in ("question", "answer", "name")}
                        for name, entry in probes.items()},
        "format": FORMAT,
        "machine": machine() | ({"emulator": options.emulator} if options.emulator else {}),
        "model_sha256": sha256_file(model_path),
        "profile": profile,
        "recordings": entries,
        "upstream": upstream_provenance(),
    }  # fmt: skip
    write_whole(folder / "provenance.json", json_text(provenance).encode())
    return provenance


# --- commands ------------------------------------------------------------------


def check_model(options):
    if sha256_file(options.model) != MODEL_SHA256 and not options.other_model:
        refuse(
            f"{options.model}: SHA-256 is not {MODEL_SHA256} of the official model: "
            "give that file, or --other-model to record a different one on purpose"
        )


def wanted_recordings(options):
    routes = sorted(path.stem for path in Path(options.routes).glob("*.csv"))
    if not routes:
        raise Failed(f"{options.routes}: no *.csv files: give the folder of routes")
    if not options.only:
        return [(route, name) for route in routes for name in WITHOUT_ONLY]
    wanted = []
    for pattern in options.only:
        matches = [
            (route, name)
            for route in routes
            for name in CONTROLLERS
            if fnmatch.fnmatchcase(f"{route}/{name}", pattern)
        ]
        if not matches:
            raise Failed(
                f"--only {pattern}: no such recording: routes are {', '.join(routes)}, "
                f"controllers {', '.join(CONTROLLERS)}"
            )
        wanted += [match for match in matches if match not in wanted]
    return wanted


def replace_folder(new, final):
    """Put the finished folder in place; the old one goes away only after the new one is whole."""
    if final.exists():
        old = Path(tempfile.mkdtemp(prefix=".old-", dir=final.parent))
        os.rename(final, old / "folder")
        os.rename(new, final)
        shutil.rmtree(old)
    else:
        os.rename(new, final)


def command_generate(options):
    check_upstream(options.upstream)
    check_model(options)
    wanted = wanted_recordings(options)
    probes = fingerprint()
    profile = profile_name(probes)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=".tmp-", dir=out))
    try:
        record_all(options, wanted, temporary, profile, probes)
        os.chmod(temporary, 0o755)
        replace_folder(temporary, out / profile)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    print(f"{out / profile}: {len(wanted)} recordings")


def with_bits(value):
    """A number for a message: its value and, of a float, its bits."""
    value = np.asarray(value)
    if value.dtype.kind != "f":
        return repr(value.item())
    return f"{value.item()!r} ({int(bits_of(value).item()):0{2 * value.dtype.itemsize}x})"


def first_difference(old, new):
    """None, or words naming the first key and index at which two sets of arrays differ."""
    for name in sorted(set(old) | set(new)):
        if name not in old or name not in new:
            return f"{name}: only in the {'regenerated' if name in new else 'committed'} file"
        a, b = old[name], new[name]
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{name}: committed {a.dtype}{a.shape}, regenerated {b.dtype}{b.shape}"
        different = np.argwhere(bits_of(a) != bits_of(b))
        if len(different):
            at = tuple(different[0].tolist())
            return (
                f"{name}{list(at)}: committed {with_bits(a[at])}, regenerated {with_bits(b[at])} "
                f"({len(different)} of {a.size} differ)"
            )
    return None


def load_npz(path):
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as error:
        raise Failed(f"{path}: not a readable .npz ({type(error).__name__}): restore it") from error


def check_comparable(committed, options, where):
    """Refuse where a comparison could only show that the surroundings differ."""
    here = machine()["packages"]
    recorded = committed["machine"]["packages"]
    for name in recorded:
        if here.get(name) != recorded[name] and not options.other_packages:
            refuse(
                f"{where}: recorded with {name} {recorded[name]}, here is {here.get(name)}: "
                "install the recorded version"
            )
    if committed["upstream"] != upstream_provenance():
        refuse(f"{where}: recorded from another upstream commit: regenerate with --out")
    if committed["model_sha256"] != sha256_file(options.model):
        refuse(f"{options.model}: not the model of {where} (SHA-256 {committed['model_sha256']})")
    for entry in committed["recordings"]:
        path = Path(options.routes) / f"{entry['route']}.csv"
        if not path.is_file():
            refuse(f"{path}: missing, but {where} records it")
        if sha256_file(path) != entry["route_sha256"]:
            refuse(f"{path}: not the route of {where} (SHA-256 {entry['route_sha256']})")


def command_check(options):
    check_upstream(options.upstream)
    probes = fingerprint()
    profile = profile_name(probes)
    folder = Path(options.check) / profile
    where = folder / "provenance.json"
    if not where.is_file():
        there = sorted(p.parent.name for p in Path(options.check).glob("*/provenance.json"))
        refuse(
            f"{options.check}: no recordings of this machine's profile {profile} "
            f"(there are: {', '.join(there) or 'none'})"
        )
    try:
        committed = json.loads(where.read_text())
        wanted = [(entry["route"], entry["recording"]) for entry in committed["recordings"]]
        check_comparable(committed, options, where)
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(
            f"{where}: not a provenance file ({type(error).__name__}): restore it"
        ) from error

    stray = {path.name for path in folder.glob("*.npz")} - {f"{r}.{c}.npz" for r, c in wanted}
    if stray:
        raise Failed(f"{folder / min(stray)}: not listed in {where}")
    with tempfile.TemporaryDirectory() as temporary:
        regenerated = record_all(options, wanted, Path(temporary), profile, probes)
        for old, new in zip(committed["recordings"], regenerated["recordings"]):
            path = folder / old["file"]
            difference = first_difference(load_npz(path), load_npz(Path(temporary) / new["file"]))
            if difference:
                raise Failed(f"{path}: {difference}")
            if sha256_file(path) != old["npz_sha256"]:
                raise Failed(f"{path}: arrays are equal, but its SHA-256 is not the one in {where}")
            for key in old:
                if key != "npz_sha256" and old[key] != new.get(key):
                    raise Failed(
                        f"{where}: {old['file']}: {key}: committed {old[key]!r}, regenerated "
                        f"{new.get(key)!r}"
                    )
    print(f"{folder}: {len(wanted)} recordings equal in every bit")


def command_probe():
    probes = fingerprint()
    try:
        profile, status = profile_name(probes), 0
    except Failed as error:
        profile, status = f"none: {error}", error.status
    print(json_text({"fingerprint": probes, "machine": machine(), "profile": profile}), end="")
    return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--upstream", metavar="DIR", help=f"{UPSTREAM_REPOSITORY} at commit {UPSTREAM_COMMIT}"
    )
    parser.add_argument("--model", metavar="FILE", help="tinyphysics.onnx")
    parser.add_argument("--routes", metavar="DIR", help="folder of <route>.csv files")
    parser.add_argument("--out", metavar="DIR", help="write <DIR>/<profile>/, replacing it")
    parser.add_argument(
        "--check", metavar="DIR", help="regenerate and compare with <DIR>/<profile>/"
    )
    parser.add_argument("--probe-only", action="store_true", help="print the fingerprint and stop")
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="ROUTE/CONTROLLER",
        help="record these alone, such as '00000/pid' or '*/pid_3_0_0'",
    )
    parser.add_argument(
        "--emulator", metavar="TEXT", help="what emulates this CPU, to be kept in provenance.json"
    )
    parser.add_argument(
        "--other-packages",
        action="store_true",
        help="check under other versions than the recorded ones on purpose",
    )
    parser.add_argument(
        "--other-model",
        action="store_true",
        help="record with a model that is not the official one",
    )
    options = parser.parse_args()
    if options.probe_only:
        return command_probe()
    if not (options.upstream and options.model and options.routes):
        parser.error("--upstream, --model and --routes are needed")
    if bool(options.out) == bool(options.check):
        parser.error("give either --out or --check")
    command_check(options) if options.check else command_generate(options)
    return 0


def run(main):
    """Run a command line; every failure is one line on standard error."""
    program = Path(sys.argv[0]).name
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # clean up when terminated, too
    try:
        sys.exit(main())
    except Failed as failure:
        line, status = str(failure), failure.status
    except OSError as error:
        line, status = f"{error.filename}: {error.strerror}", 1
    except KeyboardInterrupt:
        line, status = "interrupted, nothing was written", 130
    print(f"{program}: {line}", file=sys.stderr)
    sys.exit(status)


if __name__ == "__main__":
    run(main)
