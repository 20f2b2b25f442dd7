"""Networks, training data and planning."""

import itertools
import re
import sys
import types

import lockstep
import numpy as np
import pytest
from lockstep._frames import COLUMNS
from test_envs import rewarded


def layers(seed=1, hidden=32, scale=0.3):
    rng = np.random.default_rng(seed)
    sizes = [256, hidden, 2]
    pairs = list(itertools.pairwise(sizes))
    return [scale * rng.standard_normal((o, i)) for i, o in pairs], [
        scale * rng.standard_normal(o) for _, o in pairs
    ]


@pytest.fixture(scope="module")
def network():
    return lockstep.Network(*layers())


@pytest.mark.parametrize("scale", [0.25, 4])  # with 4 a command's change comes to its bound
def test_the_exported_controller_is_equal(sim, short_routes, scale, tmp_path):
    pytest.importorskip("onnxruntime")
    network = lockstep.Network(*layers(scale=1), scale=scale)
    network.export(tmp_path / "actor.py")
    result = sim.rollout(short_routes[:2], [network, tmp_path / "actor.py"], trajectory=True)
    assert result.errors == {}
    assert result.action[0].tobytes() == result.action[1].tobytes()
    assert (np.abs(np.diff(result.action[0, :, 100:], axis=-1)) == 0.5).any() == (scale == 4)


def test_networks_of_torch_without_it(network, monkeypatch):
    """A Sequential is its parameters and activations, and parameters are what they are now."""
    nn = types.SimpleNamespace(Module=type("Module", (), {"_forward_hooks": {}}))
    nn.Module._forward_pre_hooks = {}
    nn.Sequential = type("Sequential", (nn.Module, list), {})
    for name in ("Linear", "Tanh", "ReLU", "Identity", "GELU"):
        setattr(nn, name, type(name, (nn.Module,), {}))
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(nn=nn))

    class Parameter:  # of which NumPy makes nothing before it is detached, and on the host
        def __init__(self, x, detached=False):
            self.x, self.detached = x, detached

        def __len__(self):
            return len(self.x)

        def detach(self):
            return Parameter(self.x, True)

        def cpu(self):
            assert self.detached
            return self.x

    (w0, w1), (b0, b1) = layers()

    def linear(w, b):
        layer = nn.Linear()
        layer.weight, layer.bias = Parameter(w), None if b is None else Parameter(b)
        return layer

    first, last = linear(w0, b0), linear(w1, b1)
    same = lockstep.Network(list(map(Parameter, (w0, w1))), list(map(Parameter, (b0, b1))))
    assert same.name == network.name
    for between, activation in [(nn.ReLU, "relu"), (nn.Tanh, "tanh")]:
        model = nn.Sequential([nn.Identity(), first, between(), last])
        want = lockstep.Network([w0, w1], [b0, b1], activation=activation)
        assert lockstep.Network(model).name == want.name
    model = nn.Sequential([linear(w0, None), nn.ReLU(), last])
    none = lockstep.Network([w0, w1], [np.zeros(32), b1])
    assert lockstep.Network(model).name == none.name != network.name
    hooked = linear(w1, b1)
    hooked._forward_hooks = {0: print}
    for wrong, kind, message in [
        ([first, nn.GELU(), last], TypeError, "layer 1 of torch.nn.Sequential is GELU: want"),
        ([first, last], ValueError, "layer 1 .* is Linear and follows another without"),
        ([nn.ReLU(), last], ValueError, "layer 0 .* is ReLU and follows no Linear"),
        ([first, nn.ReLU(), nn.Tanh(), last], ValueError, "layer 2 .* is Tanh and follows no"),
        ([first, nn.ReLU()], ValueError, "want a Linear last"),
        ([], ValueError, "want a Linear last"),
        ([first, nn.ReLU(), hooked], ValueError, "layer 2 .* has hooks, which would not run"),
    ]:
        with pytest.raises(kind, match=message):
            lockstep.Network(nn.Sequential(wrong))
    with pytest.raises(TypeError, match=r"Linear: want a torch\.nn\.Sequential"):
        lockstep.Network(first)
    for more in ({"biases": [b0, b1]}, {"activation": "relu"}):
        with pytest.raises(TypeError, match="has biases and activations of its own"):
            lockstep.Network(model, **more)
    with pytest.raises(TypeError, match="biases: want one for each of the weights"):
        lockstep.Network([w0, w1])


def test_a_networks_name_is_of_every_bit(network):
    """And of nothing else, such as types and layouts that the same numbers are given in."""
    (w0, w1), (b0, b1) = ([np.float32(x) for x in parts] for parts in layers())
    columns, lists = np.asfortranarray(w0, np.float64), [w1.tolist(), b1.tolist()]
    assert lockstep.Network([columns, lists[0]], [b0, lists[1]], 0.25, "relu").name == network.name

    def up(x, place):
        x = x.copy()
        x[place] = np.nextafter(x[place], np.float32(9))
        return x

    others = [
        lockstep.Network([up(w0, (31, 255)), w1], [b0, b1]),
        lockstep.Network([w0, up(w1, (1, 31))], [b0, b1]),
        lockstep.Network([w0, w1], [up(b0, 31), b1]),
        lockstep.Network([w0, w1], [b0, up(b1, 1)]),
        lockstep.Network([w0, w1], [b0, b1], np.nextafter(0.25, 1)),
        lockstep.Network([w0, w1], [b0, b1], activation="tanh"),
        lockstep.Network([w0, w1], [b0, b1], sees=[f"observation[{255 - i}]" for i in range(256)]),
    ]
    assert len({one.name for one in (network, *others)}) == 1 + len(others)


def softplus(x):
    x = np.asarray(x, dtype=np.float64)
    return np.log1p(np.exp(-abs(x))) + np.maximum(x, 0)


def test_a_network_and_its_file_are_equal(sim, short_routes, network, tmp_path):
    network.save(tmp_path / "actor.onnx")
    result = sim.rollout(short_routes, [network, tmp_path / "actor.onnx", "zero"])
    assert result.errors == {}
    assert result.costs[0].tobytes() == result.costs[1].tobytes()
    assert (result.costs[0] != result.costs[2]).any()
    assert network.name in result.controllers[0]


def test_mean_actions_are_those_of_the_formula(sim, short_routes, network):
    """Steered from outside by NumPy from the features, the drive is the network's own."""
    (w0, w1), (b0, b1) = layers()
    want = sim.collect(network, short_routes)
    before = np.zeros(len(short_routes))
    with sim.reset(short_routes) as rollouts:
        for k in range(4):
            hidden = np.maximum(rollouts.features() @ np.float32(w0).T + np.float32(b0), 0)
            a, b = 1 + softplus(hidden @ np.float32(w1).T + np.float32(b1)).T
            before = np.clip(before + np.clip((2 * a / (a + b) - 1) * 0.25, -0.5, 0.5), -2, 2)
            assert before == pytest.approx(want.action[:, k], abs=1e-5)
            before = want.action[:, k]
            assert rollouts.advance(before).tobytes() == want.lataccel[:, k].tobytes()


def test_collect(sim, short_routes, network):
    n = len(short_routes)
    data = sim.collect(network, short_routes, samples=3, seed=9)
    assert data.errors == {}
    assert data.raw.shape == data.reward.shape == data.action.shape == (3 * n, 400)
    assert data.softplus.shape == (3 * n, 400, 2)
    assert data.steps.tolist() == [rows - 100 for rows in short_routes.rows] * 3
    assert (data.raw[0, :4] != data.raw[n, :4]).all()  # samples differ
    assert -data.reward.sum(axis=1, dtype=np.float64) == pytest.approx(data.costs[:, 2], rel=1e-5)
    for row, steps in enumerate(data.steps.tolist()):
        route = short_routes[row % n]
        target, before = route.target_lataccel[100 : 100 + steps], route.target_lataccel[99]
        want = list(rewarded(target.tolist(), data.lataccel[row, :steps].tolist(), float(before)))
        assert data.reward[row, :steps].tolist() == np.float32(want).tolist(), row
        for array in (data.raw, data.softplus, data.reward, data.lataccel, data.action):
            assert not array[row, steps:].any()
    again = sim.collect(network, short_routes, samples=3, seed=9)
    assert data.raw.tobytes() == again.raw.tobytes()
    for bit in range(64):  # all are of the key
        other = sim.collect(network, short_routes[:1], samples=1, seed=9 ^ 1 << bit)
        assert other.raw[0, 0] != data.raw[0, 0], bit
    # a minibatch has the bits of the whole, in any order
    places = data.places
    assert (len(places), places.dtype) == (data.steps.sum(), np.int64)
    whole = data.observe()
    some = np.random.default_rng(1).permutation(len(places))[:50]
    assert data.observe(places[some]).tobytes() == whole[some].tobytes()
    with sim.reset(short_routes) as rollouts:
        first = [i * 400 for i in range(n)]
        assert rollouts.features().tobytes() == data.observe(first).tobytes()
    with pytest.raises(ValueError, match="step"):
        data.observe([399])
    with pytest.raises(ValueError, match="rollout"):
        data.observe([-400])
    data.close()
    with pytest.raises(lockstep.ClosedError):
        data.observe()


def test_rollouts_that_fail(sim, network):
    """By their numbers; they have no steps, zeros for numbers, and the others are left alone."""
    good = {name: np.random.default_rng(1).uniform(0.1, 0.3, 106) for name in COLUMNS}
    bad = good | {"v_ego": np.where(np.arange(106) == 103, 1e308, good["v_ego"])}
    routes = sim.load({"a": good, "b": bad})
    before = sim.stats
    data = sim.collect(network, routes[[0, 1, 0]], samples=2)
    grown = {key: sim.stats[key] - before[key] for key in ("rollouts", "steps")}
    assert grown == {"rollouts": 4, "steps": 4 * 86}  # as of whole rollouts that fail
    why = "route b, controller .*, step 103: probabilities contain NaN"
    assert list(data.errors) == [1, 4]
    assert all(re.fullmatch(why, str(error)) for error in data.errors.values())
    assert data.steps.tolist() == [6, 0, 6, 6, 0, 6]
    assert np.isnan(data.costs).all(axis=1).tolist() == [k in data.errors for k in range(6)]
    for name in ("raw", "softplus", "reward", "lataccel", "action"):
        numbers = getattr(data, name).reshape(6, -1).any(axis=1)
        assert numbers.tolist() == [k not in data.errors for k in range(6)], name
    assert data.places.tolist() == [400 * k + step for k in (0, 2, 3, 5) for step in range(6)]
    with pytest.raises(ValueError, match="rollout"):
        data.observe([400])


def test_forks(sim, short_routes):
    pair = short_routes[[1, 3]]
    with sim.reset(pair) as rollouts:
        rollouts.advance([0.1, -0.1])
        snapshot = rollouts.snapshot()
        actions = np.random.default_rng(2).uniform(-1, 1, (6, 5))
        with snapshot.fork([0, 1, 1, 0, 0], "own") as candidates:
            costs, lataccel = candidates.roll(actions, trajectory=True)
            more = candidates.roll(actions[:2])
            assert candidates.step == 101 + 6 + 2
        assert rollouts.step == 101
        # the candidate is the rollout itself, under the same commands
        got = [rollouts.advance(actions[h, :2]) for h in range(6)]
        assert np.array(got)[:, 0].tobytes() == lataccel[:, 0].tobytes()
        assert np.array(got)[:, 1].tobytes() == lataccel[:, 1].tobytes()
        # rolled on in two parts, costs are of each part
        with snapshot.fork([0, 1, 1, 0, 0], "own") as candidates:
            parts = candidates.roll(actions[:3]) + candidates.roll(actions[3:])
            assert parts == pytest.approx(costs, rel=1e-12)
            assert candidates.roll(actions[:2]).tobytes() == more.tobytes()
        seeded = [
            snapshot.fork([0, 0, 0], "seeded", [1, 2, 1]).roll(actions[:, :1].repeat(3, 1))
            for _ in range(2)
        ]
        assert seeded[0].tobytes() == seeded[1].tobytes()
        assert seeded[0][0] == seeded[0][2] != seeded[0][1]
        for one, each in ((1, [1, 1, 1]), ([2], [2, 2, 2])):  # one seed of all
            a, b = (
                snapshot.fork([0, 1, 0], "seeded", seeds).roll(actions[:, :1].repeat(3, 1))
                for seeds in (one, each)
            )
            assert a.tobytes() == b.tobytes()
        expected = snapshot.fork([0, 0], "expected").roll(actions[:, :1].repeat(2, 1))
        assert expected[0] == expected[1] != costs[0]


def test_partial_costs_sum_to_the_cost(sim, short_routes):
    one = short_routes[[2]]
    with sim.reset(one) as rollouts:
        candidates = rollouts.snapshot().fork([0], "own")
        actions = np.random.default_rng(3).uniform(-1, 1, (7, 1))
        total = candidates.roll(actions)[0]
        for row in actions:
            rollouts.advance(row)
        assert total == pytest.approx(rollouts.costs()[0, 2], rel=1e-12)


def test_policies_by_gains_and_tables(sim, routes, tmp_path):
    one = routes[:1]
    gains = [0.2, 0.1, -0.05, 0.1, 0.1, 0.0, 0.0, 0.5, 0.2, 0.01]
    (tmp_path / "mine.json").write_text(f'{{"policy": "pidff", "gains": {gains}}}')
    result = sim.rollout(one, [{"pidff": gains}, tmp_path / "mine.json"])
    assert result.errors == {}
    assert result.costs[0].tobytes() == result.costs[1].tobytes()
    pid = sim.rollout(one, "pid", trajectory=True)
    table = sim.rollout(one, {"table": pid.action[0, :, 100:500]})
    assert table.costs.tobytes() == pid.costs.tobytes()


def test_bad_input(sim, short_routes, network, tmp_path):
    (w, b) = layers()
    for weights, biases, message in [
        (w, b[:1], "1 biases"),
        ([w[0][:, :5], w[1]], b, "layer 0"),
        ([w[0], w[1].T], b, r"layer 1: weights .32, 2. and biases .2,. after 32 numbers$"),
        ([w[0][0], w[1]], b, r"layer 0: weights .256,. and biases .32,. after 256 numbers$"),
        ([w[0][0, 0], w[1]], b, r"layer 0: weights .. and biases .32,. after 0 numbers$"),
        ([w[0] * np.nan, w[1]], b, "NaN"),
        ([], [], "0 weights"),
    ]:
        with pytest.raises(ValueError, match=message):
            lockstep.Network(weights, biases)
    for scale in (0, np.nan, np.inf):
        with pytest.raises(ValueError, match="scale"):
            lockstep.Network(w, b, scale=scale)
    with pytest.raises(TypeError, match="real numbers"):
        lockstep.Network([1j * w[0], w[1]], b)
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    for policy, kind in [
        ("pid", ValueError),
        (tmp_path / "bad.onnx", ValueError),
        ("nowhere.onnx", FileNotFoundError),
    ]:
        with pytest.raises(kind) as caught:
            sim.collect(policy, short_routes)
        assert "\n" not in str(caught.value)
    for given in ({"samples": -1}, {"samples": 1, "seed": -1}, {"samples": 1, "seed": 2**64}):
        said = f"samples={given['samples']}, seed={given.get('seed', 0)}: want 0 or more, and 0 to"
        with pytest.raises(ValueError, match=rf"^{said} 2\*\*64-1$"):
            sim.collect(network, short_routes, **given)
    with pytest.raises(ValueError, match="policy: 2 of them, want one"):
        sim.collect([network, network], short_routes)
    none = sim.collect(network, short_routes[:0])
    assert (len(none), none.reward.shape, none.errors) == (0, (0, 400), {})
    data = sim.collect(network, short_routes)
    for places, kind in [
        *(([x], TypeError) for x in (0.5, True, None, "0", 1j)),
        *((x, ValueError) for x in ([[0]], [-1], 0)),
    ]:
        with pytest.raises(kind, match="place"):
            data.observe(places)
    with sim.reset(short_routes) as rollouts:
        snapshot = rollouts.snapshot()
        for noise in (3, None):
            with pytest.raises(TypeError, match="noise"):
                snapshot.fork([0], noise)
        with pytest.raises(ValueError, match=r"seeds: shape \(3,\), want \(2,\)"):
            snapshot.fork([0, 1], "seeded", [1, 2, 3])
        with pytest.raises(TypeError, match="of: int"):
            lockstep.Snapshot.from_bytes(snapshot.to_bytes(), of=3)
        with pytest.raises(TypeError, match="complex128"):
            snapshot.fork([0], "own").roll([[1j]])
        for arguments, message in [
            (([7], "own"), "rollout 7"),
            (([0], "white"), "noise"),
            (([0], "seeded"), "seeds"),
            (([0], "own", [1]), "seeds"),
            (([0.5], "own"), "index"),
            (([0], "seeded", [-1]), "seeds"),
        ]:
            with pytest.raises(ValueError, match=message):
                snapshot.fork(*arguments)
        with pytest.raises(ValueError, match=r"\(3,\)"):
            snapshot.fork([0], "own").roll(np.zeros(3))
        with pytest.raises(ValueError, match="of="):
            lockstep.Snapshot.from_bytes(snapshot.to_bytes()).fork([0], "own")
