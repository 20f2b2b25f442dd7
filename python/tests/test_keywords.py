"""Every keyword of everything that is public is heeded, or refused by its name.

The keywords are those of the signatures: one that is new has no case, and is red.
"""

import contextlib
import inspect
import io
import itertools
import shutil
import warnings
from types import SimpleNamespace

import lockstep
import numpy as np
import pytest
from conftest import write_route
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from lockstep import _native, classic, shards

PROFILE, OTHER = "ort1.30-avx2-expU-sinfma-csv2", "ort1.23-avx2-expU-sinfma-csvexact"
OWN = {"engine": "reference", "model": "own", "profile": PROFILE, "workers": 1}


class Case:
    """Values of a keyword: another than by default, or two; or it is refused with such words.

    The call has further keywords. What no result may show is sent to the library under its name.
    Or nothing here can show it, and why says what does.
    """

    def __init__(self, *values, refused=None, why=None, sent=False, least=1, **also):
        self.values, self.refused, self.why, self.also = values, refused, why, also
        self.sent, self.least = sent, least  # least: how often progress is told of, if it is


def told(x):
    """What tells results apart."""
    if isinstance(x, np.ndarray) and x.dtype != object:
        return str(x.dtype), x.shape, x.tobytes()
    if isinstance(x, dict):
        return {str(k): told(v) for k, v in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [told(v) for v in x]
    return repr(x)


def opened(simulator):
    """How a simulator was opened."""
    with simulator as s:
        return s.engine, s.model, s.profile, s.workers


def simulators(**more):
    """Cases of the keywords of a simulator."""
    values = {
        "engine": Case("batched", **more),
        "model": Case("none.onnx", refused="none.onnx", **more),
        "profile": Case(OTHER, **more),
        "workers": Case(3, sent=True, **more),
        "stream": Case(7, sent=True, **more),
    }
    assert set(values) == set(inspect.signature(lockstep.Simulator).parameters)
    return values


def test_what_is_passed_over_is_refused(world):
    """What a call has no use for beside its other arguments: by name, and nothing is done."""
    w, sim = world, world.sim
    frame, weights = w.routes[0], [[1, 0, 0, 1], [0, 1, 0, 0]]
    network = classic.Network([weights], [[0, 0]])
    envs = classic.VectorEnv("CartPole-v1", 2)
    envs.reset(seed=1)
    pendulum, table = classic.Env("Pendulum-v1"), np.ones(3, np.int64)
    before = envs.states.copy()

    trace = w.temporary() / "a.trace"
    writer = lockstep.TraceWriter(trace, _native.call("schema"), engine="mine")
    writer.end(writer.begin(["a", "pid"]))
    writer.close()

    def plan(**given):
        return lambda: lockstep.plan(w.routes, rounds=1, **given)

    for call, message in [
        (plan(noise="expected", window=5), r'window goes with noise="route", not with "expected"'),
        (plan(noise="seeded", horizon=24), r'horizon goes with noise="route", not with "seeded"'),
        (plan(seeds=24), r'seeds goes with noise="seeded", not with "route"'),
        (plan(noise="expected", seed=1), r'seed goes with noise="seeded", not with "expected"'),
        (lambda: sim.load([frame], strict=False), "strict=False: it goes with files"),
        (lambda: sim.collect(w.network, w.routes, seed=0), "seed=0: it goes with samples"),
        (lambda: w.state.fork([0], "route", [1]), "seeds"),
        (lambda: lockstep.fetch("model", "main"), 'revision "main": that is of the data'),
        (lambda: lockstep.compare_traces("a", "b", budget=1), "budget=1: .*inexact=True"),
        (lambda: lockstep.compare(trace, w.routes, gains=(1, 0, 0)), "gains: .* is of pid_1_0_0"),
        (lambda: envs.run(3, table, seed=0), 'seed=0: it goes with policy="random"$'),
        (lambda: envs.run(3, network, seed=1), "seed=1: .*: a Network has its own"),
        (lambda: envs.run(3, classic.Network([weights], [[0, 0]], seed=0)), "seed=0: .*noise"),
        (lambda: envs.reset(options={"x_init": 1}), "options.'x_init'.: CartPole-v1 has 'low'"),
        (lambda: pendulum.reset(options={"low": 1}), "options.'low'.: Pendulum-v1 has 'x_init'"),
    ]:
        with pytest.raises((ValueError, lockstep.SimulationError), match=message):
            call()
    assert (envs.states == before).all()


def test_defaults_are_those_documented(world):
    """What is not given is what the documentation says it is then."""
    w, noise = world, np.arange(8) - 4.0

    def ran(policy="random", **given):
        envs = classic.VectorEnv("CartPole-v1", 2)
        envs.reset(seed=1)
        return vars(envs.run(4, policy, **given))

    def network(**given):
        return ran(classic.Network([np.ones((2, 4))], [[0.0, 0.1]], noise, **given))

    def plan(**given):
        return lockstep.plan(w.routes[:1], **given)

    def collect(**given):
        return w.sim.collect(w.network, w.routes, samples=1, **given).raw

    recorded = ("observations", "actions", "rewards", "terminated", "truncated")
    for call, how, documented in [
        (ran, {}, {"policy": "random", "seed": 0, "record": recorded, "device": False}),
        (network, {}, {"seed": 0}),
        (collect, {}, {"seed": 0, "device": False}),
        (plan, {}, {"start": "pid", "noise": "route", "rounds": 2, "window": 5, "horizon": 24}),
        (plan, {"noise": "expected"}, {"rounds": 3}),
        (plan, {"noise": "seeded"}, {"rounds": 3, "seeds": 24, "seed": 1}),
        (w.state.gradient, {"actions": [0.1, 0.2]}, {"nudge": 0.1}),
    ]:
        want = told(call(**how))
        assert told(call(**how, **documented)) == want, f"{call.__name__}, {documented}"


def heard(call, keyword=None, **given):
    """What a call returned, whether it has told how far it is, and what of a keyword was sent."""
    seen, sent, arguments = [], [], _native._arguments

    def send(name, handle, buffer, request):
        sent.extend([request[keyword]] if keyword in request else [])
        return arguments(name, handle, buffer, request)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(_native, "_arguments", send)
        if "progress" in given:
            given["progress"] = lambda *done: seen.append(done)
            m.setattr(_native, "POLL_MS", 0)
        result = call(**given)
    return result, len(seen), sent


def stepped(rollouts, end=None):
    """What rollouts come to, and from where on."""
    with rollouts:
        begin, seen = rollouts.step, []
        while not rollouts.done and rollouts.step != end:
            seen.append(rollouts.advance(np.full(len(rollouts), 0.3)))
        return begin, seen, rollouts.costs()


@pytest.fixture(scope="module")
def world(sim, tmp_path_factory):
    """What calls are made with: two short routes, a network, a state, a trace."""
    folder = tmp_path_factory.mktemp("keywords")
    for name, rows in [("a", 104), ("b", 103)]:
        write_route(folder / f"{name}.csv", rows, rows / 90)
    random = np.random.default_rng(1)
    weights = [random.normal(size=(8, 256)) / 9, random.normal(size=(2, 8))]
    biases = [np.zeros(8), np.zeros(2)]
    w = SimpleNamespace(sim=sim, path=str(folder), weights=weights, biases=biases)
    w.routes = sim.load(folder, cache=False)
    w.file = str(folder / "a.csv")
    longer = tmp_path_factory.mktemp("longer")
    for name, rows in [("a", 122), ("b", 116)]:
        write_route(longer / f"{name}.csv", rows, rows / 30)
    w.longer = sim.load(longer, cache=False)
    w.network = lockstep.Network(weights, biases)
    w.rollouts = sim.reset(w.routes)
    w.state = w.rollouts.snapshot()
    w.rollouts.advance([0.1, 0.1])
    w.later = w.rollouts.snapshot()
    w.temporary = lambda: tmp_path_factory.mktemp("keyword")
    yield w
    w.rollouts.close()


class Mine:
    """A simulator that is driven, and is another's."""

    def __init__(self, wrong=0.0):
        self.wrong = wrong

    def reset(self, routes):
        self.n = len(routes)

    def step(self, actions):
        return {"lataccel": np.full(self.n, self.wrong)}


def simulator_calls(w):
    """Cases of simulators, their rollouts and what is made of these."""
    sim, routes, broken = w.sim, w.routes, w.temporary() / "broken.csv"
    broken.write_text("t\n1\n")
    draws = np.full((2, 84), 0.5)

    def load(**given):
        got = sim.load(**given)
        return got.names, sim.rollout(got, "zero").costs

    def cached(cache=True, **_):
        cache_folder = w.temporary()
        with pytest.MonkeyPatch.context() as m:
            m.setenv("XDG_CACHE_HOME", str(cache_folder))
            with lockstep.Simulator(**OWN | {"model": sim.model}) as own:
                own.load(w.path, cache=cache)
        return any(cache_folder.rglob("*"))

    def rollout(**given):
        r = sim.rollout(**given)
        return r.controllers, r.routes, r.costs, r.lataccel is None, r.action is None

    def collect(**given):
        e = sim.collect(**given)
        return e.costs, e.raw, len(e), e.observe()

    def steps(out=None, **given):
        rollouts = sim.reset(routes)
        with rollouts:
            got = rollouts.advance(out=out, **given)
            return got is out, got, rollouts.features()

    def features(out=None):
        with sim.reset(routes) as rollouts:
            return rollouts.features(out=out) is out

    def restored(snapshot):
        with sim.reset(routes) as rollouts:
            rollouts.restore(snapshot)
            return rollouts.step, rollouts.lataccel

    def fork(snapshot=None, trajectory=None, actions=((0.1, 0.2),) * 3, **given):
        with (snapshot or w.state).fork(**{"index": [0, 1], "noise": "route"} | given) as c:
            return c.noise, c.roll(actions) if trajectory is None else c.roll(actions, trajectory)

    def observe(**given):
        return sim.collect(w.network, routes).observe(**given)

    def generated(num_routes=1, **given):
        folder = w.temporary()
        lockstep.generate(folder, num_routes, **given)
        return [f.read_bytes() for f in sorted(folder.rglob("*.csv"))]

    def network(**given):
        given = {"weights": w.weights, "biases": w.biases} | given
        return sim.rollout(routes, lockstep.Network(**given)).costs

    of = {"routes": routes}
    return {
        "Simulator": (lambda **g: opened(lockstep.Simulator(**OWN | g)), {}, simulators()),
        "Simulator.load": (load, {"paths": w.path, "cache": False}, {
            "paths": Case(w.file), "limit": Case(1), "seed_prefix": Case("x"),
            "strict": Case(False, True, paths=[w.path, str(broken)], refused="broken.csv"),
            "cache": Case(False, True, call=cached),
        }),
        "Simulator.rollout": (rollout, of, {
            "routes": Case(routes[:1]), "controllers": Case("zero"), "trajectory": Case(True),
            "progress": Case(True, least=2),
        }),
        "Simulator.rollout of a function": (
            rollout, of | {"controllers": lambda step: np.zeros(len(step.target))}, {
                "routes": Case(routes[:1]), "trajectory": Case(True), "progress": Case(True),
                "controllers": Case(lambda step: np.ones(len(step.target))),
            },
        ),
        "Simulator.reset": (lambda **g: stepped(sim.reset(**g)), of, {
            "routes": Case(routes[:1]), "step": Case(90), "draws": Case(draws),
        }),
        "Simulator.collect": (collect, of | {"policy": w.network}, {
            "routes": Case(routes[:1]), "samples": Case(2), "seed": Case(1, 2, samples=1),
            "policy": Case(lockstep.Network(w.weights, w.biases, scale=0.4)),
            "progress": Case(True, least=2), "device": Case(True, refused="device=True"),
        }),
        "Rollouts.advance": (steps, {"actions": [0.1, 0.2]}, {
            "actions": Case([0.2, 0.2]), "out": Case(np.empty(2)),
        }),
        "Rollouts.features": (features, {}, {"out": Case(np.empty((2, 256), np.float32))}),
        "Rollouts.restore": (restored, {"snapshot": w.state}, {"snapshot": Case(w.later)}),
        "Snapshot.from_bytes": (
            lambda **g: lockstep.Snapshot.from_bytes(**g).fork([0], "route") is None,
            {"data": w.state.to_bytes(), "of": w.rollouts}, {
                "data": Case(b"none", refused="snapshot"),
                "of": Case(None, refused="name the rollouts in Snapshot.from_bytes"),
            },
        ),
        "Snapshot.fork": (fork, {}, {
            "index": Case([1, 0]), "noise": Case("expected"),
            "seeds": Case([1, 2], [2, 1], noise="seeded"),
        }),
        "Snapshot.gradient": (w.state.gradient, {"actions": [0.1, 0.2]}, {
            "actions": Case([0.1, 0.3]), "nudge": Case(0.4),
        }),
        "Snapshot.jacobian": (w.state.jacobian, {"actions": [0.1, 0.2]}, {
            "actions": Case([0.1, 0.3]), "nudge": Case({"v": 3.0}),
        }),
        "Candidates.roll": (fork, {}, {
            "actions": Case([[1.3, -1.3]] * 3), "trajectory": Case(True),
        }),
        "Experience.observe": (observe, {}, {
            "places": Case([1]), "out": Case(np.empty((7, 256), np.float32), refused="no out"),
        }),
        "generate": (generated, {}, {
            "path": Case(why="each call writes to its own"), "num_routes": Case(2), "seed": Case(2),
        }),
        "Network": (network, {}, {
            "weights": Case([2 * x for x in w.weights]), "biases": Case([np.ones(8), np.ones(2)]),
            "scale": Case(0.4), "activation": Case("tanh"),
            "sees": Case([f"observation[{255 - i}]" for i in range(256)]),
        }),
    }  # fmt: skip


def environment_calls(w):
    """Cases of environments of the challenge."""

    def env(render_mode=None, **given):
        e = lockstep.Env(**{"routes": w.path, "render_mode": render_mode} | OWN | given)
        s = e._task.routes.simulator
        first, info = e.reset(seed=1)
        return first, info, e.step([0.1]), e.render() is None, s.engine, s.workers, s.profile

    def reset(**given):
        e = lockstep.Env(w.routes)
        e.reset(seed=1)
        return e.reset(**given)

    def vector(**given):
        v = lockstep.VectorEnv(**{"routes": w.path, "num_envs": 2} | OWN | given)
        s = v._task.routes.simulator
        first, _ = v.reset(seed=1)
        taken = [v.step(np.zeros(v.num_envs))[:3] for _ in range(3)]
        with contextlib.suppress(lockstep.errors.ClosedError, Exception):
            taken += v.step(np.zeros(v.num_envs))
        return taken, v.reset(seed=1)[0] is first or taken[0][0] is taken[1][0], opened(s)

    def vector_reset(**given):
        v = lockstep.VectorEnv(2, w.routes, autoreset_mode="Disabled")
        v.reset(seed=1)
        return v.reset(**given)

    space = Box(-1, 1, (1,), np.float32)

    def obs(rollouts, routes):
        return rollouts.features()[:, :1]

    common = {
        "routes": Case(w.file, w.file.replace("a.csv", "b.csv")),
        "obs": Case(obs, "features", observation_space=space,
                                            refused="observation_space"),
        "noise": Case("seed"),
        "observation_space": Case(Box(-2, 2, (2,), np.float32), refused="observation_space"),
        "simulator": simulators(),
    }  # fmt: skip
    return {
        "Env": (env, {}, common | {"render_mode": Case("rgb_array")}),
        "Env.reset": (reset, {"seed": 1}, {
            "seed": Case(2, 4), "options": Case({"route": "a"}, {"route": "b"}),
        }),
        "VectorEnv": (vector, {}, common | {
            "num_envs": Case(3), "autoreset_mode": Case("SameStep"), "copy": Case(False),
            "render_mode": Case("rgb_array", refused="render_mode"),
        }),
        "VectorEnv.reset": (vector_reset, {"seed": 1}, {
            "seed": Case([1, 5], [4, 8]), "options": Case({"route": "a"}, {"route": "b"}),
        }),
    }  # fmt: skip


def search_calls(w):
    """Cases of searches, comparisons and runs in parts."""
    routes, longer = {"routes": w.routes}, {"routes": w.longer}
    searched = {"population": 8, "generations": 1}

    def tune(**given):
        t = lockstep.tune(**given)
        return t.controller, t.history

    def plan(noise="route", **given):
        few = {"window": 2, "horizon": 2} if noise == "route" else {}
        return lockstep.plan(**{"rounds": 1, "noise": noise} | few | given)

    def compare(mine=None, **given):
        c = lockstep.compare(Mine(0.1) if mine is None else mine, **given)
        return c.outcome, c.title, c.why.partition("mine.trace")[2], c.extent

    traces = []
    for wrong in (0.0, 0.5):
        trace = w.temporary() / "a.trace"
        writer = lockstep.TraceWriter(trace, _native.call("schema"), engine="mine")
        one = writer.begin(["a", "pid"])
        for i in range(20, 104):
            logits = np.full(1024, wrong * (i > 100), np.float32)
            writer.step(one, i, logits=logits, lataccel=0.1)
        writer.end(one, (1.0, 1.0, 1.0))
        writer.close()
        traces.append(str(trace))

    def written(inputs=None, outcome=None, error="", **header):
        file = w.temporary() / "one.trace"
        writer = lockstep.TraceWriter(file, _native.call("schema"), **header)
        one = writer.begin(["a", "pid"], **(inputs or {}))
        writer.step(one, 20, lataccel=0.5)
        writer.end(one, outcome, error)
        writer.close()
        return file.read_bytes()

    def traced(**given):
        c = lockstep.compare_traces(**given)
        return c.outcome, c.title, c.why

    def planned(folder=None, **given):
        folder = folder or w.temporary()
        p = shards.plan(folder, **{"data": w.path} | OWN | given)
        return p.key, p.rollouts, p.shards

    def parts(folder=None, index=0, before=None, **given):
        folder = w.temporary()
        shards.plan(folder, before or w.path, "zero", 2, **OWN | {"engine": "batched"})
        shards.run(folder, index, **given)
        return shards.merge(folder).missing

    def missing(folder=None, **_):
        return shards.merge(folder or w.temporary())

    moved = w.temporary() / "moved"
    shutil.copytree(w.path, moved)
    return {
        "tune": (tune, longer | searched, {
            "routes": Case(w.longer[:1]), "kind": Case("pid"), "population": Case(9),
            "generations": Case(2), "budget": Case(0.0, refused="budget"), "seed": Case(2),
            "progress": Case(True, least=2),
        }),
        "plan": (plan, longer, {
            "routes": Case(w.longer[:1]), "start": Case("zero"), "noise": Case("expected"),
            "rounds": Case(2), "window": Case(1), "horizon": Case(3),
            "seed": Case(1, 0, noise="seeded", seeds=2),
            "seeds": Case(2, 3, noise="seeded"), "progress": Case(True, least=2),
        }),
        "compare": (compare, routes, {
            "mine": Case(Mine(0.2)), "routes": Case(w.routes[:1]),
            "inexact": Case(True), "budget": Case(-1, refused="budget=-1"),
            "gains": Case([1.0, 0.0, 0.0]), "name": Case("other"),
        }),
        "compare_traces": (traced, {"want": traces[0], "got": traces[0]}, {
            "want": Case(traces[1]), "got": Case(traces[1]), "inexact": Case(True, got=traces[1]),
            "budget": Case(-1, refused="budget=-1"),
        }),
        "fetch": (lockstep.fetch, {"what": "data", "out": "none", "revision": "x"}, {
            "what": Case("route", refused="what='route'", call=lockstep.fetch),
            **{k: Case(why="it wants the network: tests of internal/fetch and of native")
               for k in ("revision", "out", "progress")},
        }),
        "shards.plan": (planned, {}, {
            "folder": Case(why="each call has its own"),
            "data": Case(w.file), "controllers": Case("zero"), "shards": Case(2),
            "engine": Case("batched"), "model": Case("none.onnx", refused="none.onnx"),
            "profile": Case(OTHER), "limit": Case(1), "seed_prefix": Case("x"),
            "workers": Case(3, sent=True),
        }),
        "shards.run": (parts, {}, {
            "folder": Case("none", call=shards.run, refused="none", index=0),
            "index": Case(1), "model": Case("none.onnx", refused="none.onnx"),
            "data": Case([w.file], refused="something else than planned"),
            "workers": Case(3, sent=True), "progress": Case(True),
        }),
        "shards.merge": (missing, {}, {"folder": Case("none", refused="none")}),
        "TraceWriter": (written, {"engine": "a"}, {
            "path": Case(why="each call has its own"), "schema": Case(why="there is one"),
            "header": {"engine": Case("b"), "profile": Case("x")},
        }),
        "TraceWriter.begin": (written, {}, {
            "key": Case(why="test_parity"), "inputs": Case({"gains": "x"}),
        }),
        "TraceWriter.end": (written, {}, {
            "rollout": Case(why="test_parity"), "outcome": Case((1.0, 2.0, 3.0)),
            "error": Case("it failed"),
        }),
    }  # fmt: skip


def program_calls(w):
    """Cases of what has the challenge's interface."""

    def model(model_path=w.sim.model, **given):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            m = lockstep.TinyPhysicsModel(model_path, **given)
        return out.getvalue(), opened(m.simulator)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = lockstep.TinyPhysicsModel(w.sim.model, profile=PROFILE)
    logits = np.random.default_rng(2).normal(size=(1, 20, 1024))
    data = {"states": np.zeros((1, 20, 4), np.float32), "tokens": np.full((1, 20), 512)}

    def predict(**given):
        np.random.seed(4)
        return [own.predict(data, **given) for _ in range(20)]

    cases = simulators()
    cases["model"] = Case(why="it is model_path")
    return {
        "TinyPhysicsModel": (model, {"profile": PROFILE}, {
            "model_path": Case("none.onnx", refused="none.onnx"), "debug": Case(True),
            "simulator": cases,
        }),
        "TinyPhysicsModel.softmax": (own.softmax, {"x": logits}, {
            "x": Case(2 * logits), "axis": Case(1),
        }),
        "TinyPhysicsModel.predict": (predict, {}, {
            "input_data": Case(why="test_tinyphysics"), "temperature": Case(0.3),
        }),
    }  # fmt: skip


def classic_calls(w):
    """Cases of classic control."""

    def env(**given):
        e = classic.Env(**{"name": "Pendulum-v1", "engine": "reference"} | given)
        first, _ = e.reset(seed=1)
        action = np.array([0.3], np.float32) if e.action_space.shape else 1
        taken = [e.step(action) for _ in range(4)]
        return first, taken, e.render() is None, e._core.engine

    def reset(**given):
        e = classic.Env("CartPole-v1")
        e.reset(seed=3)
        return e.reset(**given)

    def vector(forked=False, **given):
        v = classic.VectorEnv(
            **{"name": "CartPole-v1", "num_envs": 2, "engine": "reference"} | given
        )
        v.reset(seed=1)
        if forked:
            v = v.fork(range(v.num_envs))
        actions = np.ones(v.num_envs, v.single_action_space.dtype)
        taken = []
        with contextlib.suppress(ValueError):
            for _ in range(12):
                taken.append(v.step(actions)[:4])
        return taken, taken[0][0] is taken[1][0], v.render() is None, v._core.engine

    def vector_reset(**given):
        v = classic.VectorEnv("CartPole-v1", 2, "Disabled")
        v.reset(seed=3)
        return v.reset(**given)

    def run(**given):
        v = classic.VectorEnv("CartPole-v1", 2)
        v.reset(seed=1)
        r = v.run(**{"steps": 6} | given)
        return r.observations, r.actions, r.states

    envs = classic.VectorEnv("CartPole-v1", 2)
    envs.reset(seed=1)
    early = envs.snapshot()
    envs.run(3)
    late = envs.snapshot()

    def fork(**given):
        v = envs.fork(**{"index": [0, 1]} | given)
        return v.states, v.run(6).observations

    def network(**given):
        weights, biases = np.ones((2, 4)), np.array([0.0, 0.1])
        made = {"weights": [weights], "biases": [biases], "noise": np.arange(8) - 4.0}
        return run(policy=classic.Network(**made | given))

    vectors = {
        "name": Case("Acrobot-v1"), "num_envs": Case(3), "copy": Case(False),
        "autoreset_mode": Case("SameStep", max_episode_steps=3), "engine": Case("batched"),
        "max_episode_steps": Case(3), "workers": Case(3, sent=True),
        "numpy1": Case(True, name="Pendulum-v1"),
        "render_mode": Case("human", refused="render_mode"),
        "stream": Case(7, sent=True),
        "options": {"sutton_barto_reward": Case(True), "none": Case(1, refused="none")},
    }  # fmt: skip
    options = {"g": Case(9.5), "max_episode_steps": Case(3), "none": Case(1, refused="none")}
    return {
        "classic.Env": (env, {}, {
            "name": Case("CartPole-v1"), "engine": Case("batched"), "numpy1": Case(True),
            "render_mode": Case("none", refused="render_mode"), "options": options,
        }),
        "classic.Env.reset": (reset, {"seed": 1}, {
            "seed": Case(2), "options": Case({"low": -0.2}),
        }),
        "classic.VectorEnv": (vector, {}, vectors),
        "classic.VectorEnv that is forked": (vector, {"forked": True}, vectors),
        "classic.VectorEnv.reset": (vector_reset, {"seed": 1}, {
            "seed": Case([1, 5]), "options": Case({"high": 0.2}),
        }),
        "classic.VectorEnv.run": (run, {}, {
            "steps": Case(7), "policy": Case(np.ones(6, np.int64)), "seed": Case(3),
            "record": Case(["states"]), "device": Case(True, refused="device=True"),
        }),
        "classic.VectorEnv.fork": (fork, {}, {
            "index": Case([1, 1]), "snapshot": Case(early, late),
        }),
        "classic.Network": (network, {}, {
            "weights": Case([np.array([[1, 1, 1, 1], [9, 9, 9, 9]])]),
            "biases": Case([np.array([9.0, 0.0])]),
            "noise": Case(None), "seed": Case(3),
        }),
        "classic.Network.gumbel": (classic.Network.gumbel, {}, {"bits": Case(4)}),
    }  # fmt: skip


CALLS = [simulator_calls, environment_calls, search_calls, program_calls, classic_calls]

# Of what else is public nobody calls these with keywords of the package's own.
MADE = [
    "BatchStep",
    "BatchedSimulator",
    "Candidates",
    "ClosedError",
    "Comparison",
    "DeviceArray",
    "Experience",
    "Result",
    "Rollouts",
    "Route",
    "RouteError",
    "Routes",
    "SimulationError",
    "Snapshot",
    "Tuned",
    "classic.Rollout",
    "classic.Snapshot",
    "shards.Merged",
    "shards.Plan",
]
ELSEWHERE = {
    "VectorEnv.close_extras": "Gymnasium's, and nothing is to be said",
    "classic.VectorEnv.close_extras": "likewise",
    "TraceWriter.step": "its keywords are a schema's stages: test_parity",
    "TinyPhysicsSimulator": "debug draws: test_tinyphysics",
    "run_rollout": "debug draws: test_tinyphysics",
}


def public():
    """All functions, constructors and methods that have a keyword."""
    for prefix, module in [("", lockstep), ("classic.", classic), ("shards.", shards)]:
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found):
                yield from ([] if prefix + name in MADE else [prefix + name])
                for method, f in vars(found).items():
                    f = getattr(f, "__func__", f)
                    if inspect.isfunction(f) and not method.startswith("_"):
                        yield f"{prefix}{name}.{method}"
            elif callable(found) and not issubclass(type(found), type):
                yield prefix + name


def test_annotations_can_be_evaluated():
    """As tools for dataclasses and documentation do: each name in them is there."""
    lacking = []
    for module in (lockstep, classic, shards):
        for name in module.__all__:
            found = getattr(module, name)
            for f in [found, *(vars(found).values() if inspect.isclass(found) else [])]:
                f = getattr(f, "fget", None) or getattr(f, "__func__", f)
                if not inspect.isclass(f) and not inspect.isfunction(f):
                    continue
                try:
                    inspect.get_annotations(f, eval_str=True)
                except NameError as error:
                    lacking.append(f"{name}, {f.__qualname__}: {error}")
    assert not lacking


def test_everything_public_has_cases(world):
    cases = {target.split(" ")[0] for calls in CALLS for target in calls(world)}
    lacking = []
    for target in public():
        optional = [
            p for p in parameters(target).values()
            if p.default is not p.empty or p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD)
        ]  # fmt: skip
        if optional and target not in cases and target not in ELSEWHERE:
            lacking.append(target)
    assert not lacking
    assert not [t for t in [*cases, *ELSEWHERE, *MADE] if not parameters(t)]


# What each keyword is where it is not given, wherever it stands, but for None.
DEFAULTS = {
    "autoreset_mode": AutoresetMode.NEXT_STEP, "axis": -1, "bits": 16, "budget": 0, "cache": True,
    "controllers": "pid", "copy": True, "data": (), "debug": False, "device": False,
    "engine": "auto", "error": "", "generations": 60, "inexact": False, "kind": "pidff",
    "name": "mine", "noise": "route", "nudge": 0.1, "num_envs": 1, "numpy1": False,
    "obs": "features", "out": "", "policy": "random", "population": 24, "profile": "host",
    "record": ("observations", "actions", "rewards", "terminated", "truncated"), "revision": "",
    "routes": "own", "samples": 0, "scale": 0.25, "seed": 1, "seed_prefix": "data", "shards": 1,
    "start": "pid", "step": 100, "stream": 0, "strict": True, "temperature": 1.0,
    "trajectory": False, "tune.budget": 600.0,
}  # fmt: skip


def test_keywords_have_one_default_each():
    """Another changes what programs compute that do not say it."""
    unlike = []
    for target in public():
        for name, parameter in parameters(target).items():
            if parameter.default is parameter.empty or parameter.default is None:
                continue
            want = DEFAULTS.get(f"{target}.{name}", DEFAULTS.get(name))
            if type(parameter.default) is not type(want) or parameter.default != want:
                unlike.append(f"{target}: {name}={parameter.default!r}, want {want!r}")
    assert not unlike


def parameters(target):
    """The parameters of what a name means, as the documentation has it."""
    name = target.split(" ")[0]
    of = {"classic": classic, "shards": shards}
    head, _, rest = name.partition(".")
    found = of.get(head, lockstep)
    for part in (rest if head in of else name).split("."):
        found = getattr(found, part)
    return inspect.signature(found.__init__ if inspect.isclass(found) else found).parameters


class Unheeded(Exception):
    """A keyword is not heeded."""


def check(call, base, keyword, case, before):
    """Hold a keyword to its case. What calls did without it is before."""
    if case.why:
        return
    also = dict(case.also)
    call, *values = also.pop("call", call), *case.values
    without = base | also | ({keyword: values[0]} if len(values) == 2 else {})
    other = base | also | {keyword: values[-1]}
    if case.sent:
        _, _, sent = heard(call, keyword, **other)
        if sent[-1:] != values:  # by the last call, such as that which makes a fork
            raise Unheeded(f"{values} is sent as {sent}")
        return
    try:
        got, times, _ = heard(call, **other)
    except Exception as error:
        if case.refused is None or case.refused not in str(error):
            raise
        return
    key = (id(call), *((k, id(v)) for k, v in sorted(without.items())))
    if key not in before:
        before[key] = told(heard(call, **without)[0])
        if told(heard(call, **without)[0]) != before[key]:
            raise Unheeded("twice it does not do the same")
    if keyword == "progress":  # on a busy machine all may be done before anybody asks
        tries = itertools.chain([times], (heard(call, **other)[1] for _ in range(20)))
        changed = any(n >= case.least for n in tries)
    else:
        changed = told(got) != before[key]
    if case.refused or not changed:
        raise Unheeded(f"{values[-1]!r:.60} is not refused, or changes nothing")


@pytest.mark.parametrize("calls", CALLS, ids=lambda calls: calls.__name__)
def test_keywords_are_heeded(world, calls):
    failed, before = [], {}
    for target, (call, base, cases) in calls(world).items():
        names = [p for p in parameters(target) if p not in ("self", "cls")]
        failed += [f"{target}: {name} has no case" for name in names if name not in cases]
        failed += [f"{target}: it has no {name}" for name in cases if name not in names]
        for name, case in cases.items():
            for keyword, one in case.items() if isinstance(case, dict) else [(name, case)]:
                try:
                    check(call, base, keyword, one, before)
                except Exception as error:
                    failed.append(f"{target}: {keyword}: {type(error).__name__}: {error}"[:300])
    if failed:
        pytest.fail("\n".join(failed), pytrace=False)
