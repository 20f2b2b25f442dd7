"""Classic control: any calls in any order, by Gymnasium's own API and by that of planners.

Each answer is that of Gymnasium's own environments, of which a deep copy is a snapshot; what
policies choose is what a new reference chooses from there. `make histories-python` runs many.
"""

import contextlib
import copy
import pickle
from dataclasses import dataclass

import gymnasium
import lockstep
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from histories import History, call, check, refused, same
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from hypothesis.stateful import initialize
from lockstep import classic
from test_classic import ATTRIBUTES, NAMES, NUMPY1, OPTIONS, bounds
from test_env_history import told

RECORDS = ["states", "rewards", "observations", "actions", "terminated", "truncated"]
LIMIT = 9


def test_classic_history(histories):
    check(ClassicCalls, histories, 2)


@dataclass
class Saved:
    """A snapshot, Gymnasium's environments as they were then, and the sums since their reset."""

    snapshot: classic.Snapshot
    alone: SyncVectorEnv
    totals: tuple


class ClassicCalls(History):
    """A vector and a single environment, and beside them Gymnasium's own."""

    @initialize()
    def begin(self):
        self.envs = None

    def teardown(self):
        if self.envs is not None:
            self.envs.close()
            self.env.close()

    def make(self, n, engine):
        return classic.VectorEnv(
            self.name,
            n,
            self.mode,
            LIMIT,
            self.own,
            engine,
            self.integer(1, 2, "workers"),
            NUMPY1,
            **self.options,
        )

    def opened(self):
        if self.envs is None:
            self.open()

    @call
    def open(self):
        """Make others, of another name or with other options."""
        if self.envs is not None:
            self.close()
        self.name = self.draw(st.sampled_from(NAMES), "name")
        self.options = OPTIONS[self.name] if self.perhaps("options") else {}
        changed = ATTRIBUTES.get(self.name, {}) if self.perhaps("attributes") else {}
        self.mode = self.draw(st.sampled_from(list(AutoresetMode)), "autoreset mode")
        self.own = self.perhaps("copy")

        def theirs(**how):
            env = gymnasium.make(self.name, disable_env_checker=True, **how, **self.options)
            for key, value in changed.items():
                setattr(env.unwrapped, key, value)
            return env

        n = self.integer(1, 5, "environments")
        self.alone = SyncVectorEnv(
            [lambda: theirs(max_episode_steps=LIMIT)] * n, autoreset_mode=self.mode
        )
        self.one_alone = theirs().unwrapped
        self.options = self.options | changed
        self.engine = self.draw(st.sampled_from(["batched", "reference", "auto"]), "engine")
        self.envs = self.make(n, self.engine)
        self.env = classic.Env(self.name, self.engine, NUMPY1, **self.options)
        self.begun, self.one_begun, self.saved, self.kept = False, False, [], []

    def begun_all(self):
        self.opened()
        if not self.begun:
            actions = self.actions(self.envs.num_envs)
            for use in (
                lambda: self.envs.step(actions),
                lambda: self.envs.run(3),
                self.envs.snapshot,
                lambda: setattr(self.envs, "states", self.envs.states),
            ):
                refused(use, ResetNeeded)
            self.reset()

    def hold(self, got, want, what):
        """Hold an answer, the states, and what was answered before, which nothing may change."""
        told(got, want, what)
        same(self.envs.states, self.states(self.alone), f"{what}: states")
        if self.own:
            self.kept = [*self.kept[-3:], (got, copy.deepcopy(got))]
            for k, (was, then) in enumerate(self.kept):
                told(was, then, f"what was answered {len(self.kept) - k} calls ago")

    @staticmethod
    def states(alone):
        return np.array([np.asarray(e.unwrapped.state, np.float64) for e in alone.envs])

    @property
    def ended(self):
        return self.alone._autoreset_envs

    def seed(self, n):
        seeds = st.integers(0, 2**40)
        kinds = [seeds, st.lists(seeds, min_size=n, max_size=n)] + [st.none()] * self.begun
        return self.draw(st.one_of(kinds), "seed")

    def bounds(self):
        return dict(self.one(bounds(self.name), "bounds") or {})

    @call
    def reset(self):
        self.opened()
        seed, options = self.seed(self.envs.num_envs), self.bounds()
        got = self.envs.reset(seed=seed, options=options)  # a caller's stay as they are
        want = self.alone.reset(seed=seed, options=options)
        self.begun, self.totals = True, (0, 0.0, 0)
        self.hold(got, want, "reset")

    @call
    def reset_some(self):
        self.begun_all()
        n = self.envs.num_envs
        mask = np.array([self.perhaps("reset it") for _ in range(n)])
        mask[self.integer(0, n - 1, "this at least")] = True
        seed, options = self.seed(n), self.bounds() | {"reset_mask": mask}
        if self.mode is not AutoresetMode.DISABLED:
            refused(lambda: self.envs.reset(seed=seed, options=options), ValueError)
            return
        got = self.envs.reset(seed=seed, options=options)  # a caller's stay as they are
        self.hold(got, self.alone.reset(seed=seed, options=options), "reset of some")

    def actions(self, n, *steps):
        space = self.envs.single_action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return self.draw(
                arrays.arrays(np.int64, (*steps, n), elements=st.integers(0, int(space.n) - 1)),
                "actions",
            )
        elements = st.floats(-3, 3, width=32)
        return self.draw(arrays.arrays(np.float32, (*steps, n, 1), elements=elements), "actions")

    def entered(self, answer):
        """Add a step of Gymnasium's to the sums."""
        steps, rewards, episodes = self.totals
        self.totals = steps + 1, rewards + answer[1], episodes + (answer[2] | answer[3])
        return answer

    def blocked(self, use):
        """Whether an environment has ended that nobody resets: it is named."""
        if self.mode is AutoresetMode.DISABLED and self.ended.any():
            refused(use, ValueError, match=f"environment {np.argmax(self.ended)} has ended")
            return True
        return False

    @call
    def step(self):
        self.begun_all()
        for _ in range(self.integer(1, 6, "steps")):
            actions = self.actions(self.envs.num_envs)
            if self.blocked(lambda a=actions: self.envs.step(a)):
                return
            self.hold(self.envs.step(actions), self.entered(self.alone.step(actions)), "step")

    def policy(self, steps):
        kind = self.draw(st.sampled_from(["random", "table", "row", "network", "noise"]), "policy")
        if kind == "random":
            return kind
        if kind == "table":
            return self.actions(self.envs.num_envs, steps)
        if kind == "row":
            return self.actions(1, steps).reshape(steps)
        space = self.envs.single_action_space
        rng, outputs = np.random.default_rng(self.integer(0, 3, "its seed")), getattr(space, "n", 1)
        return classic.Network(
            [
                rng.normal(0, 1, (5, self.envs.single_observation_space.shape[0])),
                rng.normal(0, 1, (outputs, 5)),
            ],
            [rng.normal(0, 1, 5), np.zeros(outputs)],
            *([classic.Network.gumbel(4), self.integer(0, 9, "its seed")] * (kind == "noise")),
        )

    @call
    def run(self):
        """Several steps in one call: what step answers, with actions that a policy chooses."""
        self.begun_all()
        steps, key = self.integer(1, 12, "steps"), self.integer(0, 2**32, "key")
        record = [name for name in RECORDS if self.perhaps(name)]
        if self.mode is AutoresetMode.SAME_STEP and self.perhaps("final_observations"):
            record.append("final_observations")
        policy = self.policy(steps)
        if not isinstance(policy, str):  # nothing else is drawn by it
            refused(lambda: self.envs.run(steps, policy, key), ValueError, match=f"seed={key}: ")
            key = None
        if self.blocked(lambda: self.envs.run(steps, policy, key, record)):
            return
        here, n = self.envs.snapshot(), self.envs.num_envs
        reference = self.make(n, "reference")
        reference.restore(here)
        want = None
        with contextlib.suppress(ValueError):  # one has ended, and nobody resets it
            want = reference.run(steps, policy, key, RECORDS)
        reference.close()
        if want is None:
            assert self.mode is AutoresetMode.DISABLED
            use = lambda: self.envs.run(steps, policy, key, record)  # noqa: E731
            refused(use, ValueError, match="has ended")
            self.envs.restore(here)
            return
        got = self.envs.run(steps, policy, key, record)
        for name in RECORDS:
            answer = getattr(got, name)
            if name in record:
                same(answer, getattr(want, name), f"run: {name}")
            else:
                assert answer is None
        for t in range(steps):
            actions = want.actions[t].astype(self.envs.single_action_space.dtype)
            ran = self.ended & (self.mode is AutoresetMode.NEXT_STEP)
            if actions.dtype.kind != "f":
                actions[ran] = 0  # a step that resets ignores its action
            answer = self.entered(self.alone.step(actions.reshape(self.alone.action_space.shape)))
            for name, part in zip(["observations", "rewards", "terminated", "truncated"], answer):  # noqa: B905
                same(getattr(want, name)[t], part, f"step {t} of a run of {steps}: {name}")
            if "final_observations" in record:
                for i in np.flatnonzero(answer[2] | answer[3]):
                    final = answer[4]["final_obs"][i]
                    same(got.final_observations[t, i], final, f"step {t}, environment {i}: final")
        same(self.envs.states, self.states(self.alone), "states after a run")

    @call
    def sums(self):
        self.begun_all()
        got, (steps, rewards, episodes) = self.envs.totals(), self.totals
        n = self.envs.num_envs
        assert got["steps"] == n * steps
        same(got["rewards"], np.broadcast_to(np.float64(rewards), n), "sums of rewards")
        same(got["episodes"], np.broadcast_to(np.int64(episodes), n), "episodes")

    @call
    def put(self):
        """States are set, as planners do."""
        self.begun_all()
        theirs = [np.asarray(e.unwrapped.state) for e in self.alone.envs]
        if len({x.dtype for x in theirs}) > 1 or self.ended.any():
            return  # Gymnasium's are of a type after a reset and of another after a step
        states = np.array([x * 0.5 for x in theirs])
        self.envs.states = states
        for env, state in zip(self.alone.envs, states, strict=True):
            env.unwrapped.state = state.copy()
        same(self.envs.states, states.astype(np.float64), "states that were set")

    @call
    def snapshot(self):
        self.begun_all()
        snapshot = self.envs.snapshot()
        assert (snapshot.num_envs, snapshot.steps) == (self.envs.num_envs, self.totals[0])
        way = self.integer(0, 2, "by way of")
        if way:
            data = snapshot.to_bytes()
            data = pickle.loads(pickle.dumps(data)) if way == 2 else data
            snapshot = classic.Snapshot.from_bytes(data)
            assert snapshot.to_bytes() == data
            changed = bytearray(data)
            changed[self.integer(0, len(data) - 1, "byte")] ^= 1 << self.integer(0, 7, "bit")
            with contextlib.suppress(ValueError):  # some bytes of an archive say nothing
                assert classic.Snapshot.from_bytes(bytes(changed)).to_bytes() == data
        self.saved = [*self.saved[-4:], Saved(snapshot, copy.deepcopy(self.alone), self.totals)]

    def save(self):
        self.opened()
        if not self.saved:
            self.snapshot()
        return self.one(self.saved, "snapshot")

    @call
    def restore(self):
        """Go back, or forward, also in environments that are new."""
        saved, n = self.save(), self.envs.num_envs
        if saved.snapshot.num_envs != n:
            refused(lambda: self.envs.restore(saved.snapshot), ValueError)
            if self.begun:
                same(
                    self.envs.states, self.states(self.alone), "states after a snapshot was refused"
                )
            return
        if self.perhaps("elsewhere"):
            self.envs.close()
            self.envs = self.make(n, self.draw(st.sampled_from(["batched", "reference"]), "engine"))
        self.alone, self.totals, self.begun = copy.deepcopy(saved.alone), saved.totals, True
        self.hold(self.envs.restore(saved.snapshot), self.alone._observations, "restore")

    @call
    def fork(self):
        """Some go on elsewhere, and these, or those, from now on."""
        self.begun_all()
        saved = self.save() if self.perhaps("a snapshot") else None
        n = saved.snapshot.num_envs if saved else self.envs.num_envs
        index = self.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=5), "index")
        if n != self.envs.num_envs:
            refused(lambda: self.envs.fork(index, saved.snapshot), ValueError)
            return
        forked = self.envs.fork(index, saved and saved.snapshot)
        steps, rewards, episodes = saved.totals if saved else self.totals
        alone = copy.deepcopy(saved.alone if saved else self.alone)
        alone.envs = [copy.deepcopy(alone.envs[i]) for i in index]
        alone.num_envs = len(index)
        alone.observation_space = batch_space(alone.single_observation_space, len(index))
        alone.action_space = batch_space(alone.single_action_space, len(index))
        alone._env_obs = [alone._env_obs[i] for i in index]
        for name in (
            "_observations",
            "_rewards",
            "_terminations",
            "_truncations",
            "_autoreset_envs",
        ):
            setattr(alone, name, getattr(alone, name)[index])
        theirs = self.envs, self.alone, self.totals
        rewards, episodes = (np.broadcast_to(x, n)[index] for x in (rewards, episodes))
        self.envs, self.alone, self.totals = forked, alone, (steps, rewards, episodes)
        same(self.envs.states, self.states(alone), "states of a fork")
        self.sums()
        self.step()
        if self.perhaps("go on with these"):
            self.envs, self.alone, self.totals = theirs
            same(self.envs.states, self.states(self.alone), "states of what was forked")
            theirs = forked, None, None
        theirs[0].close()

    @call
    def single(self):
        """The single environment beside, which goes on behind its end as Gymnasium's does."""
        self.opened()
        if not self.one_begun:
            refused(lambda: self.env.step(self.actions(1)[0]), ResetNeeded)
        if not self.one_begun or self.integer(0, 3, "reset") == 3:
            seeds = st.integers(0, 2**40)
            seed = self.draw(st.one_of(st.none(), seeds) if self.one_begun else seeds, "seed")
            options = self.bounds() or None
            got = self.env.reset(seed=seed, options=options)
            told(got, self.one_alone.reset(seed=seed, options=options), "reset of one")
            self.one_begun = True
        saved, twin = self.env.snapshot(), copy.deepcopy(self.one_alone)
        for _ in range(self.integer(0, 5, "steps")):
            action = self.actions(1)[0]
            got, want = self.env.step(action), self.one_alone.step(action)
            same(got[0], want[0], "step of one")
            assert (got[1], *got[2:4]) == (float(want[1]), bool(want[2]), bool(want[3]))
        if self.perhaps("restored"):
            self.env.restore(saved)
            self.one_alone = twin
        same(self.env.state, np.asarray(self.one_alone.state, np.float64), "state of one")

    @call
    def bad(self):
        """Arguments that are wrong are refused, and change nothing."""
        self.begun_all()
        n = self.envs.num_envs
        actions = self.actions(n)
        for wrong in (actions[:-1], actions.astype(complex), np.full(n, 0.5), None):
            refused(lambda w=wrong: self.envs.step(w), ValueError, TypeError)
        for how in (
            {"seed": -1},
            {"seed": [1] * (n + 1)},
            {"options": {"reset_mask": [True] * n}},
            {"options": {"reset_mask": np.zeros(n, bool)}},
            {"seed": 3, "options": {"x_init": np.nan, "low": np.nan}},
        ):
            refused(lambda how=how: self.envs.reset(**how), ValueError, TypeError)
        refused(lambda: self.envs.run(0), ValueError)
        refused(lambda: self.envs.run(2, record=["speed"]), ValueError)
        refused(lambda: self.envs.run(2, "clever"), ValueError)
        refused(lambda: self.envs.fork([n]), ValueError)
        same(self.envs.states, self.states(self.alone), "states after what was refused")

    @call
    def copied(self):
        things = [self.save().snapshot, self.envs, self.env]
        for thing in things:
            for way in (copy.copy, copy.deepcopy, pickle.dumps):
                refused(lambda way=way, it=thing: way(it), TypeError, match="neither copied nor")

    @call
    def threads(self):
        """A second thread that steps is refused; here it is held up where it would wait."""
        self.begun_all()
        actions, snapshot = self.actions(self.envs.num_envs), self.envs.snapshot()
        with self.envs._core.turn, self.env._core.turn:
            for use in (
                lambda: self.envs.step(actions),
                lambda: self.envs.reset(seed=1),
                lambda: self.envs.run(2),
                lambda: self.envs.restore(snapshot),
                lambda: self.envs.fork([0]),
                lambda: self.env.step(actions[0]),
                lambda: self.env.reset(seed=1),
                lambda: self.env.restore(snapshot),
            ):
                refused(use, RuntimeError, match="another thread")

    @call
    def close(self):
        """Close, twice. From then on they refuse everything."""
        if self.envs is None:
            return
        for thing in (self.envs, self.env):
            for _ in range(2):
                thing.close()
        actions = self.actions(self.envs.num_envs)
        for use in (
            lambda: self.envs.reset(seed=1),
            lambda: self.envs.states,
            self.envs.totals,
            *([lambda: self.envs.step(actions), lambda: self.envs.run(2)] if self.begun else []),
            lambda: self.env.reset(seed=1),
            lambda: self.env.state,
        ):
            refused(use, lockstep.ClosedError)
        self.envs = None
