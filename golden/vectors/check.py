#!/usr/bin/env python3
"""Hold NumPy, pandas, the C library and ONNX Runtime to the vectors.

The results in vectors.npz were computed by the package statement, one IEEE-754
operation at a time. This asks the programs themselves: every operation that one of
them has, in the variant that is installed.

  check.py [vectors.npz]        prints a line for each operation; exit status 1 on a difference
"""

import hashlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

Arrays = dict[str, Any]
BINS = np.linspace(-5, 5, 1024)


def vectors(archive: Any, operation: str) -> Iterator[Arrays]:
    """The arguments of each vector of an operation, and its result as "want"."""
    columns: dict[str, list[Any]] = {}
    for key in archive.files:
        head, _, name = key.partition("/")
        if head != operation or name.endswith(".lengths"):
            continue
        if archive[key].dtype.kind == "S":
            columns[name] = archive[key].item().decode().split("\n")
        else:
            ends = np.cumsum(archive[key + ".lengths"])
            columns[name] = np.split(archive[key], ends[:-1])
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def softmax(x: np.ndarray) -> np.ndarray:
    x = x / np.float32(0.8)
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def choice(p: np.ndarray, u: float) -> int:
    """np.random.choice for a given draw."""
    cdf = p.astype(np.float64).cumsum()
    cdf /= cdf[-1]
    return int(cdf.searchsorted(u, side="right"))


def draws(seed: int) -> np.ndarray:
    np.random.seed(seed)
    return np.random.random_sample(40)


def costs(target: np.ndarray, lataccel: np.ndarray) -> np.ndarray:
    """TinyPhysicsSimulator.compute_cost."""
    lat = np.mean((target - lataccel) ** 2) * 100
    jerk = np.mean((np.diff(lataccel) / 0.1) ** 2) * 100
    return np.array([lat, jerk, lat * 50 + jerk])


def read_csv(text: str) -> np.ndarray:
    return pd.read_csv(io.StringIO("x\n0.5\n" + text + "\n"))["x"].to_numpy()[1:].astype(np.float64)


def network(
    x: np.ndarray,
    operator: str,
    constants: dict[str, np.ndarray] | None = None,
    domain: str = "",
    **attributes: Any,
) -> np.ndarray:
    """One node on one row in ONNX Runtime, as the whole network is run."""
    constants = constants or {}
    node = helper.make_node(operator, ["x", *constants], ["y"], domain=domain, **attributes)
    width = next(iter(constants.values())).shape[-1] if constants else len(x)
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, len(x)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        [numpy_helper.from_array(v, name) for name, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    )
    model.ir_version = 8
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x[None]})[0][0]


def product(v: Arrays, alpha: float | None = None) -> np.ndarray:
    matrix = np.repeat(v["b"][:, None], 16, axis=1)
    if alpha is None:
        return network(v["a"], "MatMul", {"b": matrix})[:1]
    return network(v["a"], "FusedMatMul", {"b": matrix}, "com.microsoft", alpha=float(alpha))[:1]


def attention_softmax(v: Arrays) -> np.ndarray:
    x = v["x"].copy()
    x[int(v["n"][0]) :] = -np.inf
    return network(x, "Softmax", axis=-1)


def layer_norm(v: Arrays) -> np.ndarray:
    return network(
        v["x"], "LayerNormalization", {"w": v["weight"], "b": v["bias"]}, axis=-1, epsilon=1e-5
    )


# What an installed variant decides is asked in all variants, one of which must be right.
RUN: dict[str, Callable[[Arrays], Any]] = {
    "product": product,
    "product-panels": lambda v: product(v, 0.5),
    "score": lambda v: product(v, np.float32(1 / np.sqrt(32))),
    "attention-output": product,
    "layer-norm-1.30 layer-norm-1.27 layer-norm-1.23 layer-norm-1.30arm": layer_norm,
    "tanh": lambda v: network(v["x"], "Tanh"),
    "exp-numpy-U exp-numpy-F exp-numpy-C": lambda v: np.exp(v["x"]),
    "softmax-avx512 softmax-avx2 softmax-neon": attention_softmax,
    "softmax-numpy-U softmax-numpy-F softmax-numpy-C": lambda v: softmax(v["x"]),
    "csv2 csvexact": lambda v: read_csv(v["text"]),
    "seed": lambda v: np.array([int(hashlib.md5(v["path"].encode()).hexdigest(), 16) % 10**4]),
    "roll-lataccel": lambda v: np.sin(v["roll"]) * 9.81,
    "draws": lambda v: draws(int(v["seed"][0])),
    "cdf": lambda v: (lambda c: c / c[-1])(v["p"].astype(np.float64).cumsum()),
    "choice": lambda v: np.array([choice(v["p"], v["u"][0])]),
    "decode": lambda v: BINS[v["token"]],
    "encode": lambda v: np.digitize(np.clip(v["x"], -5, 5), BINS, right=True),
    "clip": lambda v: np.clip(v["x"], v["current"] - 0.5, v["current"] + 0.5),
    "sum": lambda v: np.array([np.sum(v["x"])]),
    "sum32": lambda v: np.array([np.sum(v["x"])]),
    "costs": lambda v: costs(v["target"], v["lataccel"]),
}


def differing(archive: Any, operation: str, run: Callable[[Arrays], Any]) -> tuple[int, int]:
    """How many vectors differ, of how many."""
    count = bad = 0
    for v in vectors(archive, operation):
        count += 1
        got = np.asarray(run(v))
        bad += not np.array_equal(got.astype(v["want"].dtype), v["want"], equal_nan=True)
    return bad, count


def main() -> int:
    archive = np.load(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("vectors.npz"))
    print(
        f"numpy {np.__version__}, pandas {pd.__version__}, onnxruntime {ort.__version__}, onnx "
        f"{onnx.__version__}"
    )
    failed = False
    for names, run in RUN.items():
        results = {name: differing(archive, name, run) for name in names.split()}
        right = [name for name, (bad, count) in results.items() if bad == 0 and count > 0]
        failed |= not right
        print(
            f"{'ok  ' if right else 'FAIL'} "
            + ", ".join(
                f"{name}: {bad} of {count} differ" for name, (bad, count) in results.items()
            )
        )
    asked = {name for names in RUN for name in names.split()}
    rest = sorted({key.partition("/")[0] for key in archive.files} - asked)
    print("no program has by itself: " + ", ".join(rest))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
