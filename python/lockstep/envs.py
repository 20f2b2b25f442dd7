"""Gymnasium environments: the agent drives from step 100 to step 500, or to the route's end.

The observation is :meth:`Rollouts.features <lockstep.Rollouts.features>` and a clock, 0 at the
first step and 1 at the end, where everything else is 0. The action is a steer command. The
rewards of an episode sum to minus its total cost but for rounding; the exact costs are in
``info["costs"]`` when it ends. An episode's end is a termination: the task has that length.

``seed`` picks the order of the routes. The noise is the route's own, as in the challenge, unless
``noise="seed"``. Environment i of a vector is seeded with seed + i, and what happens in it depends
on that alone, not on the other environments, workers or engine.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from lockstep import _drawing, _memory, _native
from lockstep.rollouts import (
    CONTEXT_LENGTH,
    CONTROL_START_IDX,
    COST_END_IDX,
    FEATURES,
    REAL,
    ROLLOUT_BYTES,
    STEER_MAX,
    STEER_MIN,
    Rollouts,
)
from lockstep.simulator import Routes, Simulator

__all__ = ["Env", "VectorEnv"]

# A route, and its draws if they are not the route's own.
_Episode = tuple[int, list[npt.NDArray[np.float64]]]
Observe = Callable[[Rollouts, Routes], npt.NDArray[np.floating[Any]]]
RoutesLike = Union[Routes, str, "os.PathLike[str]", Sequence[Union[str, "os.PathLike[str]"]]]


class _Task:
    """What single and vector environments have in common: routes, spaces, observations."""

    def __init__(
        self,
        routes: RoutesLike,
        obs: str | Observe,
        noise: str,
        observation_space: Box | None,
        render_mode: str | None,
        simulator: dict[str, Any],
    ) -> None:
        if isinstance(routes, Routes):
            if simulator:
                raise ValueError(f"{', '.join(simulator)}: the routes have a simulator already")
            self.routes = routes
        else:
            self.routes = Simulator(**simulator).load(routes)
        if not len(self.routes):
            raise ValueError("routes: there is none")
        if noise not in ("route", "seed"):
            raise ValueError(f'noise={noise!r:.60}: want "route" or "seed"')
        if render_mode not in (None, "rgb_array", "human"):
            raise ValueError(f"render_mode={render_mode!r:.60}: want None, 'rgb_array' or 'human'")
        self.seeded = noise == "seed"
        self.featured = False  # whether the library observes
        if callable(obs):
            if observation_space is None:
                raise ValueError(
                    "obs is a function: give the observation_space of what it returns, without the "
                    "clock"
                )
            inner, self.observe = observation_space, obs
        elif observation_space is not None:
            raise ValueError(
                "observation_space: it is that of what obs returns, and obs is no function"
            )
        elif obs == "features":
            inner, self.observe = (
                Box(-5.0, 5.0, (FEATURES,), np.float32),
                lambda rollouts, _: rollouts.features(),
            )
            self.featured = True
        else:
            raise ValueError(f'obs={obs!r:.60}: want "features" or a function')
        if len(inner.shape) != 1:
            raise ValueError(f"observation_space: shape {inner.shape}, want one dimension")
        self.observation_space = Box(
            np.append(inner.low, 0).astype(np.float32),
            np.append(inner.high, 1).astype(np.float32),
            dtype=np.float32,
        )
        self.action_space = Box(STEER_MIN, STEER_MAX, (1,), np.float32)
        self.ends = np.minimum(self.routes.rows, COST_END_IDX)

    def reset(self, picked: list[int], draws: list[npt.NDArray[np.float64]]) -> Rollouts:
        """Begin episodes on some routes."""
        steps = max((len(d) for d in draws), default=0)
        padded = np.zeros((len(draws), steps)) if draws else None
        for i, d in enumerate(draws):
            padded[i, : len(d)] = d  # type: ignore[index]
        return self.routes.simulator.reset(self.routes[picked], draws=padded)

    def chosen(self, options: dict[str, Any] | None) -> int | None:
        """The route that a reset's options choose, if they do."""
        for key in set(options or {}) - {"route", "reset_mask"}:
            raise ValueError(
                f"options[{key!r:.60}]: there is none such: want 'route', or 'reset_mask' of a "
                "vector"
            )
        route = (options or {}).get("route")
        if isinstance(route, str):
            if route not in self.routes.names:
                raise ValueError(f"options['route']={route!r:.60}: no route has that name")
            return self.routes.names.index(route)
        if route is not None and not 0 <= operator.index(route) < len(self.routes):
            raise ValueError(f"options['route']={route}: want 0 to {len(self.routes) - 1}")
        return None if route is None else int(route)

    def rows(
        self, rollouts: Rollouts, routes: Routes, running: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.float32]:
        """Observations without the clock; 0 for what does not run."""
        rows = np.asarray(self.observe(rollouts, routes), dtype=np.float32)
        want = (len(rollouts), self.observation_space.shape[0] - 1)
        if rows.shape != want:
            raise ValueError(f"obs: the function returned shape {rows.shape}, want {want}")
        return np.where(running[:, np.newaxis], rows, np.float32(0))


class _Episodes:
    """The order of one environment's routes, and its noise."""

    def __init__(self, task: _Task, random: np.random.Generator) -> None:
        self._task = task
        self._random = random
        self._order: list[int] = []

    def next(self, options: dict[str, Any] | None) -> _Episode:
        """The next episode's route, and its draws if they are not the route's own."""
        route = self._task.chosen(options)
        if route is None:
            if not self._order:
                self._order = self._random.permutation(len(self._task.routes)).tolist()[::-1]
            route = self._order.pop()
        if not self._task.seeded:
            return route, []
        return route, [self._random.random(int(self._task.ends[route]) - CONTEXT_LENGTH)]


class _Arrays:
    """What a step of environments reads and writes. Addresses of it are asked for once."""

    def __init__(self, task: _Task, num: int) -> None:
        self.num = num
        self.actions, self.rewards = np.zeros(num), np.zeros(num)
        self.ended = np.ones(num, dtype=np.bool_)
        self.observations = np.zeros((num, task.observation_space.shape[0]), dtype=np.float32)


class _Cohort:
    """Episodes that begin together, and are at the same step. They are observed at once."""

    def __init__(
        self, task: _Task, at: _Arrays, episodes: list[_Episode], envs: npt.ArrayLike
    ) -> None:
        self._task = task
        self._at = at
        picked = [route for route, _ in episodes]
        self.routes = task.routes[picked]
        self.rollouts = task.reset(picked, [d for _, draws in episodes for d in draws])
        # Of each rollout; -1 if its environment has gone on to another.
        self.envs = np.array(envs, dtype=np.int64)
        commands, lataccels = self.rollouts._buffer
        # The struct of that name in cmd/internal/native/episodes.go.
        self.memory = _native.struct(
            "episodes",
            {
                "environment": self.envs,
                "commands": commands,
                "lataccels": lataccels,
                "actions": at.actions,
                "rewards": at.rewards,
                "ended": at.ended,
                "observations": at.observations if task.featured else 0,
                "num": at.num,
            },
        )
        at.ended[self.envs] = False
        if task.featured:
            self.rollouts._handle.call("episodes_show", self.memory)
        else:
            self._look()

    def step(self) -> None:
        """Steer the environments for one step, and observe them."""
        self.rollouts._advance_episodes(self.memory)
        if not self._task.featured:
            self._look()

    def _look(self) -> None:
        """Observe the environments by the function that was given."""
        member = self.envs >= 0
        envs, to = self.envs[member], self._at.observations
        ends = np.minimum(self.routes.rows[member], COST_END_IDX)
        at = np.minimum(self.rollouts.step, ends)
        to[envs, -1] = (at - CONTROL_START_IDX) / (ends - CONTROL_START_IDX)
        running = member & self.rollouts.running
        to[envs, :-1] = 0
        if running.any():
            to[envs, :-1] = self._task.rows(self.rollouts, self.routes, running)[member]


class Env(_native.Uncopied, gymnasium.Env[npt.NDArray[np.float32], npt.NDArray[np.float32]]):
    """One car. See the module for what is observed and rewarded.

    Parameters
    ----------
    routes : Routes or path-like
        Routes, or where they are; ``"own"`` are generated ones.
    obs : "features" or callable
        What is observed beside the clock. A function of :class:`Rollouts` and :class:`Routes`
        returns shape (n, d); a row may depend on its own rollout alone.
    noise : {"route", "seed"}
        Where the simulation's draws come from.
    observation_space : gymnasium.spaces.Box, optional
        Of what the function ``obs`` returns for one car, shape (d,).
    **simulator
        Engine, model, profile and workers, as :class:`Simulator` has them, if ``routes`` is a path.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012 as in the base class

    def __init__(
        self,
        routes: RoutesLike = "own",
        obs: str | Observe = "features",
        noise: str = "route",
        observation_space: Box | None = None,
        render_mode: str | None = None,
        **simulator: Any,
    ) -> None:
        self.render_mode = render_mode
        self._task = _Task(routes, obs, noise, observation_space, render_mode, simulator)
        self.observation_space, self.action_space = (
            self._task.observation_space,
            self._task.action_space,
        )
        self._episodes: _Episodes | None = None
        self._at = _Arrays(self._task, 1)
        self._cohort: _Cohort | None = None
        self._window: _drawing.Window | None = None
        self._turn = _native.Turn("environments")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin an episode. ``options={"route": 3}`` chooses the route, or its name does."""
        if "reset_mask" in (options or {}):
            raise ValueError("options['reset_mask']: a vector has it, and this is one environment")
        with self._turn:
            self._task.chosen(options)  # what is refused changes nothing
            super().reset(seed=None if seed is None else operator.index(seed))
            if seed is not None or self._episodes is None:
                self._episodes = _Episodes(self._task, self.np_random)
            episode = self._episodes.next(options)
            self._leave()
            self._cohort = _Cohort(self._task, self._at, [episode], [0])
            self._route = self._cohort.routes[0]
            self._driven: list[float] = []
            if self.render_mode == "human":
                self.render()
            return self._at.observations[0].copy(), {"route": self._route.name}

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Steer for one step."""
        if self._cohort is None or self._at.ended[0]:
            raise ResetNeeded("the episode has ended: call reset")
        if np.asarray(action).dtype.kind not in REAL:
            raise TypeError(f"action: {np.asarray(action).dtype}, want float32")
        command = np.asarray(action, dtype=np.float64).reshape(-1)
        if command.shape != (1,):
            raise ValueError(f"action: shape {np.shape(action)}, want (1,)")
        if np.isnan(command[0]):
            raise ValueError("action: it is NaN")
        with self._turn:
            self._at.actions[0] = command[0]
            self._cohort.step()
            self._driven.append(float(self._cohort.rollouts.lataccel[0]))
            if self.render_mode == "human":
                self.render()
            ended = bool(self._at.ended[0])
            info = {"costs": self._cohort.rollouts.costs()[0]} if ended else {}
            return self._at.observations[0].copy(), float(self._at.rewards[0]), ended, False, info

    def render(self) -> Any:
        """A picture of the episode up to now, uint8 (240, 640, 3), if ``render_mode`` says so.

        The road ahead, target and lataccel. With ``"human"`` a window shows it after each step.
        Needs matplotlib, and for the window pygame.
        """
        if self.render_mode is None:
            return None
        if self._cohort is None:
            raise ResetNeeded("call reset first")
        image = _drawing.picture(self._route, self._driven)
        if self.render_mode == "rgb_array":
            return image
        if self._window is None:
            self._window = _drawing.Window("lockstep/Controls-v0", self.metadata["render_fps"])
        return self._window.show(image)

    def _leave(self) -> None:
        if self._cohort is not None:
            self._cohort.rollouts.close()
        self._cohort = None

    def close(self) -> None:
        """End the episode, and close the window."""
        self._leave()
        if self._window is not None:
            self._window.close()
        self._window = None


class VectorEnv(
    _native.Uncopied,
    gymnasium.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[Any]],
):
    """Many cars, simulated together. The same as :class:`Env` for each, in every bit.

    Parameters
    ----------
    num_envs : int
        Number of environments, N.
    routes, obs, noise, observation_space
        As for :class:`Env`.
    autoreset_mode : AutoresetMode or str
        ``"NextStep"``, ``"SameStep"`` or ``"Disabled"``, as Gymnasium defines them.
    copy : bool
        Whether observations are new arrays; else one array is used again.
    **simulator
        As for :class:`Env`.
    """

    def __init__(
        self,
        num_envs: int = 1,
        routes: RoutesLike = "own",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        obs: str | Observe = "features",
        copy: bool = True,
        noise: str = "route",
        observation_space: Box | None = None,
        render_mode: str | None = None,
        **simulator: Any,
    ) -> None:
        num_envs = operator.index(num_envs)
        if num_envs < 1:
            raise ValueError(f"num_envs={num_envs}: want 1 or more")
        _memory.check(f"num_envs={num_envs}: their rollouts", num_envs * ROLLOUT_BYTES)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        if render_mode is not None:
            raise ValueError(
                f"render_mode={render_mode!r:.60}: a vector is not drawn, want None: Env is"
            )
        self.metadata = {**Env.metadata, "autoreset_mode": self.autoreset_mode}
        self._task = _Task(routes, obs, noise, observation_space, render_mode, simulator)
        self.single_observation_space = self._task.observation_space
        self.single_action_space = self._task.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._copy = copy
        self._episodes: list[_Episodes | None] = [None] * num_envs
        self._cohorts: list[_Cohort] = []
        self._begun = np.zeros(num_envs, dtype=np.bool_)  # an episode, since all were ended
        self._turn = _native.Turn("environments")
        self._at = _Arrays(self._task, num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin episodes: all, or those of ``options={"reset_mask": mask}``, bool of shape (N,)."""
        if seed is None or isinstance(seed, (int, np.integer)):
            seeds = [None if seed is None else int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed: {len(seeds)} of them, want {self.num_envs}")
        given = [None if s is None else operator.index(s) for s in seeds]
        mask = np.ones(self.num_envs, dtype=np.bool_)
        if options is not None and "reset_mask" in options:
            mask = options["reset_mask"]
            if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
                raise TypeError("options['reset_mask']: want a numpy array of bool")
            if mask.shape != (self.num_envs,) or not mask.any():
                raise ValueError(
                    f"options['reset_mask']: shape {mask.shape}, want ({self.num_envs},) with a "
                    "True in it"
                )
        with self._turn:
            self._task.chosen(options)  # what is refused changes nothing
            begun = {
                i: _Episodes(self._task, seeding.np_random(given[i])[0])
                for i in np.flatnonzero(mask)
                if given[i] is not None or self._episodes[i] is None
            }
            for i, episodes in begun.items():
                self._episodes[i] = episodes
            self.closed = False  # else what it begins would not be ended by close
            with self._whole():
                infos = self._begin(mask, options, {})
            self._begun |= mask
            return self._observations(), infos

    def _begin(
        self, mask: npt.NDArray[np.bool_], options: dict[str, Any] | None, infos: dict[str, Any]
    ) -> dict[str, Any]:
        """Begin episodes of some environments, as a cohort, and observe them."""
        envs = np.flatnonzero(mask)
        episodes = [self._episodes[i].next(options) for i in envs]  # type: ignore[union-attr]
        self._leave(mask)
        cohort = _Cohort(self._task, self._at, episodes, envs)
        self._cohorts.append(cohort)
        for i, name in zip(envs, cohort.routes.names, strict=True):
            infos = self._add_info(infos, {"route": name}, int(i))
        return infos

    def _leave(self, mask: npt.NDArray[np.bool_]) -> None:
        """Take environments out of their cohorts, which end when nobody is left."""
        for cohort in self._cohorts:
            cohort.envs[mask[cohort.envs]] = -1
            if (cohort.envs < 0).all():
                cohort.rollouts.close()
        self._cohorts = [c for c in self._cohorts if (c.envs >= 0).any()]

    def _observations(self) -> npt.NDArray[np.float32]:
        return self._at.observations.copy() if self._copy else self._at.observations

    def step(
        self, actions: npt.NDArray[np.float32]
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Steer all cars for one step; ``actions`` has shape (N, 1) or (N,)."""
        commands = np.asarray(actions)
        if commands.shape not in ((self.num_envs, 1), (self.num_envs,)):
            raise ValueError(f"actions: shape {commands.shape}, want ({self.num_envs}, 1)")
        if commands.dtype.kind not in REAL:
            raise TypeError(f"actions: {commands.dtype}, want float32")
        if not self._begun.all():
            raise ResetNeeded("call reset first")
        with self._turn:
            again = self._at.ended.copy()
            resets = bool(again.any())
            if resets and self.autoreset_mode is not AutoresetMode.NEXT_STEP:
                raise ResetNeeded(
                    f"environment {int(np.argmax(again))}: the episode has ended: reset it by "
                    "options['reset_mask']"
                )
            self._at.actions[...] = commands.reshape(-1)
            if np.isnan(self._at.actions.min()):
                nan = np.isnan(self._at.actions) & ~again
                if nan.any():
                    raise ValueError(f"actions: NaN for environment {int(np.argmax(nan))}")
            with self._whole():
                return self._advance(again, resets)

    def _advance(
        self, again: npt.NDArray[np.bool_], resets: bool
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Steer those that have not ended before, and begin the others' episodes."""
        self._at.rewards[...] = 0
        self._at.ended[...] = False
        infos: dict[str, Any] = {}
        for cohort in self._cohorts:
            if resets and not ((cohort.envs >= 0) & ~again[cohort.envs]).any():
                continue
            cohort.step()
        ended = self._at.ended.copy()
        if ended.any():
            infos = self._finish(ended, infos)
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                again, resets = ended, True
        if resets:
            infos = self._begin(again, None, infos)
        return (
            self._observations(),
            self._at.rewards.copy(),
            ended,
            np.zeros(self.num_envs, dtype=np.bool_),
            infos,
        )

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Have all want a reset where an exception, as of Ctrl-C, leaves some behind others."""
        try:
            yield
        except BaseException:
            self._begun[:] = False
            raise

    def _finish(self, ended: npt.NDArray[np.bool_], infos: dict[str, Any]) -> dict[str, Any]:
        """Tell of episodes that end at this step."""
        costs = self._costs(ended)
        for i in map(int, np.flatnonzero(ended)):
            info = {"costs": costs[i]}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                info = {"final_obs": self._at.observations[i].copy(), "final_info": info}
            infos = self._add_info(infos, info, i)
        return infos

    def _costs(self, ended: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """The costs of environments whose episodes end at this step, shape (N, 3)."""
        costs = np.zeros((self.num_envs, 3))
        for cohort in self._cohorts:
            done = (cohort.envs >= 0) & ended[cohort.envs]
            if done.any():
                costs[cohort.envs[done]] = cohort.rollouts.costs()[done]
        return costs

    def close_extras(self, **_: Any) -> None:
        """End all episodes; a reset begins others."""
        self._leave(np.ones(self.num_envs, dtype=np.bool_))
        self._begun[:] = False
