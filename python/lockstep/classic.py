"""Gymnasium's classic control environments, in every bit, at many times their speed.

>>> import gymnasium, lockstep
>>> envs = gymnasium.make_vec("lockstep/CartPole-v1", num_envs=4096)        # doctest: +SKIP
>>> env = gymnasium.make("lockstep/Acrobot-v1", book_or_nips="nips")         # doctest: +SKIP

The names are Gymnasium's with ``lockstep/`` before them, and so are the options of each. A vector
answers what ``gymnasium.vector.SyncVectorEnv`` of as many single environments answers, rewards
float64; ``lockstep/CartPoleVectorEnv-v1`` is Gymnasium's own vector class for CartPole, with its
one generator for all environments. Actions are checked more strictly: float32 where Gymnasium has
float32, integers where it has integers, none that is NaN; and options of a reset that nothing would
heed are refused. The states can be set. Other attributes of Gymnasium's environments can be read;
what an environment computes with is given when it is made.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import operator
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import load_env_creator
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from lockstep import _native
from lockstep._device import DeviceArray, Place, on_device
from lockstep._equality import Bitwise
from lockstep.simulator import count_workers, whole

__all__ = ["Env", "Network", "Rollout", "Snapshot", "VectorEnv"]

MODES = {
    AutoresetMode.NEXT_STEP: "next-step",
    AutoresetMode.SAME_STEP: "same-step",
    AutoresetMode.DISABLED: "disabled",
}
MODES_OF_RENDERING = ("rgb_array", "human")
POLE = [4.8, np.inf, 24 * 2 * np.pi / 360, np.inf]

# The greatest observation; the least is minus that, or the second.
BOUNDS: dict[str, list[list[float]]] = {
    "CartPole-v1": [POLE],
    "CartPoleVectorEnv": [POLE],
    "MountainCar-v0": [[0.6, 0.07], [-1.2, -0.07]],
    "MountainCarContinuous-v0": [[0.6, 0.07], [-1.2, -0.07]],
    "Pendulum-v1": [[1.0, 1.0, 8.0]],
    "Acrobot-v1": [[1.0, 1.0, 1.0, 1.0, 4 * np.pi, 9 * np.pi]],
}


@dataclass(frozen=True, eq=False)
class Network(Bitwise):
    """A perceptron that chooses actions inside the engine, in float32.

    Layer by layer the products are added in order, each rounded first, and between layers what is
    below 0 is 0. The action is the first largest output, or the only one.

    Parameters
    ----------
    weights, biases : sequences of array_like
        Of each layer, weights of shape (outputs, inputs), as ``torch.nn.Linear`` has them: up to
        4 layers of up to 64 outputs, all within ±1000.
    noise : array_like, optional
        A power of two of numbers, up to 65,536, of which one, drawn anew for each output and step,
        is added to the output. With :meth:`gumbel` actions follow the softmax of the outputs.
    seed : int, optional
        Of these draws, by default 0.
    """

    weights: Sequence[npt.ArrayLike]
    biases: Sequence[npt.ArrayLike]
    noise: npt.ArrayLike | None = None
    seed: int | None = None

    @staticmethod
    def gumbel(bits: int = 16) -> npt.NDArray[np.float32]:
        """Quantiles of Gumbel's distribution, 2 to the power of ``bits`` of them."""
        u = (np.arange(1 << bits) + 0.5) / (1 << bits)
        return (-np.log(-np.log(u))).astype(np.float32)

    def _parts(self) -> tuple[list[int], list[npt.NDArray[np.float32]], npt.NDArray[np.float32]]:
        """Sizes of the layers, weights and biases in turn, and the noise."""
        if self.seed is not None and self.noise is None:
            raise ValueError(f"seed={self.seed}: it goes with noise, and there is none")
        numbers: list[npt.NDArray[np.float32]] = []
        sizes: list[int] = []
        for w, b in zip(self.weights, self.biases, strict=True):
            weights, bias = (np.asarray(x, dtype=np.float32) for x in (w, b))
            if (
                weights.ndim != 2
                or bias.shape != weights.shape[:1]
                or (sizes and weights.shape[1] != sizes[-1])
            ):
                raise ValueError(
                    f"layer {len(numbers) // 2}: weights {weights.shape} and bias {bias.shape} do "
                    "not fit"
                )
            sizes += [weights.shape[1], weights.shape[0]] if not sizes else [weights.shape[0]]
            numbers += [weights, bias]
        return (
            sizes,
            numbers,
            np.asarray([] if self.noise is None else self.noise, dtype=np.float32),
        )

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write an archive that ``lockstep rollout --env NAME --policy FILE`` reads.

        It appears whole or not at all; ``.npz`` is added to a name that does not end so.
        """
        _, numbers, noise = self._parts()
        arrays: dict[str, Any] = {
            f"{'bias' if i % 2 else 'weights'}{i // 2}": x for i, x in enumerate(numbers)
        }
        if noise.size:
            arrays |= {"noise": noise, "seed": np.array([self.seed or 0], np.uint64)}
        name = os.fspath(file)
        name = name if name.endswith(".npz") else f"{name}.npz"
        with whole(name) as part, open(part, "wb") as f:
            np.savez(f, **arrays)


@dataclass(frozen=True, eq=False)
class Rollout(Bitwise):
    """What a run recorded, (steps, N) or (steps, N, values) each; None where not asked for.

    ``==`` compares the arrays by their bits.
    """

    states: npt.NDArray[np.float64] | None = None
    rewards: npt.NDArray[np.float64] | None = None
    observations: npt.NDArray[np.float32] | None = None
    final_observations: npt.NDArray[np.float32] | None = None
    actions: npt.NDArray[Any] | None = None
    terminated: npt.NDArray[np.bool_] | None = None
    truncated: npt.NDArray[np.bool_] | None = None


class Snapshot(_native.Uncopied):
    """Where environments are between two steps: states, generators, limits and totals.

    Attributes
    ----------
    num_envs : int
        How many they are.
    steps : int
        Steps since all were reset.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        self._handle = _native.Handle(answer["handle"], "snapshot")
        self.num_envs: int = answer["num"]
        self.steps: int = answer["steps"]

    def __repr__(self) -> str:
        return f"<snapshot of {self.num_envs} environments after {self.steps} steps>"

    def to_bytes(self) -> bytes:
        """Write it down; all bits are kept."""
        out = np.empty(self._handle.call("environments_bytes"), dtype=np.uint8)
        self._handle.call("environments_bytes", out)
        return out.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read what :meth:`to_bytes` wrote, here or on another machine."""
        return cls(_native.call("environments_read", 0, np.frombuffer(data, dtype=np.uint8)))

    @property
    def id(self) -> int:
        """The number that the library knows it by."""
        return self._handle.id


class _Core:
    """N environments of the library's, and the memory that a step is exchanged in."""

    def __init__(
        self,
        name: str,
        num: int,
        autoreset: str,
        engine: str,
        workers: int | None,
        numpy1: bool,
        render_mode: str | None,
        options: dict[str, Any],
        stream: int = 0,
    ) -> None:
        if render_mode not in (None, *MODES_OF_RENDERING):
            raise ValueError(
                f"render_mode={render_mode!r:.60}: want None, {' or '.join(MODES_OF_RENDERING)}"
            )
        try:
            answer = _native.call(
                "environments",
                environment=name,
                num=operator.index(num),
                autoreset=autoreset,
                engine=_native.text("engine", engine),
                workers=count_workers(workers),
                numpy1=numpy1,
                stream=operator.index(stream),
                options={key: str(value) for key, value in options.items()},
            )
        except ValueError as error:  # as Gymnasium's own say it; TorchRL tries options so
            for key in options:
                if f'has no option "{key}"' in str(error):
                    raise TypeError(f"an unexpected keyword argument '{key}': {error}") from None
            raise
        self.handle = _native.Handle(answer["handle"], "environments")
        self.engine: str = answer["engine"]
        self.place = None if answer["gpu"] is None else Place(answer["gpu"], operator.index(stream))
        self.name, self.num, self.shared = name, num, answer["shared"]
        self.low, self.high = np.array(answer["low"]), np.array(answer["high"])
        self.discrete, d = answer["actions"] > 0, answer["observations"]
        # See environments.step in cmd/internal/native/classic.go.
        memory = np.zeros(8 * num + 4 * num + 2 * 4 * num * d + 2 * num, dtype=np.uint8)
        ends = np.cumsum([8 * num, 4 * num, 4 * num * d, 4 * num * d, num, num])
        parts = np.split(memory, ends[:-1])
        self._memory = memory
        self.given, self.autoreset = options, autoreset
        self.render_mode = render_mode
        # Whether an action that is known was the last that happened, if it is drawn.
        self.acted = np.zeros(num, dtype=np.bool_)
        self._arguments = (ctypes.c_int64(self.handle.id), ctypes.c_void_p(memory.ctypes.data))
        self.rewards = parts[0].view(np.float64)
        self.actions = parts[1].view(np.int32 if self.discrete else np.float32)
        self.observations, self.final = (p.view(np.float32).reshape(d, num) for p in parts[2:4])
        self.terminated, self.truncated = (p.view(np.bool_) for p in parts[4:])
        self._native_step = _native.library().lockstep_environments_step
        self._native_rows = _native.library().lockstep_environments_rows
        self.words = np.zeros(7, dtype=np.int64)  # see rows in cmd/internal/native/classic.go
        self.words[6] = self.final.ctypes.data
        self._rows = (self._arguments[0], ctypes.c_void_p(self.words.ctypes.data))
        self.values: int = answer["states"]
        self.seeded = False
        self.turn = _native.Turn("environments")

        high = np.array(BOUNDS[name][0], dtype=np.float32)
        low = np.array(BOUNDS[name][1], dtype=np.float32) if len(BOUNDS[name]) > 1 else -high
        self.observation_space: Box = Box(low, high, dtype=np.float32)
        limit = answer["limit"]
        self.action_space: Space[Any] = (
            Discrete(answer["actions"]) if self.discrete else Box(-limit, limit, (1,), np.float32)
        )

    def bounds(self, options: Mapping[str, Any] | None) -> dict[str, list[float]]:
        """A reset's bounds that ``options`` replace."""
        if not options:
            return {}
        known = ("x_init", "y_init") if self.name == "Pendulum-v1" else ("low", "high")
        for key in options.keys() - known:
            raise ValueError(f"options[{key!r:.60}]: {self.name} has {known[0]!r} and {known[1]!r}")
        if self.name == "Pendulum-v1":
            high = [
                float(options.get("x_init", self.high[0])),
                float(options.get("y_init", self.high[1])),
            ]
            return {"low": [-x for x in high], "high": high}
        n = len(self.low)
        return {
            "low": [float(options["low"])] * n if "low" in options else self.low.tolist(),
            "high": [float(options["high"])] * n if "high" in options else self.high.tolist(),
        }

    def close(self) -> None:
        """Free the environments, and what they were drawn with."""
        self.handle.close()
        if "twin" in self.__dict__:
            self.twin.close()

    def reset(self, **request: Any) -> None:
        """Begin episodes, and observe."""
        self.handle.call("environments_begin", self.observations, **request)
        self.seeded = True
        begun = np.asarray(request.get("mask", True))
        self.acted = self.acted & ~begun

    def step(self, actions: Any) -> None:
        """Compute a step; what it answers is in the memory."""
        given = np.asarray(actions)
        if given.shape != (self.num,) and (self.discrete or given.shape != (self.num, 1)):
            raise ValueError(
                f"actions: shape {given.shape}, want ({self.num},{'' if self.discrete else ' 1'})"
            )
        if given.dtype.kind not in "iu" if self.discrete else given.dtype != np.float32:
            raise TypeError(
                f"actions: {given.dtype}, want {'integers' if self.discrete else 'float32'}"
            )
        self.actions[...] = (
            given.astype(np.int64).clip(-1, 1 << 30) if self.discrete else given.reshape(-1)
        )
        self.handle.check_fork()
        if not self.seeded:
            raise ResetNeeded("call reset first")
        if self._native_step(*self._arguments):  # also where they have been closed
            self.handle.call("environments_why")
            raise RuntimeError("the library did not take the step")
        if self.render_mode:  # a step that resets an environment ignores its action
            elapsed = np.empty(self.num, np.int32)
            self.handle.call("environments_elapsed", elapsed)
            self.acted = elapsed > 0

    def rows(self, actions: Any, observations: npt.NDArray[np.float32]) -> list[npt.NDArray[Any]]:
        """Compute a step into ``observations``, (N, D); return new arrays: rewards and flags."""
        given = np.asarray(actions)
        if given.shape != (self.num,) and (self.discrete or given.shape != (self.num, 1)):
            raise ValueError(
                f"actions: shape {given.shape}, want ({self.num},{'' if self.discrete else ' 1'})"
            )
        if given.dtype.kind not in "iu" if self.discrete else given.dtype != np.float32:
            raise TypeError(
                f"actions: {given.dtype}, want {'integers' if self.discrete else 'float32'}"
            )
        if self.discrete and given.dtype not in (np.int64, np.int32):
            given = given.astype(np.int64)
        given = np.ascontiguousarray(given)
        self.handle.check_fork()
        if not self.seeded:
            raise ResetNeeded("call reset first")
        out = [np.empty(self.num, dtype) for dtype in (np.float64, np.bool_, np.bool_)]
        arrays = [given, observations, *out]
        self.words[0], *self.words[2:6] = (a.__array_interface__["data"][0] for a in arrays)
        self.words[1] = given.dtype == np.int64
        if self._native_rows(*self._rows):  # also where they have been closed
            self.handle.call("environments_why")
            raise RuntimeError("the library did not take the step")
        return out

    def run(self, steps: int, policy: Any, seed: int | None, record: Sequence[str]) -> Rollout:
        """Run steps in one call."""
        steps = operator.index(steps)
        d, s, n = self.observations.shape[0], self.values, self.num
        kind = np.int32 if self.discrete else np.float32
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {  # in the buffer's order
            "states": (np.float64, (steps, s, n)),
            "rewards": (np.float64, (steps, n)),
            "observations": (np.float32, (steps, d, n)),
            "final_observations": (np.float32, (steps, d, n)),
            "actions": (kind, (steps, n)),
            "policy": (np.float32, ()),
            "terminated": (np.bool_, (steps, n)),
            "truncated": (np.bool_, (steps, n)),
        }
        wrong = [name for name in record if name not in shapes or name == "policy"]
        if wrong:
            known = ", ".join(name for name in shapes if name != "policy")
            raise ValueError(f"record: {wrong[0]!r:.60} is none of {known}")
        if "final_observations" in record and self.autoreset != "same-step":
            raise ValueError(
                'record: final_observations are SameStep\'s: autoreset_mode="SameStep"'
            )
        if steps < 1:
            raise ValueError(f"steps: {steps}, want 1 or more")
        request, given = self._chosen(policy, seed, steps, kind)
        shapes["policy"] = (np.float32, (given.size,) if "sizes" in request else ())
        asked = [
            name
            for name in shapes
            if name in record
            or (given.size and name == ("actions" if "table" in request else "policy"))
        ]
        sizes = [
            int(np.prod(shapes[name][1])) * np.dtype(shapes[name][0]).itemsize for name in asked
        ]
        buffer = np.zeros(max(sum(sizes), 1), dtype=np.uint8)[: sum(sizes)]
        parts = (
            dict(zip(asked, np.split(buffer, np.cumsum(sizes)[:-1]), strict=True)) if asked else {}
        )
        arrays = {
            name: parts[name].view(shapes[name][0]).reshape(shapes[name][1]) for name in asked
        }
        if given.size:
            arrays["actions" if "table" in request else "policy"][...] = given
        if not self.seeded:
            raise ResetNeeded("call reset first")
        self.acted[...] = False  # nobody knows the last action
        self.handle.long_call(
            "environments_run", buffer, steps=steps, record=list(record), **request
        )
        return Rollout(
            **{
                name: a.transpose(0, 2, 1) if (a := arrays[name]).ndim == 3 else a
                for name in record
            }
        )

    def run_there(
        self, steps: int, policy: Any, seed: int | None, record: Sequence[str]
    ) -> Rollout:
        """Run steps whose record stays on the GPU."""
        if self.place is None:
            raise ValueError(
                f'device=True: the {self.engine} engine has no arrays on a GPU: use engine="gpu"'
            )
        if not self.seeded:
            raise ResetNeeded("call reset first")
        steps = operator.index(steps)
        d, s, n = self.observations.shape[0], self.values, self.num
        kind = "int32" if self.discrete else "float32"
        request: dict[str, Any] = {}
        numbers, held = np.empty(0), None
        if on_device(policy):
            check_seed(policy, seed)
            address, held = self.place.address(
                policy, "policy", (steps, n), self.handle, dtype=kind
            )
            request = {"address": address}
        else:
            request, numbers = self._chosen(
                policy, seed, steps, np.int32 if self.discrete else np.float32
            )
            if "table" in request:
                raise TypeError("policy: with device=True a table is an array on the GPU")
        buffer = (
            np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint8)
            if "sizes" in request
            else None
        )
        self.acted[...] = False  # nobody knows the last action
        where = self.handle.long_call(
            "environments_device", buffer, steps=steps, record=list(record), **request
        )
        del held  # the steps are done
        shapes = {
            "states": ((steps, s, n), "float64"),
            "rewards": ((steps, n), "float64"),
            "observations": ((steps, d, n), "float32"),
            "final_observations": ((steps, d, n), "float32"),
            "actions": ((steps, n), kind),
            "terminated": ((steps, n), "bool"),
            "truncated": ((steps, n), "bool"),
        }
        arrays: dict[str, Any] = {
            name: DeviceArray(
                self.place, where[name], shapes[name][0], self.handle, shapes[name][1]
            )
            for name in record
        }
        return Rollout(**arrays)

    def _chosen(
        self, policy: Any, seed: int | None, steps: int, kind: Any
    ) -> tuple[dict[str, Any], npt.NDArray[Any]]:
        """What a policy is in a request, and the numbers that go with it."""
        check_seed(policy, seed)
        if isinstance(policy, Network):
            sizes, numbers, noise = policy._parts()
            flat = np.concatenate([x.reshape(-1) for x in [*numbers, noise]])
            draws = 0 if policy.seed is None else operator.index(policy.seed)
            return {"sizes": sizes, "noise": noise.size, "seed": draws}, flat
        if isinstance(policy, str):
            if policy != "random":
                raise ValueError(
                    f"policy: {policy!r:.60}: want 'random', a table of actions, or a Network"
                )
            return {"uniform": 0 if seed is None else operator.index(seed)}, np.empty(0)
        table = np.asarray(policy)
        if table.ndim and not self.discrete and table.shape[-1:] == (1,) and table.ndim == 3:
            table = table[..., 0]
        if table.shape not in ((steps,), (steps, self.num)):
            raise ValueError(
                f"policy: a table of shape {table.shape}, want ({steps},) or ({steps}, {self.num})"
            )
        if table.dtype.kind not in "iu" if self.discrete else table.dtype != np.float32:
            raise TypeError(
                f"policy: {table.dtype}, want {'integers' if self.discrete else 'float32'}"
            )
        if self.discrete:
            table = table.astype(np.int64).clip(-1, 1 << 30)
        return {"table": True}, np.broadcast_to(table.reshape(steps, -1), (steps, self.num)).astype(
            kind
        )

    def totals(self) -> dict[str, Any]:
        """Sums of rewards and episodes since all were reset, and what has passed to a device."""
        out = np.empty(16 * self.num, dtype=np.uint8)
        answer = self.handle.call("environments_totals", out)
        half = 8 * self.num
        sums = {"rewards": out[:half].view(np.float64), "episodes": out[half:].view(np.int64)}
        return {"steps": answer["steps"], **sums, "stats": answer["stats"]}

    def snapshot(self) -> Snapshot:
        """Where the environments are."""
        if not self.seeded:
            raise ResetNeeded("call reset first")
        return Snapshot(self.handle.call("environments_snapshot"))

    def restore(self, snapshot: Snapshot) -> None:
        """Have them go on from a snapshot, also where they have never been reset."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"snapshot: {type(snapshot).__name__}, want what snapshot() returned")
        before = self.seeded
        if not before:
            self.reset(seed=0)
        self.seeded = before  # what is refused begins no episodes
        self.handle.call("environments_restore", self.observations, snapshot=snapshot.id)
        self.seeded = True
        self.terminated[...], self.truncated[...], self.acted[...] = False, False, False

    @property
    def states(self) -> npt.NDArray[np.float64]:
        """The environments' states, float64, shape (N, S)."""
        out = np.empty((self.values, self.num))
        self.handle.call("environments_state", out)
        return out.T

    @states.setter
    def states(self, states: Any) -> None:
        given = np.asarray(states)
        want = self.states.shape
        if given.shape != want or given.dtype not in (np.float64, np.float32):
            raise ValueError(
                f"state: {given.dtype} of shape {given.shape}, want float64 of shape {want}"
            )
        if not self.seeded:
            raise ResetNeeded("call reset first")
        columns = np.ascontiguousarray(given.T, dtype=np.float64)
        self.handle.call("environments_set", columns, single=given.dtype == np.float32)

    @property
    def metadata(self) -> dict[str, Any]:
        """That of Gymnasium's own environment."""
        spec = gymnasium.spec(self.name.replace("VectorEnv", "-v1"))
        make: Any = load_env_creator(str(spec.entry_point))
        return dict(make.metadata)

    @functools.cached_property
    def twin(self) -> Any:
        """Gymnasium's own environment, which has the attributes and draws the states."""
        name = self.name.replace("VectorEnv", "-v1")
        parameters = inspect.signature(type(gymnasium.make(name).unwrapped).__init__).parameters
        taken = {key: value for key, value in self.given.items() if key in parameters}
        mode = self.render_mode or "rgb_array"
        env = gymnasium.make(name, render_mode=mode, disable_env_checker=True, **taken).unwrapped
        for key in self.given.keys() - taken:
            if hasattr(env, key):
                setattr(env, key, self.given[key])
        return env

    def render(self, i: int) -> Any:
        """A picture of environment i, uint8 (height, width, 3), as Gymnasium draws it."""
        if not self.seeded:
            raise ResetNeeded("call reset first")
        twin, state = self.twin, self.states[i]
        twin.state = state
        if self.name == "Pendulum-v1":  # whose torque is drawn, too
            torque = np.clip(self.actions[i], -twin.max_torque, twin.max_torque)
            twin.last_u = torque if self.acted[i] else None
        return twin.render()


def check_seed(policy: Any, seed: int | None) -> None:
    """Refuse a run's seed with a policy that draws nothing by it."""
    if seed is not None and not isinstance(policy, str):
        own = ": a Network has its own" if isinstance(policy, Network) else ""
        raise ValueError(f'seed={seed}: it goes with policy="random"{own}')


class _Fixed(_native.Uncopied):
    """An environment whose attributes are Gymnasium's, to be read alone."""

    _core: _Core

    def __getattr__(self, name: str) -> Any:
        core = self.__dict__.get("_core")
        if core is None or name.startswith("_") or not _is_constant(core.twin, name):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = getattr(core.twin, name)
        if isinstance(value, list):
            return tuple(value)  # whose elements nobody can change in vain
        if isinstance(value, np.ndarray):
            value = value.view()
            value.flags.writeable = False
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        core = self.__dict__.get("_core")
        if core is not None and name in ("np_random", "steps_beyond_terminated", "last_u"):
            raise AttributeError(
                f"{name}: it cannot be set: the library has its own; reset takes a seed"
            )
        if core is not None and not hasattr(type(self), name) and _is_constant(core.twin, name):
            raise AttributeError(
                f"{name}: it cannot be changed, since nothing would heed it: "
                "give what Gymnasium takes as an option, or book_or_nips and "
                "kinematics_integrator, to gymnasium.make"
            )
        super().__setattr__(name, value)


def _is_constant(env: Any, name: str) -> bool:
    """Whether Gymnasium's environment computes or draws with such an attribute."""
    return (
        isinstance(getattr(env, name, None), (bool, int, float, str, list, np.ndarray))
        and name != "state"
    )


class Env(_Fixed, gymnasium.Env[npt.NDArray[np.float32], Any]):
    """One environment, as ``gymnasium.make`` has it below its wrappers.

    Parameters
    ----------
    name : str
        Gymnasium's id of it.
    engine : str
        ``"auto"``, which is the fastest that can run here, or an engine's name.
    numpy1 : bool
        Whether to compute as Gymnasium does with NumPy 1.
    **options
        The environment's own, as ``gymnasium.make`` takes them, and those that Gymnasium has as
        attributes: ``kinematics_integrator`` of CartPole, ``book_or_nips`` of Acrobot.
    """

    metadata: dict[str, Any] = {"render_modes": list(MODES_OF_RENDERING), "render_fps": 50}  # noqa: RUF012 as in the base class

    def __init__(
        self,
        name: str,
        engine: str = "auto",
        numpy1: bool = False,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self.render_mode = render_mode
        options = {"max_episode_steps": -1} | options
        self._core = _Core(name, 1, "off", engine, 1, numpy1, render_mode, options)
        self.metadata = self._core.metadata.copy()
        self.observation_space: Space[Any] = self._core.observation_space
        self.action_space: Space[Any] = self._core.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; ``options`` are Gymnasium's bounds of the first state."""
        given = None if seed is None else operator.index(seed)
        if given is not None:
            seeding.np_random(given)  # refuses as Gymnasium does, before anything is changed
        if seed is None and not self._core.seeded:
            seed = secrets.randbits(60)
        which = {"continue": True} if seed is None else {"seed": operator.index(seed)}
        with self._core.turn:
            self._core.reset(**which, **self._core.bounds(options))
            super().reset(seed=given)
            if self.render_mode == "human":
                self.render()
            return self._core.observations[:, 0].copy(), {}

    def step(
        self, action: Any
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Act once."""
        core = self._core
        with core.turn:
            core.step(np.asarray(action).reshape(1))
            if self.render_mode == "human":
                self.render()
            ends = bool(core.terminated[0]), bool(core.truncated[0])
            return core.observations[:, 0].copy(), float(core.rewards[0]), *ends, {}

    @property
    def state(self) -> npt.NDArray[np.float64]:
        """The state, float64, shape (S,). It can be set, as planners do."""
        state: npt.NDArray[np.float64] = self._core.states[0]
        return state

    @state.setter
    def state(self, state: Any) -> None:
        given = np.asarray(state)
        self._core.states = given[np.newaxis] if given.ndim else given

    def snapshot(self) -> Snapshot:
        """Where the environment is between two steps."""
        return self._core.snapshot()

    def restore(self, snapshot: Snapshot) -> npt.NDArray[np.float32]:
        """Have it go on from a snapshot of one environment; its last observation is returned."""
        with self._core.turn:
            self._core.restore(snapshot)
            return self._core.observations[:, 0].copy()

    def render(self) -> Any:
        """Return a picture, uint8 (height, width, 3), or show a window, as Gymnasium does.

        Needs pygame.
        """
        return None if self.render_mode is None else self._core.render(0)

    def close(self) -> None:
        """Free it."""
        self._core.close()


class VectorEnv(
    _Fixed, gymnasium.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]
):
    """Many environments in step. The same as as many single ones, in every bit.

    Parameters
    ----------
    name : str
        Gymnasium's id of one, or ``"CartPoleVectorEnv"``.
    num_envs : int
        Number of environments, N. Environment i is seeded with seed + i.
    autoreset_mode : AutoresetMode or str
        ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``, as Gymnasium defines them.
    max_episode_steps : int, optional
        Of an episode, to 2,000,000,000; -1 is none. By default Gymnasium's.
    copy : bool
        Whether observations are new arrays; else one array is used again.
    engine, numpy1, **options
        As for :class:`Env`.
    workers : int, optional
        Cores to use. By default what OMP_NUM_THREADS says, else what the process may use.
    stream : int
        The CUDA stream on which the GPU's work goes, as for :class:`lockstep.Simulator`.
    """

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        copy: bool = True,
        engine: str = "auto",
        workers: int | None = None,
        numpy1: bool = False,
        render_mode: str | None = None,
        stream: int = 0,
        **options: Any,
    ) -> None:
        self.num_envs = num_envs = operator.index(num_envs)
        if render_mode == "human":
            raise ValueError(
                "render_mode='human': a window shows one environment; want None or 'rgb_array'"
            )
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if max_episode_steps is not None:
            options["max_episode_steps"] = max_episode_steps
        self._core = _Core(
            name,
            num_envs,
            MODES[self.autoreset_mode],
            engine,
            workers,
            numpy1,
            render_mode,
            options,
            stream,
        )
        self.metadata = self._core.metadata | {
            "render_modes": ["rgb_array"],
            "autoreset_mode": self.autoreset_mode,
        }
        self._copy = copy
        how: dict[str, Any] = {
            "copy": copy,
            "engine": engine,
            "workers": workers,
            "numpy1": numpy1,
            "render_mode": render_mode,
            "stream": stream,
        }
        self._made = type(self), name, how | options | {"autoreset_mode": self.autoreset_mode}
        self.single_observation_space, self.single_action_space = (
            self._core.observation_space,
            self._core.action_space,
        )
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations = np.zeros(
            (num_envs, self.single_observation_space.shape[0]), dtype=np.float32
        )

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin episodes: all, or those of ``options={"reset_mask": mask}``, bool of shape (N,)."""
        request: dict[str, Any] = {}
        if seed is None:
            request = {"continue": True} if self._core.seeded else {"seed": secrets.randbits(60)}
        elif isinstance(seed, (int, np.integer)):
            request = {"seed": int(seed)}
        else:
            seeds = list(seed)
            if len(seeds) != self.num_envs:
                raise ValueError(f"seed: {len(seeds)} of them, want {self.num_envs}")
            if None in seeds:
                raise ValueError(
                    f"seed: environment {seeds.index(None)} has none, and others may have: want "
                    "all or none"
                )
            request = {"seeds": [operator.index(s) for s in seeds if s is not None]}
        bounds = dict(options or {})
        mask = bounds.pop("reset_mask", None)
        if mask is not None:
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
                raise TypeError("options['reset_mask']: want a numpy array of bool")
            request["mask"] = mask.tolist()
        with self._core.turn:
            self._core.reset(**request, **self._core.bounds(bounds))
            return self._observed(), {}

    def _observed(self) -> npt.NDArray[np.float32]:
        if self._copy:
            return self._core.observations.T.copy()  # of one environment it is contiguous already
        self._observations[...] = self._core.observations.T
        return self._observations

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[Any],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Act once in each; ``actions`` has shape (N,), or (N, 1) where they are float32."""
        core = self._core
        observations = np.empty_like(self._observations) if self._copy else self._observations
        with core.turn:
            if core.render_mode is None:
                rewards, terminated, truncated = core.rows(actions, observations)
            else:
                core.step(actions)
                observations[...] = core.observations.T
                rewards, terminated, truncated = (
                    x.copy() for x in (core.rewards, core.terminated, core.truncated)
                )
            infos: dict[str, Any] = {}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = self._finals(terminated | truncated)
            return (
                observations,
                rewards.astype(np.float32) if core.shared else rewards,
                terminated,
                truncated,
                infos,
            )

    def run(
        self,
        steps: int,
        policy: Any = "random",
        seed: int | None = None,
        record: Sequence[str] = ("observations", "actions", "rewards", "terminated", "truncated"),
        device: bool = False,
    ) -> Rollout:
        """Run many steps in one call, with a policy inside the engine.

        Parameters
        ----------
        steps : int
            How many.
        policy : "random", array_like or Network
            Uniform actions; or a table of actions, (steps,) or (steps, N); or a network.
        seed : int, optional
            Of ``"random"``, with which alone it goes, by default 0.
        record : sequence of str
            What is returned of each step: ``states``, ``rewards``, ``observations``,
            ``final_observations`` (with SameStep), ``actions``, ``terminated``, ``truncated``.
            Nothing, for ``()``.
        device : bool
            With ``engine="gpu"``: leave the arrays on the GPU, each a :class:`lockstep.DeviceArray`
            of shape (steps, N)
            or (steps, values, N), which the next run overwrites. A table is then an array there,
            int32 or float32; nobody checks its actions.

        Returns
        -------
        Rollout
        """
        with self._core.turn:
            return (self._core.run_there if device else self._core.run)(steps, policy, seed, record)

    def totals(self) -> dict[str, Any]:
        """Since all were reset: ``steps``, and of each environment ``rewards`` and ``episodes``.

        The steps are those of all environments together. ``stats`` says what has passed between
        host and device, where there is one.
        """
        return self._core.totals()

    def snapshot(self) -> Snapshot:
        """Where the environments are between two steps."""
        return self._core.snapshot()

    def restore(self, snapshot: Snapshot) -> npt.NDArray[np.float32]:
        """Have them go on from a snapshot; the last observations are returned, (N, D)."""
        with self._core.turn:
            self._core.restore(snapshot)
            return self._observed()

    def fork(self, index: Sequence[int], snapshot: Snapshot | None = None) -> VectorEnv:
        """Fork: environment k goes on where environment ``index[k]`` is, or was in the snapshot.

        They share nothing with these, and draw the same resets.
        """
        places = [operator.index(i) for i in index]
        with self._core.turn:
            at = self._core.snapshot() if snapshot is None else snapshot
            forked = Snapshot(
                self._core.handle.call("environments_fork", snapshot=at.id, index=places)
            )
        made, name, arguments = self._made
        envs = made(name, len(places), **arguments)
        envs.restore(forked)
        return envs

    def _finals(self, ended: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The last observations of episodes that have ended, as Gymnasium tells them."""
        which = np.flatnonzero(ended)
        if not which.size:
            return {}
        final = np.full(self.num_envs, None, dtype=object)
        for i, row in zip(which, np.ascontiguousarray(self._core.final.T[which]), strict=True):
            final[i] = row
        return {
            "final_obs": final,
            "_final_obs": ended.copy(),
            "final_info": {},
            "_final_info": ended.copy(),
        }

    @property
    def states(self) -> npt.NDArray[np.float64]:
        """The states, float64, shape (N, S). They can be set."""
        return self._core.states

    @states.setter
    def states(self, states: Any) -> None:
        self._core.states = states

    def render(self) -> tuple[Any, ...] | None:
        """Pictures, uint8 (height, width, 3) each, as Gymnasium draws them. Needs pygame."""
        return (
            None
            if self.render_mode is None
            else tuple(self._core.render(i) for i in range(self.num_envs))
        )

    def close_extras(self, **_: Any) -> None:
        """Free them."""
        self._core.close()
