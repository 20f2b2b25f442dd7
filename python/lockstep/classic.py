"""Gymnasium's classic control environments, in every bit, at many times their speed.

>>> import gymnasium, lockstep
>>> envs = gymnasium.make_vec("lockstep/CartPole-v1", num_envs=4096)        # doctest: +SKIP
>>> env = gymnasium.make("lockstep/Acrobot-v1", book_or_nips="nips")         # doctest: +SKIP

The names are Gymnasium's with ``lockstep/`` before them, and so are the options of each. A vector
answers what ``gymnasium.vector.SyncVectorEnv`` of as many single environments answers, rewards
float64; ``lockstep/CartPoleVectorEnv-v1`` is Gymnasium's own vector class for CartPole, with its one
generator for all environments. Actions are checked more strictly: float32 where Gymnasium has
float32, integers where it has integers, none that is NaN.
"""

from __future__ import annotations

import ctypes
import operator
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from lockstep import _native
from lockstep.simulator import count_workers

__all__ = ["Env", "VectorEnv"]

MODES = {
    AutoresetMode.NEXT_STEP: "next-step",
    AutoresetMode.SAME_STEP: "same-step",
    AutoresetMode.DISABLED: "disabled",
}
POLE = [4.8, np.inf, 24 * 2 * np.pi / 360, np.inf]

# Options that Gymnasium's environments have as attributes.
ATTRIBUTES = ("kinematics_integrator", "book_or_nips")

# The greatest observation; the least is minus that, or the second.
BOUNDS: dict[str, list[list[float]]] = {
    "CartPole-v1": [POLE],
    "CartPoleVectorEnv": [POLE],
    "MountainCar-v0": [[0.6, 0.07], [-1.2, -0.07]],
    "MountainCarContinuous-v0": [[0.6, 0.07], [-1.2, -0.07]],
    "Pendulum-v1": [[1.0, 1.0, 8.0]],
    "Acrobot-v1": [[1.0, 1.0, 1.0, 1.0, 4 * np.pi, 9 * np.pi]],
}


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
        options: dict[str, Any],
    ) -> None:
        answer = _native.call(
            "environments",
            environment=name,
            num=operator.index(num),
            autoreset=autoreset,
            engine=_native.text("engine", engine),
            workers=count_workers(workers),
            numpy1=numpy1,
            options={key: str(value) for key, value in options.items()},
        )
        self.handle = _native.Handle(answer["handle"], "environments")
        self.engine: str = answer["engine"]
        self.name, self.num, self.shared = name, num, answer["shared"]
        self.low, self.high = np.array(answer["low"]), np.array(answer["high"])
        self.discrete, d = answer["actions"] > 0, answer["observations"]
        # See environments.step in python/native/classic.go.
        memory = np.zeros(8 * num + 4 * num + 2 * 4 * num * d + 2 * num, dtype=np.uint8)
        ends = np.cumsum([8 * num, 4 * num, 4 * num * d, 4 * num * d, num, num])
        parts = np.split(memory, ends[:-1])
        self._memory = memory
        self._arguments = (ctypes.c_int64(self.handle.id), ctypes.c_void_p(memory.ctypes.data))
        self.rewards = parts[0].view(np.float64)
        self.actions = parts[1].view(np.int32 if self.discrete else np.float32)
        self.observations, self.final = (p.view(np.float32).reshape(d, num) for p in parts[2:4])
        self.terminated, self.truncated = (p.view(np.bool_) for p in parts[4:])
        self._native_step = _native.library().lockstep_environments_step
        self.seeded = False

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
        if self.name == "Pendulum-v1":
            high = [float(options.get("x_init", self.high[0])), float(options.get("y_init", self.high[1]))]
            return {"low": [-x for x in high], "high": high}
        n = len(self.low)
        return {
            "low": [float(options["low"])] * n if "low" in options else self.low.tolist(),
            "high": [float(options["high"])] * n if "high" in options else self.high.tolist(),
        }

    def reset(self, **request: Any) -> None:
        """Begin episodes, and observe."""
        self.handle.call("environments_begin", self.observations, **request)
        self.seeded = True

    def step(self, actions: Any) -> None:
        """Compute a step; what it answers is in the memory."""
        given = np.asarray(actions)
        if given.shape != (self.num,) and (self.discrete or given.shape != (self.num, 1)):
            raise ValueError(f"actions: shape {given.shape}, want ({self.num},{'' if self.discrete else ' 1'})")
        if given.dtype.kind not in "iu" if self.discrete else given.dtype != np.float32:
            raise TypeError(f"actions: {given.dtype}, want {'integers' if self.discrete else 'float32'}")
        self.actions[...] = given.astype(np.int64).clip(-1, 1 << 30) if self.discrete else given.reshape(-1)
        if _native._forked:
            _native.check_fork()
        if not self.seeded:
            raise ResetNeeded("call reset first")
        if self._native_step(*self._arguments):  # also where they have been closed
            self.handle.call("environments_why")
            raise RuntimeError("the library did not take the step")

    def states(self) -> npt.NDArray[np.float64]:
        """The environments' states, float64, shape (N, S)."""
        n = {"Pendulum-v1": 2, "MountainCar-v0": 2, "MountainCarContinuous-v0": 2}.get(self.name, 4)
        out = np.empty((n, self.num))
        self.handle.call("environments_state", out)
        return out.T


class Env(gymnasium.Env[npt.NDArray[np.float32], Any]):
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
        The environment's own, as ``gymnasium.make`` takes them, and those that Gymnasium has as attributes:
        ``kinematics_integrator`` of CartPole, ``book_or_nips`` of Acrobot.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 as in the base class

    def __init__(
        self, name: str, engine: str = "auto", numpy1: bool = False, render_mode: str | None = None, **options: Any
    ) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r:.60}: there is none, want None")
        self.render_mode = render_mode
        self._core = _Core(name, 1, "off", engine, 1, numpy1, {"max_episode_steps": -1} | options)
        self.observation_space: Space[Any] = self._core.observation_space
        self.action_space: Space[Any] = self._core.action_space

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ATTRIBUTES:  # else it would be set, and nothing would heed it
            raise AttributeError(f"{name}: it cannot be changed: give it to gymnasium.make")
        super().__setattr__(name, value)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; ``options`` are Gymnasium's bounds of the first state."""
        super().reset(seed=seed)
        if seed is None and not self._core.seeded:
            seed = secrets.randbits(60)
        which = {"continue": True} if seed is None else {"seed": operator.index(seed)}
        self._core.reset(**which, **self._core.bounds(options))
        return self._core.observations[:, 0].copy(), {}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Act once."""
        core = self._core
        core.step(np.asarray(action).reshape(1))
        return (
            core.observations[:, 0].copy(),
            float(core.rewards[0]),
            bool(core.terminated[0]),
            bool(core.truncated[0]),
            {},
        )

    @property
    def state(self) -> npt.NDArray[np.float64]:
        """The state, float64, shape (S,)."""
        state: npt.NDArray[np.float64] = self._core.states()[0]
        return state

    def close(self) -> None:
        """Free it."""
        self._core.handle.close()


class VectorEnv(gymnasium.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]):
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
        Of an episode; -1 is none. By default Gymnasium's.
    copy : bool
        Whether observations are new arrays; else one array is used again.
    engine, numpy1, **options
        As for :class:`Env`.
    workers : int, optional
        Cores to use. By default what OMP_NUM_THREADS says, else what the process may use.
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
        **options: Any,
    ) -> None:
        self.num_envs = num_envs
        if render_mode is not None:
            raise ValueError(f"render_mode={render_mode!r:.60}: there is none, want None")
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        if max_episode_steps is not None:
            options["max_episode_steps"] = max_episode_steps
        self._core = _Core(name, num_envs, MODES[self.autoreset_mode], engine, workers, numpy1, options)
        self._copy = copy
        self.single_observation_space, self.single_action_space = self._core.observation_space, self._core.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._observations = np.zeros((num_envs, self.single_observation_space.shape[0]), dtype=np.float32)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
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
                    f"seed: environment {seeds.index(None)} has none, and others may have: want all or none"
                )
            request = {"seeds": [operator.index(s) for s in seeds if s is not None]}
        bounds = dict(options or {})
        mask = bounds.pop("reset_mask", None)
        if mask is not None:
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
                raise TypeError("options['reset_mask']: want a numpy array of bool")
            request["mask"] = mask.tolist()
        self._core.reset(**request, **self._core.bounds(bounds))
        return self._observed(), {}

    def _observed(self) -> npt.NDArray[np.float32]:
        if self._copy:
            return np.ascontiguousarray(self._core.observations.T)
        self._observations[...] = self._core.observations.T
        return self._observations

    def step(
        self, actions: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Act once in each; ``actions`` has shape (N,), or (N, 1) where they are float32."""
        core = self._core
        core.step(actions)
        infos: dict[str, Any] = {}
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            infos = self._finals(core.terminated | core.truncated)
        rewards = core.rewards.astype(np.float32) if core.shared else core.rewards.copy()
        return self._observed(), rewards, core.terminated.copy(), core.truncated.copy(), infos

    def _finals(self, ended: npt.NDArray[np.bool_]) -> dict[str, Any]:
        """The last observations of episodes that have ended, as Gymnasium tells them."""
        which = np.flatnonzero(ended)
        if not which.size:
            return {}
        final = np.full(self.num_envs, None, dtype=object)
        for i, row in zip(which, np.ascontiguousarray(self._core.final.T[which]), strict=True):
            final[i] = row
        return {"final_obs": final, "_final_obs": ended.copy(), "final_info": {}, "_final_info": ended.copy()}

    @property
    def states(self) -> npt.NDArray[np.float64]:
        """The states, float64, shape (N, S)."""
        return self._core.states()

    def close_extras(self, **_: Any) -> None:
        """Free them."""
        self._core.handle.close()
