"""Rollouts steered from Python: equal to whole rollouts in every bit, and what may go wrong."""

import copy
import gc
import math
import typing

import gymnasium
import lockstep
import numpy as np
import pytest
from conftest import write_route
from lockstep._frames import COLUMNS


class PID:
    """The challenge's controller for N routes."""

    def __init__(self, n, p=0.195, i=0.100, d=-0.053):
        self.gains = p, i, d
        self.integral, self.before = np.zeros(n), np.zeros(n)

    def __call__(self, step):
        e = step.target - step.current
        self.integral += e
        d, self.before = e - self.before, e
        p, i, k = self.gains
        return p * e + i * self.integral + k * d


def test_a_function_steers_as_the_engine_does(sim, short_routes):
    want = sim.rollout(short_routes, "pid", trajectory=True)
    got = sim.rollout(short_routes, PID(len(short_routes)), trajectory=True)
    assert got.controllers == ["PID"]
    assert got.costs.tobytes() == want.costs.tobytes()
    assert got.lataccel.tobytes() == want.lataccel.tobytes()
    for i, rows in enumerate(short_routes.rows):
        assert got.action[0, i, 100:rows].tobytes() == want.action[0, i, 100:rows].tobytes()


@pytest.mark.parametrize("command", [0.0, 2.5, -9.0])
def test_commands_are_clipped(sim, tmp_path, command):
    """The recorded ones from step 20 on, a function's own from 100 on, as the engine does it."""
    write_route(tmp_path / "00000.csv", 104, 30)
    route = sim.load(tmp_path, cache=False)
    table = {"table": np.full((1, 400), command)}
    want, got = (
        sim.rollout(route, c, trajectory=True) for c in (table, lambda step: np.full(1, command))
    )
    recorded = route[0].steer_command
    assert abs(recorded[:20]).max() > 2
    assert got.action[0, 0, 20:100].tolist() == np.clip(recorded[20:100], -2, 2).tolist()
    assert got.action[0, 0, 100:].tolist() == [np.clip(command, -2, 2)] * 4
    for name in ("action", "lataccel", "costs"):
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes(), name


@pytest.mark.parametrize("start", [20, 63, 100])
def test_replaying_actions_gives_the_same(sim, short_routes, start):
    want = sim.rollout(short_routes, "pid", trajectory=True)
    with sim.reset(short_routes, step=start) as rollouts:
        out = np.empty(len(short_routes))
        while not rollouts.done:
            i = rollouts.step
            running = rollouts.running
            assert running.tolist() == [i < rows for rows in short_routes.rows]
            got = rollouts.advance(np.nan_to_num(want.action[0, :, i]), out=out)
            assert got is out
            assert got[running].tobytes() == want.lataccel[0, running, i].tobytes()
        assert rollouts.costs().tobytes() == want.costs[0].tobytes()
        assert rollouts.errors == {}
        with pytest.raises(ValueError, match="have ended"):
            rollouts.advance(out)


def test_many_rollouts_are_as_few(sim, short_routes):
    """Above some number a step is a task, which must not change a bit."""
    many = short_routes[[0, 2] * 150]
    with sim.reset(many) as a, sim.reset(short_routes[[0, 2]]) as b:
        for k in range(4):
            x, y = a.advance(np.full(300, 0.1 * k)), b.advance(np.full(2, 0.1 * k))
            assert x.tobytes() == np.tile(y, 150).tobytes()


def test_commands_of_any_layout(sim, short_routes):
    pair = short_routes[[1, 3]]
    with sim.reset(pair) as r:
        want = r.advance(np.array([0.25, -0.5])).tobytes()
    frozen = np.array([0.25, -0.5])
    frozen.flags.writeable = False
    for commands in (
        [0.25, -0.5],
        np.array([0.25, 7, -0.5, 7])[::2],
        np.array([0.25, -0.5], dtype=np.float32),
        np.array([0.25, -0.5], dtype=">f8"),
        frozen,
    ):
        with sim.reset(pair) as r:
            assert r.advance(commands).tobytes() == want


def test_a_command_that_is_nan_fails_its_own_rollout(sim, short_routes):
    pair = short_routes[[1, 3]]
    with sim.reset(pair) as a, sim.reset(pair[1:]) as b:
        a.advance([math.nan, 0.1])
        b.advance([0.1])
        assert a.running.tolist() == [False, True]
        assert a.lataccel[1:].tobytes() == b.lataccel.tobytes()
        assert np.isnan(a.lataccel[0])
        assert list(a.errors) == [0]
        assert "step 100" in str(a.errors[0])
        while not b.done:
            a.advance([0.0, 0.2])
            b.advance([0.2])
        assert a.done
        assert a.costs()[1:].tobytes() == b.costs().tobytes()
        assert np.isnan(a.costs()[0]).all()


def test_draws(sim, short_routes):
    """Noise is what is given, and the route's own where nothing is."""
    one = short_routes[[4, 4]]
    draws = np.random.default_rng(5).random((2, 112 - 20))
    with sim.reset(one) as own, sim.reset(one, draws=draws) as given:
        a, b = own.advance([0.0, 0.0]), given.advance([0.0, 0.0])
        assert a[0] == a[1]
        assert b[0] != b[1]
    for bad in (draws[:1], draws + 1, draws[:, 0], np.full_like(draws, np.nan)):
        with pytest.raises(ValueError, match="draws"):
            sim.reset(one, draws=bad)
    for bound, beyond in [(0.0, -5e-324), (math.nextafter(1, 0), 1.0)]:  # the last that is in it
        at = draws.copy()
        at[1, -1] = bound
        sim.reset(one, draws=at).close()
        at[1, -1] = beyond
        with pytest.raises(
            ValueError, match=r"draws: shape \(2, 92\), want .* numbers in \[0, 1\)"
        ):
            sim.reset(one, draws=at)
    with pytest.raises(ValueError, match="draws"):
        sim.reset(one, draws=draws[:, :50])
    narrow = draws.astype(np.float32)
    with sim.reset(one, draws=narrow) as a, sim.reset(one, draws=narrow.astype(np.float64)) as b:
        assert a.advance([0.0, 0.0]).tobytes() == b.advance([0.0, 0.0]).tobytes()


def test_snapshots(sim, short_routes):
    trio = short_routes[[3, 1, 4]]
    with sim.reset(trio) as rollouts:
        rollouts.advance([0.1, 0.2, math.nan])
        snapshot = rollouts.snapshot()
        data = snapshot.to_bytes()
        assert (snapshot.step, snapshot.routes, len(data)) == (
            101,
            ["00003", "00001", "00004"],
            snapshot.nbytes,
        )
        first = [rollouts.advance([0.3, -0.1 * k, 0]).tobytes() for k in range(5)]
        for kept in (snapshot, lockstep.Snapshot.from_bytes(data)):
            rollouts.restore(kept)
            assert rollouts.step == 101
            assert rollouts.running.tolist() == [True, True, False]
            assert [rollouts.advance([0.3, -0.1 * k, 0]).tobytes() for k in range(5)] == first
    with sim.reset(trio) as elsewhere:
        elsewhere.restore(snapshot)
        assert [elsewhere.advance([0.3, -0.1 * k, 0]).tobytes() for k in range(5)] == first
    with sim.reset(short_routes) as others, pytest.raises(ValueError, match="snapshot"):
        others.restore(snapshot)
    for damaged in (data[:-1], b"", b"nonsense", data[:-50] + bytes([data[-50] ^ 1]) + data[-49:]):
        with pytest.raises(ValueError, match="snapshot"):
            lockstep.Snapshot.from_bytes(damaged)


@pytest.mark.parametrize("engine", ["reference", "batched"])
def test_lataccels_are_those_after_the_last_step(short_routes, engine):
    """After a reset, steps and a restore, here and elsewhere."""
    routes = lockstep.Simulator(engine=engine, model="own").load(short_routes.files, cache=False)
    for start in (20, 100):
        with routes.simulator.reset(routes, step=start) as rollouts:
            seen = [rollouts.lataccel.tobytes()]
            assert seen[0] == np.array([r.target_lataccel[start - 1] for r in routes]).tobytes()
            kept = [rollouts.snapshot()]
            for k in range(start, 106):  # one fails, and one ends
                got = rollouts.advance([0.1, -0.2, math.nan if k == 103 else 0, 0, 0]).tobytes()
                assert rollouts.lataccel.tobytes() == got
                seen.append(got)
                kept.append(rollouts.snapshot())
            with routes.simulator.reset(routes) as elsewhere:
                for r in (rollouts, elsewhere):
                    for k in reversed(range(len(kept))):
                        r.restore(kept[k])
                        assert r.lataccel.tobytes() == seen[k]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([0.0], r"\(1,\)"), (np.zeros((5, 1)), r"\(5, 1\)"), (0.0, r"\(\)"), ("left", "<U4"),
        (None, "object"), (np.array([None] * 5), "object"), (np.zeros(5, complex), "complex128"),
    ],
)  # fmt: skip
def test_bad_actions(sim, short_routes, actions, message):
    with sim.reset(short_routes) as rollouts:
        with pytest.raises((ValueError, TypeError), match=message):
            rollouts.advance(actions)
        assert rollouts.step == 100
        rollouts.advance(np.zeros(5))


def test_bad_out(sim, short_routes):
    read_only = np.zeros(5)
    read_only.flags.writeable = False
    with sim.reset(short_routes) as rollouts:
        for out, error, message in [
            (np.zeros(4), ValueError, r"out: shape \(4,\), want \(5,\)"),
            (np.zeros(5, np.float32), TypeError, "float32"),
            ([0.0] * 5, TypeError, "list"),
            (read_only, ValueError, "read-only"),
        ]:
            with pytest.raises(error, match=message):
                rollouts.advance(np.zeros(5), out=out)
        assert rollouts.step == 100
        every_other = np.zeros(10)[::2]
        assert rollouts.advance(np.zeros(5), out=every_other) is every_other
        np.testing.assert_array_equal(every_other, rollouts.lataccel)


def test_commands_that_are_all_nan_fail_all(sim, short_routes):
    """Each rollout has its error, here and where candidates are rolled."""
    with sim.reset(short_routes[:2]) as rollouts:
        snapshot = rollouts.snapshot()
        assert np.isnan(rollouts.advance([math.nan, math.nan])).all()
        assert (rollouts.step, rollouts.done, list(rollouts.errors)) == (101, True, [0, 1])
        assert "NaN" in str(rollouts.errors[1])
        assert rollouts.snapshot().step == 101
        with pytest.raises(ValueError, match="have ended"):
            rollouts.advance([0, 0])
        rollouts.restore(snapshot)
        candidates = snapshot.fork([0, 1], "own")
        assert np.isnan(candidates.roll(np.full((1, 2), math.nan))).all()
        with pytest.raises(ValueError, match="have ended or failed"):
            candidates.roll(np.zeros((1, 2)))


def test_bad_input_of_features(sim, short_routes):
    with sim.reset(short_routes, step=98) as rollouts:
        for step in (98, 99):
            with pytest.raises(ValueError, match=f"^step {step}: there are observations from"):
                rollouts.features()
            rollouts.advance(np.zeros(5))
        assert rollouts.features().any()
    with sim.reset(short_routes) as rollouts:
        for out, kind in [
            ([0.0], TypeError),
            (np.zeros((5, 256)), ValueError),
            (np.zeros((256, 5), np.float32).T, ValueError),
            (np.zeros((4, 256), np.float32), ValueError),
            (np.frombuffer(bytes(5 * 1024), np.float32).reshape(5, 256), ValueError),
        ]:
            with pytest.raises(kind, match="out"):
                rollouts.features(out=out)
    with pytest.raises(ValueError, match="routes: there is none"):
        sim.reset(short_routes[:0])
    for draws in (np.zeros((5, 500), complex), [["a"]] * 5):
        with pytest.raises(TypeError, match="draws"):
            sim.reset(short_routes, draws=draws)


def test_closed(sim, short_routes):
    rollouts = sim.reset(short_routes)
    rollouts.close()
    rollouts.close()
    for use in (
        lambda: rollouts.advance(np.zeros(5)),
        rollouts.costs,
        rollouts.features,
        rollouts.snapshot,
    ):
        with pytest.raises(lockstep.ClosedError, match="rollouts have been closed"):
            use()
    with pytest.raises(ValueError, match="step"):
        sim.reset(short_routes, step=19)


def test_nothing_is_left_of_many_resets(sim, short_routes, handles):
    """Ten thousand resets leave neither objects nor memory."""

    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    one = short_routes[:1]

    def resets(n):
        for _ in range(n):
            sim.reset(one)
        gc.collect()

    resets(1000)
    count, before = handles(), resident()
    resets(10_000)
    assert handles() == count
    assert resident() - before < 20e6


def test_gradients_are_differences_of_single_forks(sim, short_routes):
    """Each number is one that a fork of one rollout and one action gives."""
    n = len(short_routes)
    actions = np.linspace(-2.0, 2.0, n)  # at both of its ends
    with sim.reset(short_routes) as rollouts:
        rollouts.advance(np.zeros(n))
        snapshot = rollouts.snapshot()
        expected, slope = snapshot.gradient(actions, nudge=0.25)

        def lataccel(i, action):
            with snapshot.fork([i], "expected") as one:
                return one.roll([[action]], trajectory=True)[1][0, 0]

        for i, u in enumerate(actions):
            low, high = max(u - 0.25, -2.0), min(u + 0.25, 2.0)
            assert expected[i] == lataccel(i, u)
            assert slope[i] == (lataccel(i, high) - lataccel(i, low)) / (high - low)
        assert (slope != 0).any()
        for wrong, nudge, why in [
            *(
                (x, 0.1, rf"^actions: shape {of} of .*, want \({n},\) of float64$")
                for x, of in [(actions[1:], ".4,."), (actions[None], ".1, 5."), (0.1, "..")]
            ),
            (actions.astype(complex), 0.1, "^actions: shape .* of complex128, want"),
            (actions.astype(str), 0.1, "^actions: shape .* of <U.*, want"),
            (actions + 9, 0.1, r"actions\[0\]"),
            (actions + 9 * (np.arange(n) == n - 2), 0.1, rf"^actions\[{n - 2}\]: nudged by 0.1"),
            (actions, 0.0, "nudge=0"),
            (actions, math.nan, "nudge=nan"),
            (actions * math.nan, 0.1, r"actions\[0\]"),
        ]:
            with pytest.raises(ValueError, match=why):
                snapshot.gradient(wrong, nudge)


def test_the_jacobian_is_a_difference_of_single_forks(sim, short_routes):
    """By the action it is the gradient; by what came before it is what other histories give."""
    n = len(short_routes)
    actions = np.linspace(-0.9, 1.5, n)
    with sim.reset(short_routes) as rollouts:
        rollouts.advance(np.full(n, 0.3))
        snapshot = rollouts.snapshot()
        expected, slope = snapshot.gradient(actions, nudge=0.25)
        found = snapshot.jacobian(actions, nudge={"action": 0.25})
        shapes = {name: by.shape for name, by in found.items()}
        assert shapes == dict.fromkeys(["expected", "action", "roll", "v", "a"], (n,)) | {
            "lataccels": (n, 20),
            "actions": (n, 19),
        }
        assert found["expected"].tobytes() == expected.tobytes()
        assert found["action"].tobytes() == slope.tobytes()
        for name in ("roll", "a", "lataccels", "actions"):
            assert (found[name] != 0).any(), name
        again = snapshot.jacobian(actions, nudge=0.3)
        assert again["expected"].tobytes() == expected.tobytes()
        # A number is nudged by what its own name says, in whatever order names are given.
        of = {"action": "action", "roll": "roll", "v": "v", "a": "a", "lataccels": "lataccel"}
        of["actions"] = "action"
        plain = {"action": 0.1, "roll": 0.1, "v": 0.5, "a": 0.1, "lataccel": 0.1}
        by = {name: snapshot.jacobian(actions, nudge=nudge) for name, nudge in
              [("", None), *((name, {name: 0.3}) for name in plain)]}  # fmt: skip
        by["plain"] = snapshot.jacobian(actions, nudge=plain)  # what is documented
        for array, name in of.items():
            for given, answer in by.items():
                want = again if given == name else by[""]
                assert answer[array].tobytes() == want[array].tobytes(), (array, given)
            assert (again[array] != by[""][array]).any(), array
        mixed = snapshot.jacobian(actions, nudge={"lataccel": 0.3, "v": 0.5, "action": 0.1})
        for array, name in of.items():
            want = (again if name == "lataccel" else by[""])[array]
            assert mixed[array].tobytes() == want.tobytes(), array
        for wrong, nudge, why in [
            *((x, 0.1, "^actions: shape") for x in (actions[1:], actions[None], 0.1)),
            (actions.astype(complex), 0.1, "^actions: shape .* of complex128, want"),
            (actions + 9, 0.1, "command 0 is 8.1"),
            (actions, 0.0, "want numbers above 0"),
            (actions, {"speed": 1.0}, "want some of action, roll, v, a, lataccel"),
        ]:
            with pytest.raises(ValueError, match=why):
                snapshot.jacobian(wrong, nudge)


def test_stats(short_routes, tmp_path):
    with lockstep.Simulator(engine="reference", model="own", workers=1) as sim:
        before = sim.stats
        assert before["rollouts"] == before["steps"] == 0
        assert before["set_up_seconds"] > 0
        routes = sim.load("own", limit=2)
        sim.rollout(routes, "zero")
        after = sim.stats
        assert (after["routes"], after["rollouts"], after["steps"]) == (2, 2, 2 * 480)
        assert after["load_seconds"] > 0
        assert after["us_per_step"] == pytest.approx(1e6 * after["rollout_seconds"] / 960)
        with sim.reset(routes) as rollouts:
            more = sim.stats["steps"]
            rollouts.advance(np.zeros(2))
            assert sim.stats["steps"] == more + 2
        assert after["device"] is after["device_idle_seconds"] is None
        # whoever loads and rolls out: what is none is no route, one in memory is one
        before = sim.stats
        write_route(tmp_path / "a.csv", 104)
        (tmp_path / "b.csv").write_text("no route\n")
        some = sim.load(tmp_path, strict=False, cache=False)
        sim.load(some[0])
        lockstep.tune(some, "pid", population=8, generations=1)
        sim.collect(lockstep.Network([np.zeros((2, 256))], [np.zeros(2)]), some)
        after = sim.stats
        grown = {key: after[key] - before[key] for key in ("routes", "rollouts", "steps")}
        assert grown == {"routes": 2, "rollouts": 9, "steps": 9 * 84}
        # in step mode, too, what has ended is not computed
        write_route(tmp_path / "short.csv", 101)
        with sim.reset(sim.load([tmp_path / "a.csv", tmp_path / "short.csv"])) as rollouts:
            more = sim.stats["steps"]
            while not rollouts.done:
                rollouts.advance(np.zeros(2))
            assert sim.stats["steps"] == more + 4 + 1
        after = sim.stats
        # of those that fail there is no cost, and no rollout
        write_route(tmp_path / "c.csv", 104, 9)
        large = sim.load(tmp_path / "c.csv", cache=False)
        failed = sim.rollout(large, ["pid_1.7e308_1.7e308_-1.7e308", "zero"])
        assert list(failed.errors) == [(0, 0)]
        assert sim.stats["rollouts"] == after["rollouts"] + 1
        assert sim.stats["steps"] == after["steps"] + 84


def test_bounds_of_seeds(sim, short_routes, tmp_path):
    """The last of a range is in it, and the next is refused, on both sides."""
    network = lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
    route = short_routes[:1]
    rollouts = sim.reset(route)
    begin = rollouts.snapshot()
    envs = gymnasium.make_vec("lockstep/CartPole-v1", num_envs=1)
    envs.reset(seed=1)
    perceptron = lockstep.classic.Network
    for call, most in [
        (lambda seed: begin.fork([0], "seeded", [seed]), 2**32 - 1),
        (lambda seed: sim.collect(network, route, 1, seed=seed), 2**64 - 1),
        (lambda seed: lockstep.tune(route, "pid", 8, 1, seed=seed), 2**64 - 1),
        (lambda seed: lockstep.plan(route, "pid", "seeded", 1, seeds=1, seed=seed), 2**64 - 1),
        (lambda seed: lockstep.generate(tmp_path / str(seed), 1, seed), 2**64 - 1),
        (lambda seed: envs.run(1, seed=seed), 2**64 - 1),
        (lambda seed: envs.run(1, perceptron([[[0.0] * 4] * 2], [[0, 0]], [1], seed)), 2**64 - 1),
        (lambda seed: envs.reset(seed=seed), 2**63 - 1),
    ]:
        call(0)
        call(most)
        for beyond in (-1, most + 1):
            with pytest.raises((ValueError, OverflowError)):
                call(beyond)


def layouts(array):
    """The same numbers, otherwise in memory."""
    wide = np.repeat(np.repeat(array, 2, axis=0), 3, axis=-1)
    yield "in columns", np.asfortranarray(array)
    yield "with gaps", wide[::2, ..., ::3] if array.ndim > 1 else np.repeat(array, 2)[::2]
    yield "backwards", np.ascontiguousarray(array[::-1])[::-1]
    yield "read-only", np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)
    if array.dtype != np.float32:  # which classic control takes as it is here alone
        yield "of other byte order", array.astype(array.dtype.newbyteorder())
        yield "a list", array.tolist()


def test_arrays_of_any_layout(sim, short_routes):
    """Whatever takes an array takes its numbers, wherever in memory they lie."""
    routes, random = short_routes[:3], np.random.default_rng(6)
    weights, biases = random.standard_normal((2, 256)), random.standard_normal(2)
    experience = sim.collect(lockstep.Network([weights], [biases]), routes[:1])
    stays = sim.reset(routes)
    begin = stays.snapshot()
    cart, swing = ("lockstep/" + name for name in ("CartPole-v1", "Pendulum-v1"))

    def advanced(actions=(0.1, 0.2, 0.3), **how):
        with sim.reset(routes, **how) as rollouts:
            return rollouts.advance(actions)

    def rolled(actions, index=(0, 1, 2)):
        with begin.fork(index, "route") as candidates:
            assert candidates.noise == "route"
            return candidates.roll(actions, trajectory=True)[1]

    def made(columns):
        return sim.rollout(sim.load({"x": dict(zip(COLUMNS, columns, strict=True))}), "pid").costs

    def ran(name, policy):
        envs = gymnasium.make_vec(name, num_envs=3)
        envs.reset(seed=1)
        return envs.run(5, policy, record=("states",)).states

    def stepped(name, actions, states=None):
        envs = gymnasium.make_vec(name, num_envs=3)
        envs.reset(seed=1)
        if states is not None:
            envs.states = states
        return envs.step(actions)[0]

    def driven(actions):
        envs = lockstep.VectorEnv(3, routes=routes)
        envs.reset(seed=1)
        return envs.step(actions)[0]

    torques = random.uniform(-2, 2, (5, 3)).astype(np.float32)
    pushes = random.integers(0, 2, (5, 3))
    perceptron = lockstep.classic.Network
    for what, call, array in [
        ("weights", lambda a: lockstep.Network([a], [biases]).name, weights),
        ("biases", lambda a: lockstep.Network([weights], [a]).name, biases),
        ("gains", lambda a: sim.rollout(routes, a).costs, random.uniform(0, 0.3, (2, 3))),
        ("table", lambda a: sim.rollout(routes, {"table": a}).costs, random.normal(size=(3, 400))),
        ("columns", made, np.abs(random.normal(size=(5, 120)))),
        ("actions", advanced, random.normal(size=3)),
        ("draws", lambda a: advanced(draws=a), random.uniform(size=(3, 500))),
        ("candidates", rolled, random.normal(size=(4, 3))),
        ("index", lambda a: rolled(np.ones((2, 3)), a), np.array([2, 0, 2])),
        ("places", experience.observe, np.array([0, 3, 1])),
        ("a step", driven, random.normal(size=(3, 1))),
        ("classic weights", lambda a: ran(cart, perceptron([a], [[0.1, 0.2]])), weights[:, :4]),
        ("classic table", lambda a: ran(cart, a), pushes),
        ("classic torques", lambda a: ran(swing, a), torques),
        ("classic actions", lambda a: stepped(cart, a), pushes[0]),
        ("classic torque", lambda a: stepped(swing, a), torques[0]),
        ("states", lambda a: stepped(cart, pushes[0], a), random.uniform(-0.1, 0.1, (3, 4))),
    ]:
        want = np.array(call(array)).tobytes()
        for how, same in layouts(array):
            if what == "states" and how in ("a list", "of other byte order"):
                continue  # which are refused
            assert np.array(call(same)).tobytes() == want, f"{what}, {how}"


def test_what_was_returned_stays(sim, short_routes):
    """An array belongs to who asked: no later call writes into it, and writing changes nothing."""
    commands = np.linspace(-0.3, 0.3, len(short_routes))

    def ask(rollouts):
        """Every array that rollouts return: of methods, and of all properties that are arrays."""
        answers = {
            "advance": rollouts.advance(commands),
            "features": rollouts.features(),
            "costs": rollouts.costs(),
        }
        of = type(rollouts)
        for name in (n for n in dir(of) if isinstance(getattr(of, n), property)):
            answers[name] = getattr(rollouts, name)
        return {name: a for name, a in answers.items() if isinstance(a, np.ndarray)}

    with sim.reset(short_routes) as rollouts, sim.reset(short_routes) as others:
        begin = rollouts.snapshot()
        first = ask(rollouts)
        assert {"advance", "lataccel", "running"} <= set(first)
        before = {name: a.tobytes() for name, a in first.items()}
        while not rollouts.done:
            rollouts.advance(commands)
        rollouts.restore(begin)
        assert {name: a.tobytes() for name, a in first.items()} == before
        again = ask(rollouts)
        assert {name: a.tobytes() for name, a in again.items()} == before
        ask(others)
        for a in again.values():
            a.view(np.uint8)[...] = 0x5A
        want, got = ask(others), ask(rollouts)
        assert {n: a.tobytes() for n, a in got.items()} == {n: a.tobytes() for n, a in want.items()}


def test_what_was_given_is_the_callers(sim, short_routes):
    """It may be written into as soon as a call has returned."""
    routes = short_routes[[1, 3]]
    rng = np.random.default_rng(8)
    frames = {"a": {name: rng.uniform(0.1, 0.3, 106) for name in COLUMNS}}
    draws, commands = rng.random((2, 111)), rng.uniform(-1, 1, (2, 2))
    index, seeds = np.array([1, 0, 1]), np.array([7, 8, 9])
    actions = rng.uniform(-1, 1, (3, 3))
    weights, biases = [rng.normal(0, 0.2, (2, 256)).astype(np.float32)], [np.ones(2, np.float32)]

    def answers(lend):
        """All that comes of these arrays, each lent to one call."""

        def lent(call, *arrays):
            copies = copy.deepcopy(arrays)
            answer = call(*copies)
            if lend:
                for array in flat(copies):
                    array[...] = array[::-1].copy() + 1
            return answer

        made = lent(sim.load, frames)
        network = lent(lockstep.Network, weights, biases)
        with lent(lambda d: sim.reset(routes, draws=d), draws) as rollouts:
            yield rollouts.advance(commands[0])
            snapshot = rollouts.snapshot()
            yield lent(rollouts.advance, commands[1])
            yield rollouts.advance(commands[0])
            data = bytearray(snapshot.to_bytes())
            read = lockstep.Snapshot.from_bytes(data, of=rollouts)
            data[:] = bytes(len(data))
            for kept in (snapshot, read):
                candidates = lent(lambda i, s, of=kept: of.fork(i, "seeded", s), index, seeds)
                yield lent(candidates.roll, actions)
                yield candidates.roll(actions)
        yield sim.rollout(made, "pid").costs
        yield made[0].v_ego
        yield sim.collect(network, routes, 1).raw

    for k, (got, want) in enumerate(zip(answers(True), answers(False), strict=True)):
        assert got.tobytes() == want.tobytes(), f"answer {k}"


def flat(given):
    """The arrays that are in lists and mappings."""
    if isinstance(given, np.ndarray):
        return [given]
    each = given.values() if isinstance(given, dict) else given
    return [array for one in each for array in flat(one)]


def test_arrays_on_a_gpu_go_with_rollouts_that_are_there(sim, short_routes):
    class There:
        __cuda_array_interface__: typing.ClassVar = {}

    with sim.reset(short_routes[:2]) as rollouts:
        begin = rollouts.step
        for call, message in [
            (lambda: rollouts.advance(There()), "actions: they are on a GPU and the rollouts are"),
            (lambda: rollouts.features(There()), "out: it is on a GPU and the rollouts are not"),
        ]:
            with pytest.raises(TypeError, match=message):
                call()
        assert rollouts.step == begin


def test_rollouts_end_where_costs_end(sim, tmp_path):
    write_route(tmp_path / "a.csv", 503)
    with sim.reset(sim.load(tmp_path, cache=False)) as rollouts:
        while not rollouts.done and rollouts.step < 503:
            rollouts.advance([0.0])
        assert rollouts.step == 500
        assert np.isfinite(rollouts.costs()).all()
