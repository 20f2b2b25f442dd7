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


# Angles at which the last bit of a sine or a cosine is another if one term of glibc's is a float32,
# if a branch begins beside where it does, or if the reduction is another: beside π/2, where the
# reduction of far angles begins, near whole quarters of a turn and half-way between two, and where
# what is rounded last is next to a midpoint. Each was searched for a term that no other one sees.
ANGLES = """
    0x1.8bf3d9e440594p+0 0x1.b0448bab4afcfp+0 0x1.9fc56fd0a2cf4p+0 0x1.921fb7a5a4a09p+26
    0x1.921fb797f7ee0p+26 0x1.921fbf7d9c487p+26 0x1.921fb8cfffa0fp+26 0x1.d21f67792066p+1009
    0x1.1d2fbaaf3583fp+493 0x1.2aa2ff7e7c6dp+600 0x1.7512069b7430dp+46 0x1.e56d29fc98f5ap-4
    0x1.21cfda23b228p+9 0x1.f7704dd0930fbp-4 0x1.6622a78ff318p+967 0x1.8ed2e9bcfa44cp+6
    0x1.f506072481074p-4 0x1.f2d5c4b2de85dp+3 0x1.39ba56454109ap+4 0x1.1a694813541c4p-1
    0x1.233452b74a6a4p+196 0x1.161f80758cba9p+270 0x1.47a694906662ep+26 0x1.a7dbfef467166p+0
    0x1.d55123d1e66a2p+5 0x1.8cb941eec65d8p+20 0x1.7e2d92946847bp-1 0x1.dcf00cbe727e3p-5
    0x1.53f908c2c392ap-2 0x1.15b258b4b3b16p-1 0x1.2383dccf05263p-5 0x1.d71651f130d68p-3
    0x1.e72d16fc68944p-3 0x1.a1b6a15b60757p-1 0x1.d358688cfa903p+1 0x1.c5213d48b2645p-2
    0x1.b4c251acb3973p+24 0x1.7a0000002fff6p-1 0x1.020c496d3b511p-3 0x1.0000034a1c2f7p+435
    0x1.5b522129badaep+618
"""

# Quarters of a turn beside which sines and cosines of a float32 are recorded.
QUARTERS = (1, 2, 3, 4, 5, 8, 64, 1000, 45000)

# Numbers of which the same is true of a square.
SQUARED = """
    0x1.5e80e9222d264p+294 0x1.248c79bab2deep-507 0x1.e070f8f1fa823p-512 0x1.727c3e16be216p-325
    0x1.8f2edcfbd328ap+138 0x1.734c5e68556dp+76 0x1.581dbdb0e234p-313 0x1.49c07260d385bp+321
    0x1.1259699e7870bp-509 0x1.4e3b367d93fe5p+245 0x1.bb8dbbd1349c3p+333 0x1.bb955413b6bcfp+205
    0x1.bb883b09f1301p+107 0x1.9fa6022461a8dp+70 0x1.56f4a66ceb247p-107 0x1.b20ce71761eebp-424
    0x1.fbdbb394bdcd5p-382 0x1.4b18137fdddf1p-444
"""


def midpoint(random: np.random.Generator) -> float:
    """A number whose square is near the midpoint between two of 53 bits: m² is, m being u·2²⁷ + v.

    Of m², 2²⁸·u·v + v² are the bits beside the midpoint, so that u is what divides the rest by v.
    """
    while True:
        v = int(random.integers(0, 1 << 26)) * 2 + 1
        half = 1 << int(random.integers(51, 53))
        u = ((half - v * v) >> 28) * pow(v, -1, 1 << 25) % (1 << 25)
        m = (1 << 52) + (u << 27) + v
        if (m * m >= 1 << 105) == (half == 1 << 52):
            return math.ldexp(m, int(random.integers(-510, 358)) - 52)


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
    for turns in QUARTERS:
        for steps in (-1, 0, 1, 2):  # beside the quarter of a turn, where all parts of π/2 show
            s = np.float32(turns * math.pi / 2)
            for _ in range(abs(steps)):
                s = np.nextafter(s, np.float32(math.inf if steps > 0 else 0))
            for x in s, -s:
                found["sin32"].append([float(x).hex(), float(np.sin(x)).hex()])
                found["cos32"].append([float(x).hex(), float(np.cos(x)).hex()])
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
    for text in ANGLES.split():
        for x in float.fromhex(text), -float.fromhex(text):
            found["sin"].append([x.hex(), float(np.sin(x)).hex()])
            found["cos"].append([x.hex(), float(np.cos(x)).hex()])
    squared = [float.fromhex(text) for text in SQUARED.split()]
    for x in squared + [midpoint(random) for _ in range(400)]:
        found["pow"].append([x.hex(), (np.float64(x) ** 2).hex()])
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
