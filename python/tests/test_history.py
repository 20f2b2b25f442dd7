"""Simulators and rollouts in step: any calls in any order, with what was done before and beside.

Each rollout is what a new reference makes of it alone. `make histories-python` runs many.
"""

import copy
import hashlib
import json
import pickle
import shutil
import tempfile
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import lockstep
import numpy as np
from conftest import write_route
from histories import History, call, check, refused, same
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from hypothesis.stateful import initialize

FIRST, STEERED, END = 20, 100, 500
ROWS = {"a/00000": 101, "a/00001": 102, "a/00002": 104, "a/00003": 107, "b/00001": 106}


def test_history(histories):
    check(Calls, histories, 1)


@dataclass
class Fate:
    """All that a rollout is made of, and what it came to, from step 20 on."""

    route: int
    draws: np.ndarray
    commands: list = field(default_factory=list)
    lataccel: list = field(default_factory=list)
    expected: int = 10**9  # the first step that takes its expected value

    @property
    def step(self):
        return FIRST + len(self.commands)

    def copy(self):
        return replace(self, commands=[*self.commands], lataccel=[*self.lataccel])


@dataclass
class Line:
    """Rollouts in step."""

    rollouts: lockstep.Rollouts
    index: list  # of their routes
    draws: list  # that they were begun with
    fates: list
    sim: lockstep.Simulator
    out: np.ndarray = None

    def last(self, ends):
        return max(ends[i] for i in self.index)


@dataclass
class Saved:
    """A snapshot, how its rollouts came there, and whom it forks."""

    snapshot: lockstep.Snapshot
    of: Line
    index: list
    fates: list


@dataclass
class Fork:
    """Candidates."""

    candidates: lockstep.Candidates
    fates: list


def gentle(step):
    return 0.3 * (step.target - step.current)


def failing(step):
    """What fails some rollouts, by what each shows alone."""
    bad = (step.index >= 102) & (step.target > 0.1)
    return np.where(bad, np.nan, step.v_ego / 100 - 0.2)


def looking(step):
    """What looks at the plan, as far as it goes."""
    return np.array([plan[3, :5].sum() / 5 for plan in step.plan])


def network(seed, sees=None):
    rng, inputs = np.random.default_rng(seed), 256 if sees is None else len(sees)
    return lockstep.Network(
        [rng.normal(0, 0.3, (6, inputs)), rng.normal(0, 1, (2, 6))],
        [rng.normal(0, 0.1, 6), rng.normal(0, 0.1, 2)],
        activation="tanh" if seed % 2 else "relu",
        sees=sees,
    )


class Calls(History):
    """A history is what was opened, and what is known of it."""

    @initialize()
    def begin(self):
        self.folder = Path(tempfile.mkdtemp())
        for scale, (name, rows) in enumerate(ROWS.items()):
            (self.folder / name).parent.mkdir(exist_ok=True)
            write_route(self.folder / f"{name}.csv", rows, 1 + scale / 3)
        self.lines, self.saved, self.forks, self.kept, self.sims = [], [], [], [], []
        self.policies = {}
        self.reference = lockstep.Simulator(engine="reference", model="own", workers=1)
        self.routes = self.loaded(self.reference)
        self.ends = self.routes.rows.tolist()
        self.own = [self.own_draws(i) for i in range(len(ROWS))]

    def teardown(self):
        for line in [] if self.failed else self.lines:
            self.hold(line)
        for thing in [*self.forks, *self.lines, *self.sims, self.reference]:
            getattr(thing, "candidates", getattr(thing, "rollouts", thing)).close()
        shutil.rmtree(self.folder)

    def loaded(self, sim, **how):
        files = [self.folder / f"{name}.csv" for name in ROWS]
        return sim.load(files, **{"cache": False} | how)

    def own_draws(self, i):
        """The draws of a route's own noise, which its file's name seeds, as the program has it."""
        name = f"data/{self.routes.names[i]}.csv"
        return self.drawn(int(hashlib.md5(name.encode()).hexdigest(), 16) % 10**4)

    @staticmethod
    def drawn(seed):
        return np.random.RandomState(seed).random_sample(END - FIRST)

    # What is open. What a call needs is opened if there is none.

    def sim(self):
        if not self.sims:
            self.open()
        return self.one(self.sims, "simulator")

    def line(self):
        if not self.lines:
            self.reset()
        return self.one(self.lines, "rollouts")

    def save(self):
        if not self.saved:
            self.snapshot()
        return self.one(self.saved, "snapshot")

    def open(self):
        engine = self.draw(
            st.sampled_from(["batched", "batched", "reference", "onnxruntime"]), "engine"
        )
        sim = lockstep.Simulator(
            engine, "own", self.reference.profile, self.integer(1, 2, "workers")
        )
        sim.routes = self.loaded(sim)
        self.sims.append(sim)
        if len(self.sims) > 2:
            self.end(self.sims[0])

    def picked(self, most=4):
        places = st.integers(0, len(ROWS) - 1)
        return self.draw(st.lists(places, min_size=1, max_size=most), "routes")

    # Whole rollouts.

    def policy(self, n):
        """A controller of any kind but a function, for n routes, and what it is for each alone."""
        kind = self.draw(
            st.sampled_from(
                ["pid", "zero", "name", "gains", "pidff", "kind", "table", "network", "sees",
                 "json", "onnx", "python"]
            ),
            "policy",
        )  # fmt: skip
        seed = self.integer(0, 3, "its seed")
        rng = np.random.default_rng(seed)
        if kind == "table":
            actions = rng.uniform(-2.5, 2.5, (n, 400))
            return {"table": actions}, [{"table": actions[i : i + 1]} for i in range(n)]
        made = {
            "name": lambda: f"pid_{seed / 10}_0.05_-0.1",
            "gains": lambda: rng.normal(0, 0.2, 3),
            "pidff": lambda: {"pidff": rng.normal(0, 0.1, 10)},
            "kind": lambda: {"pid": rng.normal(0, 0.2, 3)},
            "network": lambda: self.network(seed),
            "sees": lambda: self.network(seed, True),
        }
        file = self.folder / f"{kind}{seed}.{'py' if kind == 'python' else kind}"
        if kind == "json":
            file.write_text(json.dumps({"policy": "pid", "gains": [seed / 10, 0.1, -0.05]}))
        elif kind == "onnx":
            self.network(seed).save(file)
        elif kind == "python":
            file.write_text(
                "class Controller:\n    calls = 0\n    def update(self, target, current, *_):\n"
                f"        self.calls += 1\n        assert {seed} or self.calls < 83\n"
                f"        return {seed / 5} * (target - current) + self.calls / 1000\n"
            )
        given = made.get(kind, lambda: file if kind in ("json", "onnx", "python") else kind)()
        return given, [given] * n

    def network(self, seed, sees=False):
        key = seed, sees
        if key not in self.policies:
            texts = ["target[0]-lataccel[-1]", "v[0]-20/15", "action[-1]", "observation[3]"]
            self.policies[key] = network(seed, texts if sees else None)
        return self.policies[key]

    @call
    def rollout(self):
        sim, index, told = self.sim(), self.picked(), []
        n, trajectory = len(index), self.perhaps("trajectory")
        if self.integer(0, 3, "a function") == 3:
            function = self.draw(st.sampled_from([gentle, failing, looking]), "function")
            given, alone = function, [[function] * n]
        else:
            several = [self.policy(n) for _ in range(self.integer(1, 3, "controllers"))]
            given = [p for p, _ in several]
            if len(given) == 1:
                given = given[0]
            alone = [a for _, a in several]
        progress = (lambda *done: told.append(done)) if self.perhaps("progress") else None
        got = sim.rollout(sim.routes[index], given, trajectory, progress)
        assert got.routes == [self.routes.names[i] for i in index]
        assert not told or told[-1] == (len(alone) * n, len(alone) * n)
        for k, each in enumerate(alone):
            for i, place in enumerate(index):
                what = f"{sim.engine}, controller {k}, route {i} of {n}: "
                want = self.reference.rollout(self.routes[[place]], each[i], trajectory)
                same(got.costs[k, i], want.costs[0, 0], what + "costs")
                assert str(got.errors.get((k, i))) == str(want.errors.get((0, 0))), what
                if trajectory:
                    rows = self.ends[place]
                    for name in ("lataccel", "action"):
                        x, y = getattr(got, name)[k, i], getattr(want, name)[0, 0]
                        same(x[:rows], y, what + name)
                        assert np.isnan(x[rows:]).all(), what + name
                else:
                    assert got.lataccel is got.action is None

    @call
    def broken_off(self):
        """A run that ends with the caller's exception leaves everything as it was."""
        sim, index = self.sim(), self.picked()
        after = self.integer(0, 90, "calls")

        def breaks(_):
            nonlocal after
            after -= 1
            if after < 0:
                raise ZeroDivisionError
            return 0.1

        kinds = [breaks, "pid"]
        progress = None if (given := self.one(kinds, "what breaks off")) is breaks else breaks_off
        try:
            sim.rollout(sim.routes[index], given, progress=progress)
        except ZeroDivisionError:
            return
        assert given is breaks, "an exception of progress was lost"

    @call
    def collect(self):
        """What rollouts leave for training is what each leaves alone; nothing changes it."""
        sim, index = self.sim(), self.picked(3)
        seed, sees = self.integer(0, 3, "its seed"), self.perhaps("sees")
        samples, key = self.integer(0, 2, "samples"), self.integer(0, 2**64 - 1, "key")
        policy = self.network(seed, sees)
        if not samples:  # nothing is drawn by it
            use = lambda: sim.collect(policy, sim.routes[index], seed=key)  # noqa: E731
            refused(use, ValueError, match=f"seed={key}: it goes with samples")
            key = None
        got = sim.collect(policy, sim.routes[index], samples, key)
        wants = []
        for row in range(len(index) * max(1, samples)):
            # Alone it is the last of its route's samples that has the same number.
            alone = self.reference.collect(
                policy, self.routes[[index[row % len(index)]]], samples and row + 1, key
            )
            wants.append(alone)
            for name in ("raw", "softplus", "reward", "lataccel", "action", "costs", "steps"):
                what = f"{sim.engine}, rollout {row} of {len(got)}: {name}"
                same(getattr(got, name)[row], getattr(alone, name)[-1], what)
        assert got.errors == {}
        self.kept.append((got, wants))
        self.kept = self.kept[-3:]

    @call
    def observe(self):
        """What networks saw, of all or of a minibatch, long after they were collected."""
        if not self.kept:
            self.collect()
        got, wants = self.one(self.kept, "experience")
        places, part = got.places, self.perhaps("a minibatch")
        if part:
            places = places[self.draw(st.lists(st.integers(0, len(places) - 1)), "places")]
        seen = got.observe(places if part else None)
        for k, place in enumerate(places):
            row, step = divmod(int(place), 400)
            want = wants[row].observe([400 * (len(wants[row]) - 1) + step])
            same(seen[k], want[0], f"observation of rollout {row}, step {step}")

    # Rollouts in step.

    @call
    def reset(self):
        sim, index = self.sim(), self.picked()
        step = self.draw(st.sampled_from([STEERED, STEERED, STEERED, FIRST, 99, 57]), "first step")
        draws, given = [self.own[i] for i in index], None
        if self.integer(0, 2, "given draws") == 2:
            draws = [self.drawn(self.integer(0, 5, "their seed")) for _ in index]
            given = np.array(draws)[:, : max(self.ends[i] for i in index) - FIRST]
        self.start(sim, index, draws, step, given)

    def start(self, sim, index, draws, step=STEERED, given=None):
        rollouts = sim.reset(sim.routes[index], step, given)
        line = Line(
            rollouts, index, draws, [Fate(i, d) for i, d in zip(index, draws, strict=True)], sim
        )
        for fate in line.fates:
            fate.commands = [0.0] * (step - FIRST)
            fate.lataccel = self.routes[fate.route].target_lataccel[FIRST:step].tolist()
        if len(self.lines) > 2:
            self.shut(self.lines[0])
        self.lines.append(line)
        return line

    def running(self, fate):
        return fate.step < self.ends[fate.route] and not (
            fate.lataccel and np.isnan(fate.lataccel[-1])
        )

    def commands(self, n, step):
        given = self.draw(
            arrays.arrays(np.float64, n, elements=st.floats(-3, 3, width=32)), "commands"
        )
        if step >= STEERED and self.integer(0, 7, "not a number") == 7:
            given[self.integer(0, n - 1, "of rollout")] = np.nan
        return given

    @call
    def step(self):
        line = self.line()
        at = line.rollouts.step
        steps = self.integer(1, 3, "steps")
        if at < STEERED - 1:
            steps = self.one([STEERED - at, STEERED - at - 1, STEERED - at + 1, 1], "steps")
        self.go_on(line, steps)

    def go_on(self, line, steps):
        """Take so many steps, fewer where the last rollout ends."""
        rollouts, n = line.rollouts, len(line.fates)
        for _ in range(steps):
            at = rollouts.step
            if not any(map(self.running, line.fates)):
                assert rollouts.done
                refused(lambda: rollouts.advance(np.zeros(n)), ValueError, match="have ended")
                return
            commands = self.commands(n, at)
            form = self.integer(0, 4, "form")
            given = [commands, commands.tolist(), commands.astype(np.float32),
                     np.repeat(commands, 2)[::2], commands.astype(">f8")][form]  # fmt: skip
            out = [None, np.empty(n), line.out][self.integer(0, 2, "out")]
            answer = rollouts.advance(given, out)
            if out is not None:
                assert answer is out
                line.out = out
            assert rollouts.step == at + 1
            self.enter(line.fates, commands, answer, line.sim.engine)
            same(rollouts.lataccel, answer, "lataccel after a step")

    def enter(self, fates, commands, lataccels, engine):
        """Keep what a step did."""
        for i, fate in enumerate(fates):
            if self.running(fate):
                fate.commands.append(float(commands[i]))
                fate.lataccel.append(float(lataccels[i]))
            else:
                want = fate.lataccel[-1]
                same(lataccels[i], np.float64(want), f"{engine}, rollout {i}, which does not run")

    @call
    def results(self):
        self.hold(self.line())

    def hold(self, line):
        """Hold each of a line's rollouts to what the reference makes of it alone."""
        got, n = line.rollouts, len(line.fates)
        running, errors, costs = got.running, got.errors, got.costs()
        features = None
        if got.step >= STEERED:
            out = np.full((n, 256), 7, np.float32) if got.step % 2 else None
            features = got.features(out)
            assert out is None or features is out
        else:
            refused(got.features, ValueError, match="from step 100 on")
        assert got.done == (not running.any())
        for i, fate in enumerate(line.fates):
            what = f"{line.sim.engine}, rollout {i} of {n}, before step {got.step}: "
            alone = self.alone(fate)
            same(np.array(fate.lataccel), alone.lataccels, what + "lataccel")
            assert running[i] == (alone.running[0] and self.running(fate)), what
            same(got.lataccel[i], alone.lataccel[0], what + "lataccel")
            same(costs[i], alone.costs()[0], what + "costs")
            assert str(errors.get(i)) == str(alone.errors.get(0)), what
            if features is not None:
                want = alone.features()[0] if running[i] else np.zeros(256, np.float32)
                same(features[i], want, what + "features")

    def alone(self, fate):
        """The reference's rollout of a fate, as far as the fate has come, with its lataccels.

        A step that takes its expected value is one of a candidate's, since nothing else does.
        """
        rollouts = self.reference.reset(
            self.routes[[fate.route]], FIRST, fate.draws[np.newaxis, : END - FIRST]
        )
        found = []
        for command in fate.commands[: fate.expected - FIRST]:
            found.append(rollouts.advance([command])[0])
        rest = fate.commands[fate.expected - FIRST :] if fate.expected < 10**9 else []
        if rest and not rollouts.done:
            one = rollouts.snapshot().fork([0], "expected")
            for command in rest:
                found.append(one.roll([[command]], True)[1][0, 0])
        rollouts.lataccels = np.array(found)
        return rollouts

    # Snapshots and candidates.

    @call
    def snapshot(self):
        line = self.line()
        if self.perhaps("at an edge"):
            last = line.last(self.ends)
            edge = self.one([STEERED - 1, STEERED, STEERED + 1, last - 1, last], "edge")
            self.go_on(line, max(0, edge - line.rollouts.step))
        snapshot = line.rollouts.snapshot()
        assert snapshot.routes == [self.routes.names[i] for i in line.index]
        assert snapshot.step == line.rollouts.step
        saved = Saved(snapshot, line, line.index, [f.copy() for f in line.fates])
        self.by_way(saved, self.integer(0, 2, "by way of"))
        self.saved = [*self.saved[-5:], saved]

    def by_way(self, saved, way, of=None):
        """Keep a snapshot as the object, as its bytes, or as those that were pickled."""
        if way:
            data = saved.snapshot.to_bytes()
            assert len(data) == saved.snapshot.nbytes
            data = pickle.loads(pickle.dumps(data)) if way == 2 else data
            saved.of = of or saved.of
            saved.snapshot = lockstep.Snapshot.from_bytes(data, of=saved.of.rollouts)
            assert saved.snapshot.to_bytes() == data

    def family(self, saved):
        """An open line of a snapshot's routes, with its own draws or others; or a new one."""
        all_ = [line for line in self.lines if line.index == saved.index]
        if all_ and self.perhaps("one that was used"):
            return self.one(all_, "rollouts of its routes")
        draws = [self.own[i] for i in saved.index]
        return self.start(self.sim(), saved.index, draws, self.one([STEERED, 60], "first step"))

    @call
    def restore(self):
        """Go back, or forward, to a snapshot, in rollouts that were used or elsewhere."""
        saved = self.save()
        line = self.family(saved)
        line.rollouts.restore(saved.snapshot)
        assert line.rollouts.step == saved.snapshot.step
        line.fates = [self.with_draws(f, d) for f, d in zip(saved.fates, line.draws, strict=True)]
        for i, fate in enumerate(line.fates):
            if fate.lataccel:
                same(line.rollouts.lataccel[i], np.float64(fate.lataccel[-1]), "restored lataccel")
            assert line.rollouts.running[i] == self.running(fate)
        self.go_on(line, self.integer(0, 2, "steps from there"))

    @staticmethod
    def with_draws(fate, draws):
        """A copy of a fate, with other draws from a step on, which is where it is."""
        k = fate.step - FIRST
        return replace(fate.copy(), draws=np.concatenate([fate.draws[:k], draws[k:]]))

    @call
    def foreign(self):
        """A snapshot of other rollouts is refused, as are bytes with damage; nothing changes."""
        line, saved = self.line(), self.save()
        before = line.rollouts.step, line.rollouts.lataccel
        if line.index != saved.index:
            refused(lambda: line.rollouts.restore(saved.snapshot), ValueError, match="snapshot")
        data = bytearray(saved.snapshot.to_bytes())
        data[self.integer(0, len(data) - 1, "byte")] ^= 1 << self.integer(0, 7, "bit")
        refused(lambda: lockstep.Snapshot.from_bytes(bytes(data)), ValueError, match="snapshot")
        assert line.rollouts.step == before[0]
        same(line.rollouts.lataccel, before[1], "lataccel after a snapshot was refused")

    @call
    def fork(self):
        saved = self.save()
        if saved.of not in self.lines:  # who has been closed
            refused(lambda: saved.snapshot.fork([0], "own"), lockstep.ClosedError)
            self.by_way(saved, self.integer(1, 2, "by way of"), self.family(saved))
        index = self.draw(
            st.lists(st.integers(0, len(saved.index) - 1), min_size=1, max_size=4), "index"
        )
        noise = self.draw(st.sampled_from(["own", "seeded", "expected"]), "noise")
        seeds = [self.integer(0, 2**32 - 1, "seed") for _ in index] if noise == "seeded" else None
        if saved.of.sim not in self.sims:
            refused(lambda: saved.snapshot.fork(index, noise, seeds), lockstep.ClosedError)
            zeros = np.zeros(len(saved.index))
            refused(lambda: saved.snapshot.gradient(zeros), lockstep.ClosedError)
            refused(lambda: saved.snapshot.jacobian(zeros), lockstep.ClosedError)
            return
        candidates = saved.snapshot.fork(index, noise, seeds)
        assert (len(candidates), candidates.step) == (len(index), saved.snapshot.step)
        fates = []
        for k, i in enumerate(index):
            fate = saved.fates[i]
            draws = self.drawn(seeds[k]) if seeds else saved.of.draws[i]
            fate = self.with_draws(fate, draws)
            if noise == "expected":
                fate.expected = candidates.step
            fates.append(fate)
        if len(self.forks) > 2:
            self.forks.pop(0).candidates.close()
        self.forks.append(Fork(candidates, fates))

    @call
    def roll(self):
        """Go on with candidates, several steps at once."""
        if not self.forks:
            self.fork()
        if not self.forks:  # its simulator is closed
            return
        fork = self.one(self.forks, "candidates")
        n, at = len(fork.fates), fork.candidates.step
        steps = self.integer(1, 3, "steps")
        commands = np.array([self.commands(n, at + k) for k in range(steps)])
        trajectory = self.perhaps("trajectory")
        before = [f.copy() for f in fork.fates]
        for k in range(steps):
            going = [self.running(f) for f in fork.fates]
            if not any(going):  # more steps than they have
                refused(lambda: fork.candidates.roll(commands, trajectory), ValueError)
                self.forks = [f for f in self.forks if f is not fork]
                return
            for i, fate in enumerate(fork.fates):
                if going[i]:
                    fate.commands.append(float(commands[k, i]))
                    found = self.alone(fate).lataccels
                    fate.lataccel.append(float(found[-1]))
        answer = fork.candidates.roll(commands, trajectory)
        costs, lataccels = answer if trajectory else (answer, None)
        assert fork.candidates.step == at + steps
        for i, fate in enumerate(fork.fates):
            what = f"candidate {i} of {n}, {steps} steps from {at}: "
            cost = 0.0
            for step in range(before[i].step, fate.step):
                cost += self.cost(fate, step)
            want = np.array(
                [fate.lataccel[min(at + k - FIRST, len(fate.lataccel) - 1)] for k in range(steps)]
            )
            if np.isnan(fate.lataccel[-1]):
                cost = np.nan
            same(costs[i], np.float64(cost), what + "costs")
            if trajectory:
                same(lataccels[:, i], want, what + "lataccel")

    def cost(self, fate, step):
        """What a step adds to the total cost, spelled out once more."""
        if step < STEERED:
            return 0.0
        n = self.ends[fate.route] - STEERED
        x = fate.lataccel[step - FIRST]
        e = float(self.routes[fate.route].target_lataccel[step]) - x
        cost = 5000 / n * (e * e)
        if step > STEERED:
            j = (x - fate.lataccel[step - 1 - FIRST]) / 0.1
            cost += 100 / (n - 1) * (j * j)
        return cost

    @call
    def slopes(self):
        """Finite differences of a snapshot are those of each rollout alone, and change nothing."""
        saved = self.save()
        if saved.of not in self.lines:
            self.by_way(saved, 1, self.family(saved))
        if saved.of.sim not in self.sims or not all(map(self.running, saved.fates)):
            return
        n, snapshot = len(saved.index), saved.snapshot
        if snapshot.step < STEERED:
            refused(lambda: snapshot.jacobian(np.zeros(n)), ValueError, match="want 100 at least")
            return
        commands = self.draw(
            arrays.arrays(np.float64, n, elements=st.floats(-1.5, 1.5)), "commands"
        )
        got = snapshot.gradient(commands), snapshot.jacobian(commands)
        for i, fate in enumerate(saved.fates):
            alone = self.alone(fate).snapshot()
            want = alone.gradient(commands[i : i + 1]), alone.jacobian(commands[i : i + 1])
            what = f"rollout {i} of {n}, before step {snapshot.step}: "
            for k in range(2):
                same(got[0][k][i], want[0][k][0], what + "gradient")
            for name in want[1]:
                same(got[1][name][i], want[1][name][0], what + name)

    # What is refused, and the end.

    @call
    def copied(self):
        """Nothing can be copied or pickled."""
        things = [self.sim(), self.sim().routes, self.line().rollouts, self.save().snapshot]
        things += [fork.candidates for fork in self.forks] + [kept for kept, _ in self.kept]
        things += list(self.policies.values())
        thing = self.one(things, "what is copied")
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            refused(lambda way=way: way(thing), TypeError, match="neither copied nor pickled")

    @call
    def threads(self):
        """A second thread that advances is refused; other calls are not."""
        line = self.line()
        at, n, found = line.rollouts.step, len(line.fates), []

        def second():
            try:
                line.rollouts.advance(np.zeros(n))
            except RuntimeError as error:
                found.append(str(error))
            found.append(line.rollouts.costs())

        with line.rollouts._turn:
            thread = threading.Thread(target=second)
            thread.start()
            thread.join()
        assert "another thread" in found[0]
        assert line.rollouts.step == at
        same(found[1], line.rollouts.costs(), "costs from another thread")

    @call
    def bad(self):
        """Arguments that are wrong are refused, and change nothing."""
        line, sim, saved = self.line(), self.sim(), self.save()
        n, at = len(line.fates), line.rollouts.step
        before = line.rollouts.lataccel
        for actions in (np.zeros(n + 1), ["left"] * n, None, np.zeros((n, 1))):
            refused(lambda a=actions: line.rollouts.advance(a), ValueError, TypeError)
        for out in (np.zeros(n + 1), [0.0] * n, np.zeros(n, np.float32)):
            refused(lambda o=out: line.rollouts.advance(np.zeros(n), o), ValueError, TypeError)
        refused(lambda: sim.rollout(sim.routes, [[np.nan, 0, 0]]), ValueError)
        refused(lambda: sim.rollout(sim.routes, "nobody"), ValueError)
        refused(lambda: sim.reset(sim.routes, 101), ValueError)
        refused(lambda: sim.reset(sim.routes[:0]), ValueError)
        refused(lambda: sim.load(self.folder / "nothing"), FileNotFoundError)
        refused(lambda: saved.snapshot.fork([99], "own"), ValueError)
        assert line.rollouts.step == at
        same(line.rollouts.lataccel, before, "lataccel after what was refused")

    @call
    def close(self):
        """Close anything, twice. From then on it refuses everything."""
        which = self.integer(0, 4, "what")
        if which == 0:
            self.shut(self.line())
        elif which == 1 and self.forks:
            fork = self.forks.pop(self.integer(0, len(self.forks) - 1, "candidates"))
            fork.candidates.close()
            fork.candidates.close()
            zeros = np.zeros((1, len(fork.fates)))
            refused(lambda: fork.candidates.roll(zeros), lockstep.ClosedError)
        elif which == 2 and self.kept:
            got, _ = self.kept.pop(self.integer(0, len(self.kept) - 1, "experience"))
            before = got.reward.copy()
            got.close()
            got.close()
            refused(got.observe, lockstep.ClosedError)
            same(got.reward, before, "rewards of what was closed")
        elif which == 3:
            self.end(self.sim())

    def shut(self, line):
        self.hold(line)
        self.lines = [other for other in self.lines if other is not line]
        line.rollouts.close()
        line.rollouts.close()
        zeros = np.zeros(len(line.fates))
        for use in (
            lambda: line.rollouts.advance(zeros),
            line.rollouts.costs,
            line.rollouts.features,
            line.rollouts.snapshot,
        ):
            refused(use, lockstep.ClosedError)

    def end(self, sim):
        """Close a simulator. Rollouts that it has begun go on."""
        self.sims = [other for other in self.sims if other is not sim]
        sim.close()
        sim.close()
        for use in (
            lambda: sim.rollout(sim.routes, "zero"),
            lambda: sim.reset(sim.routes),
            lambda: sim.collect(self.network(0), sim.routes),
            lambda: self.loaded(sim),
        ):
            refused(use, lockstep.ClosedError)


def breaks_off(*_):
    raise ZeroDivisionError
