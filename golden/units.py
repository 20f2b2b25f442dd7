#!/usr/bin/env python3
"""Record tables of single operations as Python computes them.

Each table is a list of inputs and the bits that numpy, pandas, Python or one
method of the unmodified upstream program gives for them. They let a test of
one operation (a parser, a sine, a sum) fail by itself, before a trajectory
does. Inputs come from numpy's frozen RandomState and from exact arithmetic
only, so that every machine makes the same inputs.

  units.py --upstream DIR --out DIR     write DIR/units.npz and DIR/units.json
  units.py --upstream DIR --check DIR   recompute and compare bit for bit

Exit status as in generate.py.
"""

import argparse
import hashlib
import io
import json
from pathlib import Path
from types import SimpleNamespace

import generate
import numpy as np
from generate import Failed, refuse

FORMAT = 1
UNIT_PROBES = ("exp32", "sin", "csv")  # the parts of a profile that these tables depend on

# The 37 float32 in [-104, -0] at which the fused and the unfused exp kernel differ.
EXP_VARIANT_BITS = """
bf851592 c01b43d5 c073fce1 c18d66eb c192f27c c1a3952e c1a920bf c1b437e1 c1b9c371 c1ca6624
c1cff1b4 c1e09467 c1e61ff7 c1f6c2aa c1fc4e3a c2118f98 c2145560 c227bddb c232d4fd c2359ac4
c23dec1e c2490340 c256e029 c25f3183 c26d0e6c c2755fc6 c283013c c28b5295 c28cb579 c290de26
c29506d2 c2992f7f c2a180d8 c2a2e3bc c2a70c69 c2ab3515 c2af5dc2
""".split()


# --- inputs -------------------------------------------------------------------


def random_for(table):
    """A generator of its own per table: changing one table leaves the others' inputs alone."""
    return np.random.RandomState(int.from_bytes(hashlib.sha256(table.encode()).digest()[:4], "big"))


def bell(rng, *shape):
    """Roughly normal numbers by additions alone: the C library's log would differ by machine."""
    total = np.zeros(shape)
    for _ in range(12):
        total = total + rng.random_sample(shape)
    return total - 6.0


def spread(rng, n, low, high):
    """n signed numbers whose binary exponents are spread evenly over low..high."""
    mantissa = (1.0 + rng.random_sample(n)) * rng.choice([-1.0, 1.0], n)
    return np.ldexp(mantissa, rng.randint(low, high + 1, n))


def neighbours(values):
    """The values with the next number on either side."""
    values = np.asarray(values)
    infinity = values.dtype.type(np.inf)
    return np.concatenate([np.nextafter(values, -infinity), values, np.nextafter(values, infinity)])


# --- reading of CSV text ------------------------------------------------------------


def csv_floats(rng):
    """Texts of one float column, at least 12000."""
    unit = rng.random_sample(12000) + 1.0
    texts = []
    # the style of the recorded drives: reprs, 17 digits after the point, trimmed noise
    texts += [repr(x) for x in (unit[:1500] * 10 + 15).tolist()]
    texts += [repr(x) for x in (bell(rng, 1500) * 0.4).tolist()]
    texts += [repr(x) for x in (bell(rng, 1500) * 0.03).tolist()]
    texts += [f"{x:.17f}" for x in (bell(rng, 800) * 0.2).tolist()]
    texts += [repr(k * 0.1 - 2.3e-11 * (k % 7)) for k in range(700)]
    texts += [repr(float(np.float32(x))) for x in (bell(rng, 600) * 3).tolist()]
    # many scales and forms
    texts += [repr(x) for x in spread(rng, 1500, -60, 60).tolist()]
    texts += [repr(x) for x in spread(rng, 800, -1000, 1000).tolist()]
    texts += [f"{x:.17f}" for x in spread(rng, 500, -30, 20).tolist()]
    texts += [f"{x:.25f}" for x in spread(rng, 500, -60, 30).tolist()]
    texts += [f"{x:.20e}" for x in spread(rng, 700, -1000, 1000).tolist()]
    texts += [f"{x:.3e}".replace("e", "E") for x in spread(rng, 200, -1000, 1000).tolist()]
    texts += [
        "0" * int(z) + repr(x)
        for z, x in zip(rng.randint(1, 25, 400), np.abs(spread(rng, 400, -3, 60)).tolist())
    ]
    texts += ["".join(map(str, rng.randint(0, 10, n))) for n in rng.randint(15, 41, 300)]
    texts += [
        "".join(map(str, rng.randint(0, 10, n))) + "." + "".join(map(str, rng.randint(0, 10, m)))
        for n, m in zip(rng.randint(0, 25, 400), rng.randint(1, 30, 400))
    ]
    texts += [
        f"{int(a)}e{int(e)}"
        for a, e in zip(rng.randint(1, 10**9, 300), rng.randint(-330, 299, 300))
    ]
    texts += [
        f"{int(a)}.{int(b)}e{int(e):+04d}"
        for a, b, e in zip(
            rng.randint(0, 10**6, 300), rng.randint(0, 10**6, 300), rng.randint(-400, 300, 300)
        )
    ]
    # subnormals and both ends of the range
    texts += [repr(x) for x in np.ldexp(rng.random_sample(300), -1022).tolist()]
    texts += [repr(float(k) * 5e-324) for k in range(1, 60)]
    texts += ["2.2250738585072014e-308", "2.2250738585072009e-308", "1e-308", "1e-309", "1e-616",
              "1e-617", "1e-700", "123456789e-320", "9e307", "1.7e308", "0.001e310",
              "00000e5"]  # fmt: skip
    # signs, points, blanks, zeros
    texts += ["0", "-0", "+0", "0.0", "-0.0", ".5", "-.5", "+.5", "5.", "-5.", "+5.25", "1e5",
              "1E+05", "-1e-5", "0e0", "-0e10", "000.125", "1", "-17", "9007199254740993",
              "18446744073709551616"]  # fmt: skip
    decorated = [repr(x) for x in spread(rng, 300, -20, 20).tolist()]
    blanks = ["", " ", "  ", "\t", " \t "]
    texts += [
        blanks[i % 5] + ("" if t[0] == "-" else "+") + t + blanks[i // 5 % 5]
        for i, t in enumerate(decorated)
    ]
    return texts


CSV_SPECIAL = ["", "nan", "NaN", "-nan", "-NaN", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA",
               "null", "NULL", "<NA>", "None", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN", "inf",
               "-inf", "+inf", "Infinity", "-Infinity", "+Infinity", "INF", "iNfInItY"]  # fmt: skip


def csv_integers(rng):
    texts = [str(int(x)) for x in spread(rng, 600, 0, 62)]
    texts += [str(k) for k in range(-60, 61)]
    texts += [str(2**k + d) for k in range(50, 63) for d in (-1, 0, 1)]
    texts += [str(-(2**k) + d) for k in range(50, 63) for d in (-1, 0, 1)]
    texts += ["+5", "-0", "007", "-0012", " 7", "9223372036854775807", "-9223372036854775808"]
    return texts


def read_column(texts, kind):
    """What pandas makes of the texts in one column, and the bits as float64."""
    import pandas

    body = "n,x\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts))
    column = pandas.read_csv(io.StringIO(body))["x"]
    if column.dtype != kind or len(column) != len(texts):
        raise Failed(
            f"pandas read a column as {column.dtype}, expected {kind}: an input text is not a "
            "number to this pandas"
        )
    return column.values.astype(np.float64).view(np.uint64)


def as_bytes(texts):
    return np.array([text.encode() for text in texts], "S")


def csv_tables():
    floats = csv_floats(random_for("csv"))
    integers = csv_integers(random_for("csv_int"))
    return {
        "csv_text": as_bytes(floats), "csv_bits": read_column(floats, np.float64),
        "csv_special_text": as_bytes(CSV_SPECIAL),
        "csv_special_bits": read_column([*CSV_SPECIAL, "0.5"], np.float64)[:-1],
        "csv_int_text": as_bytes(integers), "csv_int_bits": read_column(integers, np.int64),
    }  # fmt: skip


# --- sine, exp ------------------------------------------------------------------------


def sin_table():
    rng = random_for("sin")

    def sign(n):
        return rng.choice([-1.0, 1.0], n)

    x = np.concatenate([
        [0.0, -0.0, 5e-324, -5e-324, 0.251296, float.fromhex("-0x1.bb1e259cc50a3p-3")],
        np.ldexp(rng.random_sample(300), -1022) * sign(300),       # subnormal
        spread(rng, 1400, -1021, -8),                              # tiny
        neighbours([2.0**-26, -2.0**-26, 2.0**-27, 0.126, -0.126]),
        (0.126 + (rng.random_sample(2000) - 0.5) * 0.002) * sign(2000),
        neighbours(np.arange(1, 110) / 128),                       # table edges
        rng.uniform(-0.3, 0.3, 7000),
        bell(rng, 4000) * 0.03,
        rng.uniform(-0.855, 0.855, 4967),
    ])  # fmt: skip
    x = x[np.abs(x) < 0.855]
    return {"sin_x": x, "sin_y": np.sin(x)}


def exp_table():
    rng = random_for("exp")
    variants = np.array([int(word, 16) for word in EXP_VARIANT_BITS], np.uint32).view(np.float32)
    # Last non-zero, first zero.
    ends = np.array([0xC2CFF1B4, 0xC2CFF1B5], np.uint32).view(np.float32)
    x = np.concatenate([
        np.array([0.0, -0.0, -110.0, -1e-45], np.float32), variants, neighbours(variants), ends,
        neighbours((-(np.arange(150) + 0.5) * 0.6931471805599453).astype(np.float32)),
        neighbours((-np.arange(1, 151) * 0.6931471805599453).astype(np.float32)),
        rng.uniform(-110, 0, 8000).astype(np.float32),
        rng.uniform(-30, 0, 5000).astype(np.float32),
        (-rng.random_sample(3000) * rng.random_sample(3000) * 16).astype(np.float32),
        -np.abs(spread(rng, 1500, -149, -5)).astype(np.float32),
        rng.uniform(-104, -87, 1600).astype(np.float32),           # subnormal results
    ])  # fmt: skip
    x = x[(x >= -110) & (x <= 0)]
    return {"exp_x": x, "exp_y": np.exp(x)}


# --- seeds, draws, choice --------------------------------------------------------------


def seed_table():
    texts = [f"data/{k:05d}.csv" for k in range(150)]
    texts += [f"data/{k:05d}.csv" for k in (4744, 4959, 9999, 10000, 19999)]
    texts += ["", ".", "a", "data", "./data/00000.csv", "data//00000.csv", "/data/00000.csv",
              "data\\00000.csv", "DATA/00000.CSV", "data/00000.csv ",
              "data/\u00e4\u00f6\u00fc.csv"]  # fmt: skip
    texts += ["x" * k for k in range(50, 84)]  # md5 block boundaries
    seeds = [int(hashlib.md5(text.encode()).hexdigest(), 16) % 10**4 for text in texts]
    return {"seed_text": as_bytes(texts), "seed": np.array(seeds, np.int64)}


def draw_table():
    seeds = [
        0,
        1,
        2,
        3285,
        9739,
        3963,
        9999,
        4294967295,
        *random_for("rng").randint(0, 10000, 42).tolist(),
    ]
    draws = []
    for seed in seeds:
        np.random.seed(seed)
        draws.append(np.random.random_sample(600))
    return {"rng_seed": np.array(seeds, np.int64), "rng_draws": np.array(draws)}


def choice_table(softmax):
    rng = random_for("choice")
    logits = (bell(rng, 64, 1024) * np.linspace(0.05, 12, 64)[:, None]).astype(np.float32)
    logits[8::8] -= (np.arange(1024) % 3 > 0) * np.float32(300)  # runs of zero probability
    p = softmax(logits / np.float32(0.8))
    p[1] = 0
    p[1, 1023] = 1
    p[2] = 0
    p[2, 0] = 1
    p[3] = np.float32(1 / 1024)
    p[4, p[4] < 1e-3] = -0.0
    p[4] /= np.sum(p[4])
    p[5] *= np.float32(1.0003)  # just inside choice's tolerance
    seeds = rng.randint(0, 10000, 64)
    out = []
    for seed, row in zip(seeds, p):
        np.random.seed(seed)
        out.append([np.random.choice(1024, p=row) for _ in range(8)])
    return {
        "choice_seed": seeds.astype(np.int64),
        "choice_p": p,
        "choice_out": np.array(out, np.int64),
    }


# --- tokenizer, sums, costs, softmax -------------------------------------------------------


def tokenizer_table(program):
    tokenizer = program.LataccelTokenizer()
    rng = random_for("tokenizer")
    x = np.concatenate([
        neighbours(tokenizer.bins), tokenizer.bins.astype(np.float32).astype(np.float64),
        neighbours([5.0, -5.0]), [0.0, -0.0, 6.0, -6.0, 1e300, -1e300, np.inf, -np.inf, 5e-324,
        -5e-324], rng.uniform(-5.5, 5.5, 6000), bell(rng, 4000), [np.nan],
    ])  # fmt: skip
    return {"bins": tokenizer.bins, "enc_x": x, "enc_y": tokenizer.encode(x).astype(np.int64)}


def sum_table(prefix, dtype, extra):
    """np.sum of rows of every length from 0 to 420 and of some longer ones, one after another."""
    rng = random_for(prefix)
    lengths = [*range(421), 500, 511, 512, 513, 640, 777, 999, 1000, 1023, 1025, 1500, *extra]
    rows = []
    for i, n in enumerate(lengths):
        row = bell(rng, n) * 2.0 ** int(rng.randint(-20, 21))
        row = row * row if i % 3 == 0 else row
        rows.append(row.astype(dtype))
    rows += [np.full(n, -0.0, dtype) for n in (1, 5, 8, 130)]
    return {
        f"{prefix}_len": np.array([len(row) for row in rows], np.int64),
        f"{prefix}_x": np.concatenate(rows),
        f"{prefix}_y": np.array([np.sum(row) for row in rows], dtype),
    }


def cost_table(program):
    """The upstream method itself, called with 64 pairs of histories."""
    rng = random_for("costs")
    target = np.add.accumulate(bell(rng, 64, 400) * 0.05, axis=1)
    noise = np.ldexp(1.0, rng.randint(-12, 6, 64))[:, None]
    pred = target + bell(rng, 64, 400) * noise
    bins = program.LataccelTokenizer().bins
    pred[::2] = bins[np.clip(((pred[::2] + 5) * 102.3).astype(int), 0, 1023)]
    pred[1] = target[1]
    out = []
    for t, p in zip(target, pred):
        history = SimpleNamespace(
            target_lataccel_history=[0.0] * 100 + t.tolist(),
            current_lataccel_history=[0.0] * 100 + p.tolist(),
        )
        costs = program.TinyPhysicsSimulator.compute_cost(history)
        out.append([costs[name] for name in generate.COSTS])
    return {"cost_target": target, "cost_pred": pred, "cost_out": np.array(out)}


def softmax_table(softmax):
    rng = random_for("softmax")
    x = (bell(rng, 64, 1024) * np.linspace(0.1, 30, 64)[:, None]).astype(np.float32)
    x[1::8, ::2] -= 200  # floods of underflow
    x[2::8, 700] += 90  # one spike
    x[3] = 0
    return {"softmax_x": x, "softmax_y": softmax(x / 0.8)}


def format_table():
    rng = random_for("format")
    x = [10.0**k for k in range(-30, 31)] + [-(10.0**k) for k in range(-6, 7)]
    x += [999.95, 999.94999, 999.96, 9999.5, 9999.4, 9999.6, 99.995, 99.985, 0.0001, 0.00009999,
          0.000099995, 0.00001, 0.00012345, 0.5, 0.25, 1.0005, 1.00049, 2.5, 1234.5, 1235.5,
          12345.0, 0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324,
          1.7976931348623157e308]  # fmt: skip
    x += [float(k) for k in range(-20, 121)] + [float(k * 111) for k in range(1, 100)]
    x += [k + 0.05 for k in range(100, 150)] + [k / 16 for k in range(1000, 1100)]
    x += spread(rng, 500, -20, 20).tolist() + spread(rng, 150, -1000, 1000).tolist()
    x += (rng.random_sample(2000 - len(x)) * 200).tolist()
    return {"fmt_x": np.array(x), "fmt_text": as_bytes([f"{value:>6.4}" for value in x])}


def probe_table():
    """The two network probes, so that other programs can put the same question."""
    norm = (generate.NORM_X, generate.NORM_WEIGHT, generate.NORM_BIAS, generate.NORM_EPSILON)

    def as_array(data):
        return np.frombuffer(data, np.uint8)

    return {
        "probe_layer_norm_onnx": as_array(generate.NORM_MODEL),
        "probe_layer_norm_x": generate.NORM_X,
        "probe_layer_norm_ort1.30": generate.layer_norm_double_mean(*norm),
        "probe_layer_norm_ort1.27": generate.layer_norm_running(*norm),
        "probe_layer_norm_ort1.23": generate.layer_norm_sequential(*norm),
        "probe_softmax_onnx": as_array(generate.SOFTMAX_MODEL),
        "probe_softmax_x": generate.SOFTMAX_X,
        "probe_softmax_avx512": generate.softmax_lanes(generate.SOFTMAX_X, 16),
        "probe_softmax_avx2": generate.softmax_lanes(generate.SOFTMAX_X, 8),
    }  # fmt: skip


def all_tables(upstream):
    program = generate.load_upstream(upstream)

    def softmax(x):
        return program.TinyPhysicsModel.softmax(None, x)

    tables = {"format": np.array([FORMAT], np.int64)}
    for part in (
        csv_tables(),
        sin_table(),
        exp_table(),
        seed_table(),
        draw_table(),
        tokenizer_table(program),
        sum_table("psum", np.float64, [1024] * 3),
        sum_table("psum32", np.float32, [1024] * 60),
        cost_table(program),
        softmax_table(softmax),
        choice_table(softmax),
        format_table(),
        probe_table(),
    ):
        tables.update(part)
    return tables


# --- commands ----------------------------------------------------------------------------------


def surroundings():
    """The answers these tables depend on; refuses where one of them is unknown."""
    probes = generate.fingerprint()
    chosen = {}
    for name in UNIT_PROBES:
        entry = probes[name]
        if entry["name"] is None:
            refuse(
                f"probe {name} ({entry['question']}): {entry.get('error') or entry['answer']}: not "
                "a known arithmetic"
            )
        chosen[name] = {key: entry[key] for key in ("question", "answer", "name")}
    here = generate.machine()
    del here["packages"]["onnxruntime"]
    return {"fingerprint": chosen, "machine": here}


def command_write(options):
    around = surroundings()
    tables = all_tables(options.upstream)
    data = generate.npz_bytes(tables)
    provenance = {
        **around,
        "file": "units.npz",
        "format": FORMAT,
        "npz_sha256": hashlib.sha256(data).hexdigest(),
        "tables": {name: {"dtype": array.dtype.str, "shape": list(array.shape)}
                   for name, array in tables.items()},
        "upstream": generate.upstream_provenance(),
    }  # fmt: skip
    out = Path(options.out).resolve()
    generate.write_whole(out / "units.npz", data)
    generate.write_whole(out / "units.json", generate.json_text(provenance).encode())
    print(f"{options.out}/units.npz: {len(tables)} tables, {len(data)} bytes")


def command_check(options):
    folder = Path(options.check)
    where = folder / "units.json"
    try:
        committed = json.loads(where.read_text())
        recorded = committed["machine"]["packages"]
        answers = {name: entry["answer"] for name, entry in committed["fingerprint"].items()}
        expected_sha256 = committed["npz_sha256"]
    except OSError:
        refuse(f"{where}: cannot be read: give the folder of units.npz and units.json")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Failed(
            f"{where}: not a provenance file ({type(error).__name__}): restore it"
        ) from error
    around = surroundings()
    for name, answer in answers.items():
        here = around["fingerprint"].get(name, {}).get("answer")
        if here != answer:
            refuse(
                f"{where}: probe {name} answered {answer} when recorded, here {here}: another "
                "arithmetic"
            )
    for name, version in recorded.items():
        here = around["machine"]["packages"].get(name)
        if here != version:
            refuse(f"{where}: recorded with {name} {version}, here is {here}: install that version")
    difference = generate.first_difference(
        generate.load_npz(folder / "units.npz"), all_tables(options.upstream)
    )
    if difference:
        raise Failed(f"{folder / 'units.npz'}: {difference}")
    if generate.sha256_file(folder / "units.npz") != expected_sha256:
        raise Failed(
            f"{folder / 'units.npz'}: tables are equal, but its SHA-256 is not the one in {where}"
        )
    print(f"{folder / 'units.npz'}: all tables equal in every bit")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--upstream",
        metavar="DIR",
        required=True,
        help=f"{generate.UPSTREAM_REPOSITORY} at commit {generate.UPSTREAM_COMMIT}",
    )
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--out", metavar="DIR", help="write DIR/units.npz and DIR/units.json")
    action.add_argument("--check", metavar="DIR", help="recompute and compare with DIR/units.npz")
    options = parser.parse_args()
    generate.check_upstream(options.upstream)
    command_check(options) if options.check else command_write(options)


if __name__ == "__main__":
    generate.run(main)
