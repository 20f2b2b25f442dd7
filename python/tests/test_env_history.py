"""The challenge as environments: any calls in any order, of a vector and of single ones.

Each answers what Gymnasium's own vector makes of environments that are written down here once
more, of a new reference's rollouts. `make histories-python` runs many.
"""

import copy
import pickle
import shutil
import tempfile
from pathlib import Path

import gymnasium
import lockstep
import numpy as np
from conftest import write_route
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from histories import History, call, check, refused, same
from hypothesis import strategies as st
from hypothesis.stateful import initialize

FIRST, STEERED = 20, 100
ROWS = [101, 102, 104, 107, 103]


def test_env_history(histories):
    check(EnvCalls, histories, 0.9)


def errors(rollouts, _):
    """What is observed where the caller says it."""
    return np.stack([rollouts.lataccel, rollouts.features()[:, 3]], axis=1)


class Alone(gymnasium.Env):
    """One car, as the documentation has it."""

    action_space = Box(-2, 2, (1,), np.float32)

    def __init__(self, routes, noise, observed):
        self.routes, self.noise, self.observed = routes, noise, observed
        n = 256 if observed == "features" else 2
        self.observation_space = Box(
            np.append(np.full(n, -5), 0).astype(np.float32),
            np.append(np.full(n, 5), 1).astype(np.float32),
        )
        self.order, self.rollouts = [], None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.order = []
        i = (options or {}).get("route")
        if i is None:
            if not self.order:
                self.order = self.np_random.permutation(len(self.routes)).tolist()
            i = self.order.pop(0)
        elif isinstance(i, str):
            i = self.routes.names.index(i)
        rows = int(self.routes.rows[i])
        draws = [self.np_random.random(rows - FIRST)] if self.noise == "seed" else None
        self.rollouts = self.routes.simulator.reset(self.routes[[i]], draws=draws)
        self.target, self.rows = self.routes[i].target_lataccel, rows
        return self.observe(), {"route": self.routes.names[i]}

    def observe(self):
        step = self.rollouts.step
        clock = (step - STEERED) / (self.rows - STEERED)
        if self.rollouts.done:
            return np.append(np.zeros(self.observation_space.shape[0] - 1), clock).astype(
                np.float32
            )
        seen = self.rollouts.features()[0]
        if self.observed != "features":
            seen = np.array([self.rollouts.lataccel[0], seen[3]])
        return np.append(seen, clock).astype(np.float32)

    def step(self, action):
        step, before = self.rollouts.step, float(self.rollouts.lataccel[0])
        x = float(self.rollouts.advance(np.asarray(action, np.float64))[0])
        n = self.rows - STEERED
        e, j = float(self.target[step]) - x, (x - before) / 0.1
        reward = -(50.0 * 100.0 / n * (e * e))
        if step > STEERED:
            reward -= 100.0 / (n - 1) * (j * j)
        ended = self.rollouts.done
        return (
            self.observe(),
            reward,
            ended,
            False,
            {"costs": self.rollouts.costs()[0]} if ended else {},
        )


def told(got, want, what):
    """Hold an environment's answer to another's, through dicts and arrays of objects."""
    if isinstance(want, dict):
        assert got.keys() == want.keys(), f"{what}: {sorted(got)}, want {sorted(want)}"
        for key in want:
            told(got[key], want[key], f"{what}[{key!r}]")
    elif isinstance(want, tuple) or (isinstance(want, np.ndarray) and want.dtype == object):
        assert len(got) == len(want), what
        for i, (x, y) in enumerate(zip(got, want, strict=True)):
            told(x, y, f"{what}[{i}]")
    elif isinstance(want, np.ndarray):
        same(got, want, what)
    else:
        assert type(got) is type(want), what
        assert got == want or (got != got and want != want), f"{what}: {got}, want {want}"


class EnvCalls(History):
    """A vector, a single environment, and beside each what Gymnasium makes of lone ones."""

    @initialize(data=st.data())
    def begin(self, data):
        self.data = data
        self.folder = Path(tempfile.mkdtemp())
        for i, rows in enumerate(ROWS):
            write_route(self.folder / f"{i:05}.csv", rows, 1 + i / 3)
        self.reference = lockstep.Simulator(engine="reference", model="own", workers=1)
        self.routes = self.reference.load(self.folder, cache=False)
        self.envs = None
        self.step()  # in each history, whichever calls are left out of it

    def teardown(self):
        if self.envs is not None:
            self.envs.close()
            self.sim.close()
        self.reference.close()
        shutil.rmtree(self.folder)

    def opened(self):
        if self.envs is None:
            self.open()

    @call
    def open(self):
        """Make others, of other options, and leave those before to whom they may concern."""
        if self.envs is not None:
            self.close()
        engine = self.draw(st.sampled_from(["batched", "batched", "reference"]), "engine")
        self.sim = lockstep.Simulator(
            engine, "own", self.reference.profile, self.integer(1, 2, "workers")
        )
        routes = self.sim.load(self.folder, cache=False)
        n = self.draw(st.sampled_from([4, 3, 4, 3, 2, 1]), "environments")  # more have neighbours
        self.mode = self.draw(st.sampled_from([*AutoresetMode, AutoresetMode.SAME_STEP]), "mode")
        noise = self.draw(st.sampled_from(["route", "seed"]), "noise")
        seen = self.draw(st.sampled_from(["features", "function"]), "observed")
        how = {"noise": noise}
        if seen != "features":
            how |= {"obs": errors, "observation_space": Box(-5, 5, (2,), np.float32)}
        self.own = self.perhaps("copy")
        self.envs = lockstep.VectorEnv(n, routes, self.mode, copy=self.own, **how)
        self.env = lockstep.Env(routes, **how)
        make = lambda: Alone(self.routes, noise, seen)  # noqa: E731
        self.alone = SyncVectorEnv([make] * n, autoreset_mode=self.mode)
        self.one_alone = make()
        assert self.envs.observation_space == self.alone.observation_space
        self.begun, self.ended, self.one_runs = False, np.zeros(n, bool), False
        self.kept = []

    def hold(self, got, want, what):
        """Hold an answer, and what was answered before, which nothing may have changed."""
        told(got, want, what)
        if self.own:
            self.kept = [*self.kept[-3:], (got, copy.deepcopy(got))]
            for k, (was, then) in enumerate(self.kept):
                told(was, then, f"what was answered {len(self.kept) - k} calls ago")

    @call
    def reset(self):
        self.opened()
        n = self.envs.num_envs
        seeds = st.integers(0, 5)
        # One that has no seed would be another each time.
        each = st.one_of(seeds, st.none()) if self.begun else seeds
        kinds = [seeds, st.lists(each, min_size=n, max_size=n)] + [st.none()] * self.begun
        seed = self.draw(st.one_of(kinds), "seed")
        options = self.draw(
            st.sampled_from([None, {}, None, {}, {"route": 3}, {"route": "00001"}]), "options"
        )
        got = self.envs.reset(seed=seed, options=options)
        want = self.alone.reset(seed=seed, options=copy.copy(options))
        self.begun, self.ended[:] = True, False
        self.hold(got, want, "reset")

    @call
    def reset_some(self):
        self.begun_all()
        n = self.envs.num_envs
        mask = np.array([self.perhaps("reset it") for _ in range(n)])
        mask[self.integer(0, n - 1, "this at least")] = True
        seed = self.draw(st.one_of(st.none(), st.integers(0, 5)), "seed")
        options = {"reset_mask": mask}
        if self.perhaps("a route"):
            options["route"] = self.integer(0, 4, "route")
        got = self.envs.reset(seed=seed, options=options)  # a caller's stay as they are
        want = self.alone.reset(seed=seed, options=options)
        self.ended[mask] = False
        self.hold(got, want, "reset of some")

    def begun_all(self):
        self.opened()
        if not self.begun:
            refused(lambda: self.envs.step(np.zeros(self.envs.num_envs)), ResetNeeded)
            self.reset()

    def actions(self, n):
        """One that is drawn, and others that differ from it and from each other."""
        first = self.draw(st.floats(-3, 3, width=32), "an action")
        others = first + 0.7 * np.arange(n) * self.draw(st.sampled_from([1, -1]), "sign")
        return ((others + 3) % 6 - 3).astype(np.float32).reshape(n, 1)

    @call
    def step(self):
        self.begun_all()
        n = self.envs.num_envs
        for _ in range(self.integer(1, 7, "steps")):
            actions = self.actions(n)
            if self.ended.any() and self.mode is AutoresetMode.DISABLED:
                refused(
                    lambda a=actions: self.envs.step(a),
                    ResetNeeded,
                    match=str(np.argmax(self.ended)),
                )
                return
            given = actions[:, 0] if self.perhaps("without a dimension") else actions
            unused = given.copy()
            if self.mode is AutoresetMode.NEXT_STEP:
                unused[self.ended] = np.nan  # which nobody looks at
            got, want = self.envs.step(unused), self.alone.step(actions)
            self.hold(got, want, "step")
            self.ended = want[2] & (self.mode is not AutoresetMode.SAME_STEP)

    @call
    def single(self):
        """The single environment beside: a reset, or steps up to an end."""
        self.opened()
        if not self.one_runs:
            refused(lambda: self.env.step(np.zeros(1)), ResetNeeded)
        if not self.one_runs or self.integer(0, 5, "reset") == 5:
            first = self.one_alone.rollouts is None
            seeds = st.integers(0, 5)
            seed = self.draw(seeds if first else st.one_of(st.none(), seeds), "seed")
            options = self.draw(st.sampled_from([None, {"route": 2}]), "options")
            self.hold(
                self.env.reset(seed=seed, options=options),
                self.one_alone.reset(seed=seed, options=options),
                "reset of one",
            )
            self.one_runs = True
        for _ in range(self.integer(0, 4, "steps")):
            action = self.actions(1)[0]
            got, want = self.env.step(action), self.one_alone.step(action)
            self.hold(got, want, "step of one")
            self.one_runs = not want[2]
            if not self.one_runs:
                return

    @call
    def bad(self):
        """Arguments that are wrong are refused, and change nothing."""
        self.begun_all()
        n = self.envs.num_envs
        nan = np.full((n, 1), np.nan, np.float32)
        for actions in (np.zeros((n + 1, 1)), np.zeros((n, 1), complex), ["left"] * n, None):
            refused(lambda a=actions: self.envs.step(a), ValueError, TypeError, ResetNeeded)
        if not self.ended.any():
            refused(lambda: self.envs.step(nan), ValueError, match="NaN")
        for how, kind in [
            ({"seed": [1] * (n + 1)}, ValueError),
            ({"seed": 3, "options": {"route": 9}}, ValueError),
            ({"seed": 3, "options": {"route": "nobody"}}, ValueError),
            ({"options": {"road": 1}}, ValueError),
            ({"options": {"reset_mask": [True] * n}}, TypeError),
            ({"options": {"reset_mask": np.zeros(n, bool)}}, ValueError),
            ({"options": {"reset_mask": np.ones(n + 1, bool)}}, ValueError),
        ]:
            refused(lambda how=how: self.envs.reset(**how), kind)
            if "reset_mask" not in how.get("options", {"reset_mask"}):
                refused(lambda how=how: self.env.reset(**how), kind)

    @call
    def copied(self):
        self.opened()
        for thing in (self.envs, self.env):
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                refused(lambda way=way, it=thing: way(it), TypeError, match="neither copied nor")

    @call
    def threads(self):
        """A second thread that steps is refused; here it is held up where it would wait."""
        self.begun_all()
        with self.envs._turn, self.env._turn:
            zeros = np.zeros((self.envs.num_envs, 1))
            refused(lambda: self.envs.step(zeros), RuntimeError, match="another thread")
            refused(lambda: self.envs.reset(seed=1), RuntimeError, match="another thread")
            refused(lambda: self.env.reset(seed=1), RuntimeError, match="another thread")
            if self.one_runs:
                refused(lambda: self.env.step(zeros[0]), RuntimeError, match="another thread")

    @call
    def close(self):
        """End all, twice; what comes after a close of the simulator says so."""
        if self.envs is None:
            return
        for _ in range(2):
            self.env.close()
        refused(lambda: self.env.step(np.zeros(1)), ResetNeeded)
        if self.begun and self.perhaps("the simulator first"):
            self.sim.close()
            refused(lambda: self.envs.reset(seed=1), lockstep.ClosedError)
        for _ in range(2):
            self.envs.close()
        refused(lambda: self.envs.step(np.zeros(self.envs.num_envs)), ResetNeeded)
        self.sim.close()
        self.envs = None
