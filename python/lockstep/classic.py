"""Gymnasium's classic control environments, in every bit, at many times their speed.

>>> import gymnasium, lockstep
>>> envs = gymnasium.make_vec("lockstep/CartPole-v1", num_envs=4096)        # doctest: +SKIP
>>> env = gymnasium.make("lockstep/Acrobot-v1", book_or_nips="nips")         # doctest: +SKIP

The names are Gymnasium's with ``lockstep/`` before them, and so are the options of each. A vector
answers what ``gymnasium.vector.SyncVectorEnv`` of as many single environments answers, rewards
float64; ``lockstep/CartPoleVectorEnv-v1`` is Gymnasium's own vector class for CartPole, with its one
generator for all environments. Actions are checked more strictly: float32 where Gymnasium has
float32, integers where it has integers, none that is NaN. The states can be set. Other attributes of
Gymnasium's environments can be read; what an environment computes with is given when it is made.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
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
    ) -> None:
        if render_mode not in (None, *MODES_OF_RENDERING):
            raise ValueError(f"render_mode={render_mode!r:.60}: want None, {' or '.join(MODES_OF_RENDERING)}")
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
        self.given, self.autoreset = options, autoreset
        self.render_mode = render_mode
        self.acted = np.zeros(num, dtype=np.bool_)  # whether the last step was an action, if it is drawn
        self._arguments = (ctypes.c_int64(self.handle.id), ctypes.c_void_p(memory.ctypes.data))
        self.rewards = parts[0].view(np.float64)
        self.actions = parts[1].view(np.int32 if self.discrete else np.float32)
        self.observations, self.final = (p.view(np.float32).reshape(d, num) for p in parts[2:4])
        self.terminated, self.truncated = (p.view(np.bool_) for p in parts[4:])
        self._native_step = _native.library().lockstep_environments_step
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
        if self.name == "Pendulum-v1":
            high = [float(options.get("x_init", self.high[0])), float(options.get("y_init", self.high[1]))]
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
            raise ValueError(f"actions: shape {given.shape}, want ({self.num},{'' if self.discrete else ' 1'})")
        if given.dtype.kind not in "iu" if self.discrete else given.dtype != np.float32:
            raise TypeError(f"actions: {given.dtype}, want {'integers' if self.discrete else 'float32'}")
        self.actions[...] = given.astype(np.int64).clip(-1, 1 << 30) if self.discrete else given.reshape(-1)
        self.handle.check_fork()
        if not self.seeded:
            raise ResetNeeded("call reset first")
        again = self.terminated | self.truncated if self.render_mode else None
        if self._native_step(*self._arguments):  # also where they have been closed
            self.handle.call("environments_why")
            raise RuntimeError("the library did not take the step")
        if again is not None:  # a step that resets an environment ignores its action
            ended = {"next-step": again, "same-step": self.terminated | self.truncated}
            self.acted = ~ended.get(self.autoreset, np.zeros_like(again))

    @property
    def states(self) -> npt.NDArray[np.float64]:
        """The environments' states, float64, shape (N, S)."""
        n = {"Pendulum-v1": 2, "MountainCar-v0": 2, "MountainCarContinuous-v0": 2}.get(self.name, 4)
        out = np.empty((n, self.num))
        self.handle.call("environments_state", out)
        return out.T

    @states.setter
    def states(self, states: Any) -> None:
        given = np.asarray(states)
        want = self.states.shape
        if given.shape != want or given.dtype not in (np.float64, np.float32):
            raise ValueError(f"state: {given.dtype} of shape {given.shape}, want float64 of shape {want}")
        if not self.seeded:
            raise ResetNeeded("call reset first")
        columns = np.ascontiguousarray(given.T, dtype=np.float64)
        self.handle.call("environments_set", columns, single=given.dtype == np.float32)

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


class _Fixed:
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
            raise AttributeError(f"{name}: it cannot be set: the library has its own; reset takes a seed")
        if core is not None and not hasattr(type(self), name) and _is_constant(core.twin, name):
            raise AttributeError(
                f"{name}: it cannot be changed, since nothing would heed it: "
                "give what Gymnasium takes as an option, or book_or_nips and kinematics_integrator, to gymnasium.make"
            )
        super().__setattr__(name, value)


def _is_constant(env: Any, name: str) -> bool:
    """Whether Gymnasium's environment computes or draws with such an attribute."""
    return isinstance(getattr(env, name, None), (bool, int, float, str, list, np.ndarray)) and name != "state"


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
        The environment's own, as ``gymnasium.make`` takes them, and those that Gymnasium has as attributes:
        ``kinematics_integrator`` of CartPole, ``book_or_nips`` of Acrobot.
    """

    metadata: dict[str, Any] = {"render_modes": list(MODES_OF_RENDERING), "render_fps": 50}  # noqa: RUF012 as in the base class

    def __init__(
        self, name: str, engine: str = "auto", numpy1: bool = False, render_mode: str | None = None, **options: Any
    ) -> None:
        self.render_mode = render_mode
        options = {"max_episode_steps": -1} | options
        self._core = _Core(name, 1, "off", engine, 1, numpy1, render_mode, options)
        if render_mode is not None:
            self.metadata = self.metadata | {"render_fps": self._core.twin.metadata["render_fps"]}
        self.observation_space: Space[Any] = self._core.observation_space
        self.action_space: Space[Any] = self._core.action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode; ``options`` are Gymnasium's bounds of the first state."""
        super().reset(seed=None if seed is None else operator.index(seed))
        if seed is None and not self._core.seeded:
            seed = secrets.randbits(60)
        which = {"continue": True} if seed is None else {"seed": operator.index(seed)}
        self._core.reset(**which, **self._core.bounds(options))
        if self.render_mode == "human":
            self.render()
        return self._core.observations[:, 0].copy(), {}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
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

    def render(self) -> Any:
        """A picture, uint8 (height, width, 3), as Gymnasium draws it; with ``"human"`` a window. Needs pygame."""
        return None if self.render_mode is None else self._core.render(0)

    def close(self) -> None:
        """Free it."""
        self._core.close()


class VectorEnv(_Fixed, gymnasium.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]):
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
        self.num_envs = num_envs = operator.index(num_envs)
        if render_mode == "human":
            raise ValueError("render_mode='human': a window shows one environment; want None or 'rgb_array'")
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": ["rgb_array"], "autoreset_mode": self.autoreset_mode}
        if max_episode_steps is not None:
            options["max_episode_steps"] = max_episode_steps
        self._core = _Core(name, num_envs, MODES[self.autoreset_mode], engine, workers, numpy1, render_mode, options)
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
        with self._core.turn:
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
        with core.turn:
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
        """The states, float64, shape (N, S). They can be set."""
        return self._core.states

    @states.setter
    def states(self, states: Any) -> None:
        self._core.states = states

    def render(self) -> tuple[Any, ...] | None:
        """A picture of each environment, uint8 (height, width, 3), as Gymnasium draws it. Needs pygame."""
        return None if self.render_mode is None else tuple(self._core.render(i) for i in range(self.num_envs))

    def close_extras(self, **_: Any) -> None:
        """Free them."""
        self._core.close()
