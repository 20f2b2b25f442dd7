"""Run unmodified Gymnasium's classic control environments, and print what they answered.

Reads a JSON list of cases on standard input and prints it with the results: SHA-256 of all
answers after every `every` steps, and the values of the first `values` steps as hexadecimal
floats. The bytes of a step are: actions (int32 or float32), states (float64), observations
(float32), rewards (float64), terminated, truncated, each column by column, little-endian, then
the final observations of ended episodes with autoreset same-step. Every NaN is np.nan's bytes.

    python golden/classic/record.py < cases.json > results.json
"""

import functools
import hashlib
import json
import logging
import math
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

warnings.filterwarnings("ignore")
gymnasium.logger.min_level = logging.ERROR
MASK = 0xFFFFFFFF
MODES = {
    "next-step": AutoresetMode.NEXT_STEP,
    "same-step": AutoresetMode.SAME_STEP,
    "disabled": AutoresetMode.DISABLED,
}


@functools.lru_cache(maxsize=4096)
def philox(counter: tuple[int, ...], key: int) -> tuple[int, ...]:
    """Philox4x32-10 of a counter of four words: four words."""
    k0, k1 = key & MASK, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = ((b >> 32) ^ counter[1] ^ k0, b & MASK, (a >> 32) ^ counter[3] ^ k1, a & MASK)
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return counter


def uniform(seed: int, env: int, step: int, actions: int, limit: float) -> int | float:
    """Draw an action as docs/classic.md says: a choice, or a force or torque within ±limit."""
    block = philox((env & MASK, env >> 32, step // (128 if actions == 2 else 4), 0), seed)
    word = block[step % 4]
    if actions == 2:
        return block[step % 128 // 32] >> (step % 32) & 1
    if actions == 0:
        return (word >> 8) * 2.0**-24 * 2 * limit - limit
    return word * actions >> 32


def forward(layers: list[dict[str, list[float]]], x: list[np.float32]) -> list[np.float32]:
    """A network of ReLU layers, added up one product after another in float32."""
    zero = np.float32(0)
    for i, layer in enumerate(layers):
        y = []
        for j, bias in enumerate(layer["Bias"]):
            total = np.float32(bias)
            for k, value in enumerate(x):
                total = total + np.float32(layer["Weights"][j * len(x) + k]) * value
            y.append(total if i == len(layers) - 1 or total > zero else zero)
        x = y
    return x


class Off:
    """Environments as gymnasium.make returns them, with SyncVectorEnv's interface."""

    def __init__(self, name: str, num: int, options: dict[str, Any]):
        self.envs = [gymnasium.make(name, **options) for _ in range(num)]
        self.single_action_space = self.envs[0].action_space

    def reset(
        self, seed: list[int] | None, options: dict[str, Any] | None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Reset those of the mask, or all: the observations of all."""
        mask = options.pop("reset_mask", None) if options else None
        if mask is None:
            mask = np.ones(len(self.envs), dtype=bool)
            self.observations = [None] * len(self.envs)
        for i, env in enumerate(self.envs):
            if mask[i]:
                self.observations[i] = env.reset(seed=seed[i] if seed else None, options=options)[0]
        return np.array(self.observations), {}

    def step(self, actions: np.ndarray) -> tuple[Any, ...]:
        """Step all: observations, rewards, terminated, truncated and no information."""
        answers = [env.step(a) for env, a in zip(self.envs, actions, strict=True)]
        self.observations = [a[0] for a in answers]
        return (*(np.array([a[k] for a in answers]) for k in range(4)), {})


def make(case: dict[str, Any]) -> Any:
    """Make a case's environments, with its options."""
    options = {
        k: json.loads(v) if k != "sutton_barto_reward" else v == "True"
        for k, v in case["options"].items()
        if k not in ("kinematics_integrator", "book_or_nips")
    }
    attributes = {
        k: v for k, v in case["options"].items() if k in ("kinematics_integrator", "book_or_nips")
    }
    name, num, mode = case["env"], case["num"], case["autoreset"]
    if name == "CartPoleVectorEnv":
        envs = gymnasium.make_vec(
            "CartPole-v1", num_envs=num, vectorization_mode="vector_entry_point", **options
        )
        for key, value in attributes.items():
            setattr(envs.unwrapped, key, value)
        return envs
    if mode == "off":
        envs = Off(name, num, options)
    else:
        envs = SyncVectorEnv(
            [lambda: gymnasium.make(name, **options)] * num, autoreset_mode=MODES[mode]
        )
    for env in envs.envs:
        for key, value in attributes.items():
            setattr(env.unwrapped, key, value)
    return envs


def states(envs: Any, shared: bool) -> np.ndarray:
    """All state variables, a row each; shared says that the environments have one array of them."""
    if shared:
        return np.array(envs.unwrapped.state, dtype=np.float64)
    return np.array([np.array(e.unwrapped.state, dtype=np.float64) for e in envs.envs]).T


def choose(case: dict[str, Any], space: Any, observations: np.ndarray, step: int) -> np.ndarray:
    """Choose each environment's action, by the case's network or at random."""
    actions = int(space.n) if hasattr(space, "n") else 0
    limit = 0.0 if actions else float(space.high[0])
    chosen = []
    for i in range(case["num"]):
        if case.get("network"):
            y = forward(case["network"]["Layers"], list(observations[i]))
            chosen.append(max(range(len(y)), key=lambda j: (y[j], -j)) if actions else y[0])
        else:
            chosen.append(uniform(case["uniform"], i, step, actions, limit))
    return np.array(chosen, dtype=np.int64 if actions else np.float32)


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Run a case; what its environments answered, in hashes and values."""
    envs, num = make(case), case["num"]
    shared = case["env"] == "CartPoleVectorEnv"
    discrete = hasattr(envs.single_action_space, "n")
    bounds = {k: v for k, v in (case.get("bounds") or {}).items()} or None
    seed = case["seed"] if shared else [case["seed"] + i for i in range(num)]
    observations, _ = envs.reset(seed=seed, options=dict(bounds) if bounds else None)
    digest = hashlib.sha256()
    case["hashes"], case["first"] = [], []

    def put(row: list[np.ndarray], step: int) -> None:
        for column in row:
            if column.dtype.kind == "f":  # which NaN an operation gives nothing prescribes
                column = np.where(np.isnan(column), column.dtype.type(np.nan), column)
            digest.update(
                np.ascontiguousarray(column).astype(column.dtype.newbyteorder("<")).tobytes()
            )
        if step <= case["values"]:
            case["first"].append([[float(x).hex() for x in column.ravel()] for column in row])

    put([states(envs, shared), observations.T], 0)
    ended = np.zeros(num, dtype=bool)
    for step in range(case["steps"]):
        if case["autoreset"] == "disabled" and ended.any():
            observations, _ = envs.reset(seed=None, options={"reset_mask": ended})
            put([states(envs, shared), observations.T], step + 1)
        actions = choose(case, envs.single_action_space, observations, step)
        observations, rewards, terminated, truncated, info = envs.step(
            actions if discrete or shared else actions[:, None]
        )
        ended = terminated | truncated
        row = [
            actions.astype(np.int32) if discrete else actions,
            states(envs, shared),
            observations.T,
            rewards.astype(np.float64),
            terminated.astype(np.uint8),
            truncated.astype(np.uint8),
        ]
        if case["autoreset"] == "same-step" and ended.any():
            row.append(
                np.array([info["final_obs"][i] for i in range(num) if ended[i]], dtype=np.float32).T
            )
        put(row, step + 1)
        if (step + 1) % case["every"] == 0:
            case["hashes"].append(digest.hexdigest())
    return case


def lists() -> dict[str, list[list[str]]]:
    """Arguments and values of functions that round unexpectedly, half of them near midpoints."""
    random = np.random.default_rng(1)
    found: dict[str, list[list[str]]] = {
        "pow": [],
        "powf": [],
        "sin": [],
        "cos": [],
        "sin32": [],
        "cos32": [],
    }
    while len(found["pow"]) < 400:
        x = np.float64(random.uniform(-30, 30) * 2.0 ** -int(random.integers(0, 40)))
        if len(found["pow"]) % 2 == 0 or x**2 != x * x:
            found["pow"].append([float(x).hex(), float(x**2).hex()])
    while len(found["powf"]) < 400:
        u = np.float32(random.uniform(-2, 2) * 2.0 ** -int(random.integers(0, 30)))
        with np.errstate(all="ignore"):
            if len(found["powf"]) % 2 == 0 or u**2 != u * u:
                found["powf"].append(
                    [
                        float(u).hex(),
                        float(np.power(u, np.float32(2)) if np.__version__ < "2" else u**2).hex(),
                    ]
                )
    edges = [2.0**-27, 2.0**-26, 0.126, 0.855469, 2.426265, math.pi / 4, math.pi / 2, math.pi]
    for i in range(400):
        x = (
            edges[i % 8] * (1 + float(random.normal()) * 2.0 ** -int(random.integers(1, 50)))
            if i % 2
            else float(random.uniform(-1, 1) * 10.0 ** int(random.integers(0, 8)))
        )
        found["sin"].append([x.hex(), float(np.sin(x)).hex()])
        found["cos"].append([x.hex(), float(np.cos(x)).hex()])
        s = np.float32(random.uniform(-1, 1) * (0.1 if i % 2 else 100))
        found["sin32"].append([float(s).hex(), float(np.sin(s)).hex()])
        found["cos32"].append([float(s).hex(), float(np.cos(s)).hex()])
    beyond = 105414336.0
    random = np.random.default_rng(2)
    for i in range(200):
        near = beyond * (1 + float(random.normal()) * 2.0 ** -int(random.integers(1, 50)))
        x = (
            near
            if i % 4 == 0
            else float(random.uniform(1, 2) * 2.0 ** int(random.integers(26, 1023)))
        )
        found["sin"].append([x.hex(), float(np.sin(x)).hex()])
        found["cos"].append([x.hex(), float(np.cos(x)).hex()])
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--lists"]:
        json.dump(lists(), sys.stdout, indent=0)
    else:
        results = [run(case) for case in json.load(sys.stdin)]
        json.dump(
            {"gymnasium": gymnasium.__version__, "numpy": np.__version__, "cases": results},
            sys.stdout,
        )
