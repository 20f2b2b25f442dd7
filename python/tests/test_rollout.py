"""Whole rollouts: the recordings of Python's program, forms of controllers, bad input."""

import contextlib
import csv
import dataclasses
import hashlib
import itertools
import json
import math
import os
import re
import struct
import warnings

import lockstep
import numpy as np
import pytest
from conftest import REPOSITORY, write_route
from lockstep import __main__ as command
from lockstep import _frames, _memory, _progress, classic
from lockstep.controllers import distinct
from lockstep.simulator import count_workers

GOLDENS = REPOSITORY / "golden" / "testdata"
NETWORK = lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
DEFAULTS = GOLDENS / "default" / "ort1.30-avx2-expU-sinfma-csv2"


def check_golden(simulator, routes, file, controller):
    with np.load(file) as golden:
        result = simulator.rollout(routes, controller, trajectory=True)
        assert result.errors == {}
        costs, lataccel, action = (
            golden[f"{routes.names[0]}/{key}"] for key in ("costs", "lataccel", "action")
        )
        # bits, not values: -0.0 is not 0.0
        assert result.costs[0, 0].tobytes() == costs.tobytes()
        n = result.lataccel.shape[2]
        assert result.lataccel[0, 0, n - len(lataccel) :].tobytes() == lataccel.tobytes()
        assert result.action[0, 0, n - len(action) :].tobytes() == action.tobytes()


@pytest.mark.parametrize("name", ["g00002", "g00010"])
@pytest.mark.parametrize("controller", ["pid", "zero"])
def test_goldens_of_the_own_network(name, controller):
    with lockstep.Simulator(engine="reference", model="own", profile=DEFAULTS.name) as simulator:
        routes = simulator.load("own")
        check_golden(
            simulator,
            routes[[routes.names.index(name)]],
            DEFAULTS / f"{name}.{controller}.npz",
            controller,
        )


@pytest.mark.parametrize(
    "file", sorted(GOLDENS.glob("ort1.30-*/0*.npz"))[::6], ids=lambda f: f"{f.parent.name}/{f.stem}"
)
def test_goldens(official, file):
    name, controller = file.stem.split(".", 1)
    kind, *gains = controller.split("_")
    with lockstep.Simulator(
        engine="reference", profile=file.parent.name, model=official / "tinyphysics.onnx"
    ) as simulator:
        check_golden(
            simulator,
            simulator.load(official / "routes" / f"{name}.csv"),
            file,
            {kind: [float(x) for x in gains]} if gains else controller,
        )


def test_published_costs(official):
    """What others computed in 2024, all digits."""
    with (official / "published_costs.csv").open() as f:
        published = [row for row in csv.DictReader(f) if row["route"] in ("00000", "04959")]
    assert len(published) >= 2
    with lockstep.Simulator(
        engine="reference", profile="ort1.30-avx512-expU-sinfma-csv2"
    ) as simulator:
        for row in published:
            gains = [
                float(word.split("=")[1])
                for word in row["controller"].removesuffix(")").split("(")[1].split()
            ]
            result = simulator.rollout(
                simulator.load(official / "routes" / f"{row['route']}.csv"), gains
            )
            assert result.costs[0, 0].tolist() == [
                float(row[k]) for k in ("lataccel_cost", "jerk_cost", "total_cost")
            ]


def test_shapes_and_names(sim, short_routes, tmp_path):
    result = sim.rollout(short_routes[[3, 3, 1]], [[0.2, 0.1, -0.05], [0.1, 0, 0]], trajectory=True)
    assert result.costs.shape == (2, 3, 3)
    assert result.routes == ["00003", "00003", "00001"]
    assert result.lataccel.shape == result.action.shape == (2, 3, 131)
    assert np.isnan(result.lataccel).sum(axis=2).tolist() == [[12, 12, 0]] * 2
    assert result.costs[:, 0].tobytes() == result.costs[:, 1].tobytes()
    assert (
        result.sha256
        == sim.rollout(short_routes[[3, 3, 1]], np.array([[0.2, 0.1, -0.05], [0.1, 0, 0]])).sha256
    )
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    result.to_parquet(tmp_path / "costs.parquet")
    table = pq.read_table(tmp_path / "costs.parquet").to_pydict()
    assert table["total_cost"] == result.costs[:, :, 2].ravel().tolist()
    assert os.listdir(tmp_path) == ["costs.parquet"]


def test_a_table_has_a_row_for_each_route(sim, short_routes):
    """Also where one route is there several times, with other actions."""
    picked = [3, 3, 1, 3, 3]
    table = np.random.default_rng(4).uniform(-2, 2, (5, 400))
    got = sim.rollout(short_routes[picked], {"table": table}, trajectory=True)
    for i, route in enumerate(picked):
        want = sim.rollout(short_routes[[route]], {"table": table[[i]]}, trajectory=True)
        rows = short_routes.rows[route]
        assert got.costs[0, i].tobytes() == want.costs[0, 0].tobytes()
        assert got.action[0, i, :rows].tobytes() == want.action[0, 0].tobytes()
    names = sim.rollout(short_routes[picked], {"table": table[[1, 0, 2, 3, 4]]}).controllers
    assert names != got.controllers


def test_means_are_those_of_columns():
    """The challenge's program has a column for each cost, and leaves out what is no number."""
    costs = np.random.default_rng(3).uniform(1, 300, (2, 1003, 3))
    costs[1, ::7, 1:] = np.nan
    mean = lockstep.Result(["a", "b"], [str(i) for i in range(1003)], costs).mean
    for k in range(2):
        for i in range(3):
            numbers = np.array([x if x == x else 0.0 for x in costs[k, :, i].tolist()])
            assert mean[k, i] == numbers.sum() / np.count_nonzero(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of none there is none
        assert np.isnan(lockstep.Result(["a"], ["x"], np.full((1, 1, 3), np.nan)).mean).all()


def test_the_hash_is_of_every_bit():
    """Of all costs as float64, in their order, whatever lies how in memory."""
    costs = np.random.default_rng(3).uniform(1, 300, (2, 4, 3))

    def sha256(of):
        return lockstep.Result(["a", "b"], list("wxyz"), of).sha256

    bits = struct.pack("<24d", *costs.ravel().tolist())
    for same in (costs, np.asfortranarray(costs), costs.astype(">f8")):
        assert sha256(same) == hashlib.sha256(bits).hexdigest()
    seen = {sha256(costs)}
    for place in np.ndindex(costs.shape):
        changed = costs.copy()
        changed[place] = np.nextafter(changed[place], 0)
        seen.add(sha256(changed))
    assert len(seen) == 1 + costs.size


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for module in (lockstep, classic)
        for name in module.__all__
        if dataclasses.is_dataclass(kind := getattr(module, name))
    ],
    ids=lambda kind: kind.__name__,
)
def test_equality_is_of_every_bit(kind):
    """Of what holds arrays: of each field, wherever its arrays stand."""
    names = [field.name for field in dataclasses.fields(kind)]
    for make in (
        lambda *numbers: np.array(numbers),
        lambda *numbers: [np.zeros(1), np.array(numbers)],
        lambda *numbers: {(0, 1): np.array(numbers)},
        lambda *numbers: {(0, 1): ValueError("costs", np.array(numbers))},
    ):

        def made(changed=None, *numbers, make=make):
            return kind(**{n: make(*(numbers if n == changed else (0.0, math.nan))) for n in names})

        assert made() == made()
        for name in names:
            for numbers in ((-0.0, math.nan), (0.0, -math.nan), (0.0,), (0, 1)):
                assert made() != made(name, *numbers), (name, numbers)
    bits = np.array([0.0, math.nan])
    plain = dict.fromkeys(names, bits)
    for name, same in itertools.product(
        names, [bits.view(np.int64), bits.view("m8[s]"), bits.reshape(1, 2), bits.tolist()]
    ):  # the same bytes, or numbers
        assert kind(**plain) != kind(**plain | {name: same}), (name, same)
    assert made() != made(names[0]).__dict__
    another = type(kind.__name__, (kind,), {})(**vars(made()))
    assert made() != another
    assert another != made()
    with pytest.raises(TypeError, match="unhashable"):
        hash(made())


def test_results_and_routes_are_equal(sim, short_routes, tmp_path):
    for i, route in enumerate(short_routes):
        assert (short_routes.index(route), short_routes.count(route)) == (i, 1)
    assert short_routes[0] in short_routes
    assert short_routes[0] not in short_routes[1:]
    broken = tmp_path / "broken.py"
    broken.write_text("class Controller:\n    def update(self, *a, **k):\n        return 1 / 0\n")
    for controller in ("pid", broken):
        result = sim.rollout(short_routes, controller)
        assert result == sim.rollout(short_routes, controller)
        assert result != sim.rollout(short_routes[1:], controller)


def test_a_function_sees_what_a_controller_of_the_challenge_sees(sim, routes, tmp_path):
    """At every step to the route's end: target, lataccel, state, and of the plan as many rows."""
    (tmp_path / "mine.py").write_text(
        "class Controller:\n"
        "    def update(self, target_lataccel, current_lataccel, state, future_plan):\n"
        "        steer = float(target_lataccel) - float(current_lataccel)\n"
        "        for x in (*state, *(x for c in future_plan for x in (len(c), *c))):\n"
        "            steer = steer * 0.75 + float(x)\n"
        "        return steer / 100\n"
    )

    def function(step):
        steers = []
        for i, plan in enumerate(step.plan):
            steer = float(step.target[i]) - float(step.current[i])
            state = (step.roll_lataccel[i], step.v_ego[i], step.a_ego[i])
            columns = (plan[3], *plan[:3])
            for x in (*state, *(x for c in columns for x in (len(c), *c))):
                steer = steer * 0.75 + float(x)
            steers.append(steer / 100)
        return steers

    picked = routes[:1]
    want = sim.rollout(picked, tmp_path / "mine.py", trajectory=True)
    got = sim.rollout(picked, function, trajectory=True)
    assert routes.rows[0] > 500
    for name in ("lataccel", "action", "costs"):
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes(), name


def test_routes_are_views(routes):
    route = routes[4]
    assert len(route) == routes.rows[4] == len(route.v_ego)
    assert route.target_lataccel.base is routes[4].target_lataccel.base
    assert np.isnan(route.steer_command[100:]).any() or np.isfinite(route.steer_command).all()
    with pytest.raises(ValueError, match="read-only"):
        route.v_ego[0] = 1
    assert routes[2:5].names == routes.names[2:5]
    assert routes[2:5][1].name == routes.names[3]


def test_controller_of_the_challenge(sim, short_routes, tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Controller:\n"
        "    total = before = 0\n"
        "    def update(self, target_lataccel, current_lataccel, state, future_plan):\n"
        "        e = target_lataccel - current_lataccel\n"
        "        self.total += e\n"
        "        d, self.before = e - self.before, e\n"
        "        return 0.195 * e + 0.100 * self.total + -0.053 * d\n"
    )
    result = sim.rollout(short_routes, ["pid", tmp_path / "mine.py"])
    assert result.errors == {}
    assert result.costs[0].tobytes() == result.costs[1].tobytes()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("return float('nan')", "step 100"),
        ("return 'left'", "not a number"),
        ("raise SystemExit", "SystemExit"),
    ],
)
def test_controllers_that_fail_leave_others_alone(sim, short_routes, tmp_path, body, message):
    (tmp_path / "bad.py").write_text(
        "class Controller:\n"
        "    step = 19\n"
        "    def update(self, target, current, state, future_plan):\n"
        "        self.step += 1\n"
        "        if self.step == 100 and abs(target - "
        f"{float(short_routes[1].target_lataccel[100])!r}) < 1e-12:\n"
        f"            {body}\n"
        "        return 0.0\n"
    )
    result = sim.rollout(short_routes[:3], [tmp_path / "bad.py", "zero"])
    assert list(result.errors) == [(0, 1)]
    assert message in str(result.errors[0, 1])
    assert "\n" not in str(result.errors[0, 1])
    assert np.isnan(result.costs[0, 1]).all()
    assert result.costs[0, [0, 2]].tobytes() == result.costs[1, [0, 2]].tobytes()


def test_progress(sim, short_routes, monkeypatch):
    """It is told where there is something new, and at the end."""
    monkeypatch.setattr(lockstep._native, "POLL_MS", 1)  # many times a rollout
    seen = []
    sim.rollout(short_routes, "pid", progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (5, 5)
    before = [done for done, _ in seen[:-1]]
    assert before == sorted(set(before))
    assert len(before) > 1


class Bar:
    """As tqdm's."""

    total, n, closed = None, 0, False

    def update(self, more):
        assert not Bar.closed
        self.n += more

    def close(self):
        Bar.closed = True


def test_bars_of_progress(sim, short_routes, monkeypatch):
    tell = _progress.told(Bar)
    for done in (1, 3):
        tell(done, 4)
        assert not Bar.closed
    tell(4, 4)
    assert Bar.closed
    monkeypatch.setattr(Bar, "closed", False)
    bar = Bar()
    tell = _progress.told(bar)
    for done in (0, 0, 2, 2, 3, 1, 4, 4):  # it may stand, and a download begins anew
        tell(done, 4)
        assert (bar.n, bar.total) == (done, 4)
    bar = Bar()
    sim.rollout(short_routes, "pid", progress=bar)
    assert (bar.n, bar.total, Bar.closed) == (5, 5, False)
    sim.rollout(short_routes, lambda step: np.zeros(5), progress=Bar)
    assert Bar.closed
    with pytest.raises(TypeError, match="progress: int"):
        sim.rollout(short_routes, "pid", progress=3)


def test_what_things_say_they_are(short_routes):
    """What a notebook shows: how many, the first three by name, and whether it is closed."""
    names = ["00000", "00001", "00002"]
    for many, more in [(1, ""), (3, ""), (4, ", …")]:
        few, shown = short_routes[:many], ", ".join(names[:many])
        assert repr(few) == f"<{many} routes: {shown}{more}>"
        costs = np.arange(many * 3.0).reshape(many, 1, 3)
        result = lockstep.Result([str(i) for i in range(many)], ["x"], costs, {})
        means = ", ".join(f"{i} {3 * i + 2}" for i in range(min(many, 3)))
        assert repr(result) == f"<1 routes, mean total cost: {means}{more}>"
    with lockstep.Simulator(engine="reference", model="own") as simulator:
        what = f"<lockstep.Simulator reference, {simulator.profile}"
        assert repr(simulator) == f"{what}>"
        with simulator.reset(short_routes) as rollouts:
            rollouts.advance(np.zeros(5))
            assert repr(rollouts) == "<5 rollouts at step 101>"
            assert repr(rollouts.snapshot()) == "<snapshot of 5 rollouts at step 101>"
    assert (repr(simulator), repr(rollouts)) == (
        f"{what}, closed>",
        "<5 rollouts at step 101, closed>",
    )
    assert repr(NETWORK) == f"<lockstep.Network {NETWORK.name}>"
    envs = classic.VectorEnv("CartPole-v1", 2)
    envs.reset(seed=1)
    envs.run(3)
    assert repr(envs.snapshot()) == "<snapshot of 2 environments after 3 steps>"


def test_tables(short_routes, tmp_path):
    costs = np.arange(12.0).reshape(2, 2, 3) / 7
    costs[1, 0] = np.nan
    result = lockstep.Result(["a", "b"], ["x", "y"], costs, {(1, 0): ValueError("it failed, here")})
    assert repr(result) == "<2 routes, mean total cost: a 0.5, b 1.57143; 1 failed>"
    result.to_csv(tmp_path / "costs.csv")
    with (tmp_path / "costs.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    assert [r["controller"] + r["route"] for r in rows] == ["ax", "ay", "bx", "by"]
    assert [float(r["total_cost"] or "nan").hex() for r in rows] == [
        x.hex() for x in costs[:, :, 2].ravel().tolist()
    ]
    assert [r["error"] for r in rows] == ["", "", "it failed, here", ""]
    assert [rows[2][name] for name in rows[2] if name.endswith("cost")] == [""] * 3
    more = lockstep.Result(["a"], ["x", "of no rollout"], np.zeros((1, 1, 3)))
    with pytest.raises(ValueError, match="zip"):
        more.to_csv(tmp_path / "more.csv")
    assert os.listdir(tmp_path) == ["costs.csv"]
    pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame) == [
        "controller",
        "route",
        "lataccel_cost",
        "jerk_cost",
        "total_cost",
        "error",
    ]
    assert frame["jerk_cost"].to_numpy().tobytes() == costs[:, :, 1].tobytes()
    pytest.importorskip("matplotlib")
    axes = result.plot().axes[0]
    named = axes.get_xlabel(), axes.get_ylabel(), axes.get_yscale()
    assert named == ("% of the routes", "total cost, at most", "log")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    lines = axes.lines
    drawn = [(line.get_label(), line.get_xdata(), line.get_ydata()) for line in lines]
    assert [(label, x.tolist(), y.tolist()) for label, x, y in drawn] == [
        ("a", [50, 100], costs[0, :, 2].tolist()),
        ("b", [100], [costs[1, 1, 2]]),
    ]


def test_tables_have_each_number(tmp_path):
    """Those that are 0, infinite, the least there is, or NaN, to the bit; and each name."""
    numbers = [0.0, -0.0, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1.0]
    numbers += [math.nan, -1.0]
    names = ["0", "1,", '"2" ', "3\n4\r5", "å€😀"]
    result = lockstep.Result(["", "0"], names, np.tile(numbers, 3).reshape(2, 5, 3))
    result.to_csv(tmp_path / "costs.csv")
    with (tmp_path / "costs.csv").open(newline="", encoding="utf-8") as f:
        rows = list(csv.reader(f))[1:]
    got = np.array([[float(x) for x in row[2:5]] for row in rows])
    assert got.tobytes() == result.costs.tobytes()
    assert [row[:2] for row in rows] == [[c, r] for c in ("", "0") for r in names]
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    result.to_parquet(tmp_path / "costs.parquet")
    for frame in (result.to_pandas(), pandas.read_parquet(tmp_path / "costs.parquet")):
        got = frame.iloc[:, 2:5].to_numpy(np.float64)
        assert np.ascontiguousarray(got).tobytes() == result.costs.tobytes()
        assert frame["route"].tolist() == names * 2


def test_names_are_distinct():
    """Whichever are equal, and wherever they stand, the second of a name has a 2."""
    for names, want in [
        ("a b a", ["a", "b", "a (2)"]),
        ("a a b b a", ["a", "a (2)", "b", "b (2)", "a (3)"]),
        ("c a b", ["c", "a", "b"]),
        ("a a a_(2)", ["a", "a (3)", "a (2)"]),  # as a file may be called
        ("a_(2) a a a a_(3)", ["a (2)", "a", "a (4)", "a (5)", "a (3)"]),
    ]:
        given = [name.replace("_", " ") for name in names.split()]
        assert distinct(given, [{}] * len(given)) == want


def test_no_routes(sim, short_routes):
    """None chosen is none, however it is said; what needs one says so."""
    network = lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
    experience = sim.collect(network, short_routes[:1])
    for nothing in ([], (), np.zeros(0, int), np.zeros(len(short_routes), bool), slice(0)):
        none = short_routes[nothing]
        assert (len(none), list(none), none.names, none.rows.shape) == (0, [], [], (0,))
        assert sim.rollout(none, ["pid", "zero"], trajectory=True).costs.shape == (2, 0, 3)
        assert sim.collect(network, none).raw.shape == (0, 400)
    for key in (1.5, "0", None, np.float64(1), np.array(1.5)):
        with pytest.raises(TypeError):
            short_routes[key]
    assert short_routes[np.array(3)].name == "00003"
    for key in ([[0, 1], [2, 3]], np.zeros((2, 1), int), ([], []), [0.5], [5], [True]):
        with pytest.raises(IndexError):
            short_routes[key]
    for nothing in ([], np.zeros(0, int)):
        assert experience.observe(nothing).shape == (0, 256)
    for call in (
        sim.reset,
        lockstep.tune,
        lockstep.plan,
        lambda routes: lockstep.VectorEnv(2, routes=routes),
        lambda routes: sim.rollout(routes, lambda step: step.target),
    ):
        with pytest.raises(ValueError, match="routes: there is none"):
            call(short_routes[:0])
    for call in (sim.reset, sim.rollout, lockstep.tune, lockstep.plan):
        with pytest.raises(TypeError, match=r"routes: str, want what Simulator\.load returns"):
            call("own")


def test_columns_are_there_once(sim):
    """Those of a route are one piece of memory, read-only, by whichever choice it is asked for."""
    routes = sim.load("own", limit=3)
    part = routes[[2, 0]]
    later = part[0].v_ego, routes[2].v_ego, routes[1:][1].v_ego, part[:1][0].v_ego
    for column in later:
        assert np.shares_memory(column, later[0])
        assert not column.flags.writeable
    assert not np.shares_memory(routes[1].v_ego, later[0])


@contextlib.contextmanager
def full_disk(size):
    """No file grows beyond a size."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="for want of /dev/fd")
@pytest.mark.parametrize("way", ["to_csv", "to_parquet", "save", "Network.save", "export"])
def test_where_files_are_written(way, tmp_path):
    """A link leads to what is replaced, which keeps its mode, and a pipe is written to as it is."""
    if way == "to_parquet":
        pytest.importorskip("pyarrow")
    written = lockstep.Result(["a"], ["x"], np.zeros((1, 1, 3)))
    if way == "save":
        written = classic.Network([np.zeros((1, 1))], [np.zeros(1)], classic.Network.gumbel())
    if way in ("Network.save", "export"):
        written, way = NETWORK, way.removeprefix("Network.")
    there, link = tmp_path / "there.npz", tmp_path / "link.npz"
    there.write_text("before")
    there.chmod(0o604)
    beside = tmp_path / "there.npz.part"  # somebody else's
    beside.write_text("beside")
    link.symlink_to(there.name)
    getattr(written, way)(link)
    assert link.is_symlink()
    assert (there.stat().st_mode & 0o777, there.read_bytes() == b"before") == (0o604, False)
    assert beside.read_text() == "beside"
    if way != "to_csv":  # a pipe holds no more than that
        return
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    getattr(written, way)(pipe)
    assert len(os.read(end, 1 << 20)) > 50
    assert pipe.is_fifo()
    os.close(end)


@pytest.mark.parametrize("way", ["to_csv", "to_parquet", "save", "Network.save", "export"])
def test_files_are_whole_or_not_there(way, tmp_path):
    """What cannot be written to its end leaves what was there, and nothing beside it."""
    if way == "to_parquet":
        pytest.importorskip("pyarrow")
    no_text = "\ud800"  # which no encoding has
    large = np.random.default_rng(1).normal(size=(2000, 1, 3))
    all_of_it = [
        lockstep.Result(["a", no_text], ["x"], np.zeros((2, 1, 3))),
        lockstep.Result([str(i) for i in range(2000)], ["x"], large),
    ]
    if way == "save":
        noise = classic.Network.gumbel()
        all_of_it = [classic.Network([np.zeros((1, 1))], [np.zeros(1)], noise)]
    if way in ("Network.save", "export"):
        shapes, way = [(64, 256), (2, 64)], way.removeprefix("Network.")
        all_of_it = [lockstep.Network(*([np.zeros(of[:k]) for of in shapes] for k in (2, 1)))]
    for written in all_of_it:
        for file in (tmp_path / "there.npz", tmp_path / "new.npz"):
            if file.name == "there.npz":
                file.write_text("before")
            with full_disk(1 << 14), pytest.raises((UnicodeEncodeError, OSError, RuntimeError)):
                getattr(written, way)(file)
        assert [(f.name, f.read_text()) for f in tmp_path.iterdir()] == [("there.npz", "before")]


def test_a_cache_that_cannot_be_written_is_warned_of(sim, short_routes, tmp_path, monkeypatch):
    (tmp_path / "lockstep").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with lockstep.Simulator(engine="reference", model=sim.model) as own:  # it reads what is set
        with pytest.warns(UserWarning, match="route cache: .*lockstep") as seen:
            routes = own.load(short_routes.files)
        assert len(seen) == 1
        assert seen[0].filename == __file__
        assert routes.names == short_routes.names
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own.load(short_routes.files, cache=False)


def test_controllers_of_the_challenge_s_folder_are_named(sim, short_routes, tmp_path, monkeypatch):
    """As its program and the command line name them; pid is the engine's own."""
    (tmp_path / "controllers").mkdir()
    names = ["mine", "pid_mine", "pid_1_2", "my-own", "pid", "pid_1_2_3"]
    for name in names:
        (tmp_path / "controllers" / f"{name}.py").write_text(
            "class Controller:\n    def update(self, *seen, **named):\n        return 0.25\n"
        )
    monkeypatch.chdir(tmp_path)
    result = sim.rollout(short_routes[:1], ["mine", "controllers/mine.py", "pid"])
    assert np.array_equal(result.costs[0], result.costs[1])
    assert not np.array_equal(result.costs[0], result.costs[2])
    path = str(tmp_path / "controllers" / "mine.py")  # of the two
    assert result.controllers == [path, f"{path} (2)", "pid"]
    result = sim.rollout(short_routes[:1], names)
    assert result.controllers == names
    ours, others = result.costs[:4], result.costs[4:]
    assert (ours == ours[0]).all()
    assert (others[:, :, 2] != ours[0, :, 2]).all()
    with pytest.raises(ValueError, match='"other" is not known'):
        sim.rollout(short_routes[:1], "other")


def test_controllers_of_the_same_name_are_told_apart(sim, short_routes, tmp_path):
    mine = tmp_path / "pid.py"
    mine.write_text("class Controller:\n    def update(self, *_):\n        return 0.0\n")
    assert sim.rollout(short_routes[:1], ["pid", mine, "zero"]).controllers == [
        "pid",
        str(mine),
        "zero",
    ]
    three = ["zero", "zero (2)", "zero (3)"]
    assert sim.rollout(short_routes[:1], ["zero"] * 3).controllers == three


def test_numbers_of_numpy(sim, tmp_path):
    three = np.int64(3)
    routes = lockstep.Simulator(
        engine="reference", model="own", workers=np.int16(1), stream=np.uint8(0)
    ).load("own", limit=three)
    assert len(routes) == 3
    assert len(sim.load("own", limit=three).rows) == 3
    lockstep.generate(tmp_path, np.int32(1), seed=np.uint64(3))
    with sim.reset(routes=sim.load("own", limit=three), step=np.int64(100)) as rollouts:
        rollouts.snapshot().fork(np.arange(3), "seeded", seeds=np.uint32(7)).close()
    assert (
        sim.collect(NETWORK, sim.load("own", limit=1), samples=np.int8(1), seed=three).raw.shape[0]
        == 1
    )
    for make in (
        lambda: lockstep.VectorEnv(np.int8(2), sim.load("own", limit=three)),
        lambda: classic.VectorEnv("CartPole-v1", np.int8(2)),
    ):
        want = make().reset(seed=5)[0].tobytes()
        for same in (np.int64(5), np.uint8(5), np.array([5, 6]), [np.int16(5), 6]):
            assert make().reset(seed=same)[0].tobytes() == want
    envs = classic.VectorEnv("CartPole-v1", np.int8(100))  # of which 8 bits hold no multiple
    envs.reset(seed=5)
    assert envs.fork(np.array([1, 0, 1], np.uint8)).states.tolist() == [
        envs.states[i].tolist() for i in (1, 0, 1)
    ]


def test_seeds_of_generated_routes(tmp_path):
    """Each of 64 bits is heeded."""
    seeds = [0, *(1 << bit for bit in range(64)), 2**64 - 1]
    for seed in seeds:
        lockstep.generate(tmp_path / str(seed), 1, seed)
    assert len({next((tmp_path / str(s)).iterdir()).read_bytes() for s in seeds}) == len(seeds)
    lockstep.generate(tmp_path / "default", 1)
    command.main(["generate", "--num_routes", "1", "--out", str(tmp_path / "command")])
    default, one, command_s = (
        next((tmp_path / name).iterdir()) for name in ("default", "1", "command")
    )
    assert default.read_bytes() == one.read_bytes() == command_s.read_bytes()


def test_progress_that_raises_ends_the_run(sim, routes):
    def stop(done, total):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        sim.rollout(routes, np.tile([0.2, 0.1, 0], (50, 1)), progress=stop)


@pytest.mark.parametrize(
    ("controllers", "kind", "message"),
    [
        ("pidd", ValueError, "pidd"),
        (
            [1.0, 2.0],
            ValueError,
            r'\(2,\) .* write {"pid": array} or {"pidff": array} or {"table": array}$',
        ),
        (np.zeros(10), ValueError, r'shape \(10,\) .* write {"pidff": array}$'),
        (np.zeros((5, 10)), ValueError, r'shape \(5, 10\) .* write {"pidff": array}$'),
        (np.zeros((5, 400)), ValueError, r'shape \(5, 400\) .* write {"table": array}$'),
        (["pid", np.zeros(10)], ValueError, r'write {"pidff": array}$'),
        (0.5, ValueError, r"shape \(\) does not say"),
        (np.zeros((2, 3, 3)), ValueError, r"shape \(2, 3, 3\), want \(K, 3\)"),
        ({"table": np.zeros((2, 400))}, ValueError, "actions for 2 routes, want 5"),
        ({"table": np.zeros((5, 40))}, ValueError, r"\(5, 40\), want \(K, 400\)"),
        (np.zeros((2, 3, 4)), ValueError, r"\(2, 3, 4\)"),
        ([[0.1, math.nan, 0]], ValueError, r"^controllers\[0, 1\]: nan, want a finite number"),
        (
            [[0, 1, 2], [3, 4, 5], [6, 7, -math.inf]],
            ValueError,
            r"^controllers\[2, 2\]: -inf, want",
        ),
        (
            {"pidff": [[0] * 10, [0] * 9 + [math.nan]]},
            ValueError,
            r"^controllers\[1, 9\]: nan, want",
        ),
        (np.array(["a", "b"]), TypeError, "an array of the gains P, I, D"),
        (None, TypeError, "NoneType"),
        ("nowhere.py", FileNotFoundError, "nowhere"),
        (np.zeros((0, 3)), ValueError, r"\(0, 3\)"),
        ({"pidd": [0.1, 0.2, 0.3]}, ValueError, "kind 'pidd', want one of pid, pidff, table"),
        ({"pid": [0.1, 0.2]}, ValueError, r"shape \(2,\), want \(K, 3\)"),
    ],
)
def test_bad_controllers(sim, short_routes, controllers, kind, message):
    with pytest.raises(kind, match=message) as caught:
        sim.rollout(short_routes, controllers)
    assert "\n" not in str(caught.value)


def test_gains_of_any_layout(sim, short_routes):
    gains = np.array([[0.2, 0.1, -0.05], [0.3, 0.05, 0.0]])
    want = sim.rollout(short_routes, gains).sha256
    assert sim.rollout(short_routes, {"pid": gains}).sha256 == want
    assert sim.rollout(short_routes, [{"pid": row} for row in gains]).sha256 == want
    wide = np.zeros((2, 6))
    wide[:, ::2] = gains
    frozen = gains.copy()
    frozen.flags.writeable = False
    for layout in (wide[:, ::2], np.asfortranarray(gains), frozen, gains.tolist()):
        assert sim.rollout(short_routes, layout).sha256 == want


def test_workers(monkeypatch):
    """As asked for; else as OMP_NUM_THREADS says, whose first number is the outermost level's."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = count_workers(None)
    if hasattr(os, "sched_getaffinity"):
        assert cores == len(os.sched_getaffinity(0))
    for text, want in [("3", 3), ("2,1", 2), (" 4 , 8", 4)] + [(t, cores) for t in ("", "0", "x")]:
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert (count_workers(None), count_workers(5)) == (want, 5), text
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS and Windows
    for has, want in [(6, 6), (None, 1)]:
        monkeypatch.setattr(os, "cpu_count", lambda has=has: has)
        assert count_workers(None) == want


def test_a_function_may_write_into_what_it_is_shown(sim, short_routes):
    """Each step's arrays are its own, as each step's lists are a controller's of the challenge."""

    def looks(step):
        return [0.2 * (t - c) + p[3, :9].sum() / 50 for t, c, p in
                zip(step.target, step.current, step.plan, strict=True)]  # fmt: skip

    def writes(step):
        steer = looks(step)
        for array in (a for a in vars(step).values() if isinstance(a, np.ndarray)):
            array[...] = 1
        for plan in step.plan:
            plan[...] = 7
        return steer

    want, got = (sim.rollout(short_routes, f, trajectory=True) for f in (looks, writes))
    assert (want.controllers, got.controllers) == (["looks"], ["writes"])
    for name in ("costs", "lataccel", "action"):
        assert getattr(got, name).tobytes() == getattr(want, name).tobytes(), name


def test_bad_routes(sim, tmp_path):
    write_route(tmp_path / "00001.csv", 120)
    lines = (tmp_path / "00001.csv").read_text().splitlines()
    lines[7] = lines[7].replace(",", ",x", 1)
    (tmp_path / "00000.csv").write_text("\n".join(lines))
    (tmp_path / "00009.csv").write_text("\n".join([lines[0], "", *lines[1:]]))  # not the first
    with pytest.raises(lockstep.RouteError, match="vEgo") as caught:
        sim.load(tmp_path)
    error = caught.value
    assert (os.path.basename(error.file), error.line) == ("00000.csv", 8)
    assert error.column > 1
    with pytest.raises(lockstep.RouteError, match="vEgo"):  # where one alone is none, too
        sim.load([tmp_path / "00001.csv", tmp_path / "00000.csv"])
    write_route(tmp_path / "short.txt", 50)
    with pytest.raises(lockstep.RouteError, match="50 rows") as caught:
        sim.load(tmp_path / "short.txt")  # of which no place is wrong, but the whole
    assert (caught.value.line, caught.value.column) == (0, 0)
    write_route(tmp_path / "00002.csv", 104)
    left = sim.load(tmp_path, strict=False)
    assert (left.names, left.rows.tolist()) == (["00001", "00002"], [120, 104])
    assert [os.path.basename(file) for file in left.files] == ["00001.csv", "00002.csv"]
    assert [len(route) for route in left] == [120, 104]
    with pytest.raises(FileNotFoundError):
        sim.load(tmp_path / "nowhere")
    for strict in (True, False):  # where none is left there is nothing to go on with
        with pytest.raises(lockstep.RouteError, match="vEgo"):
            sim.load(tmp_path / "00000.csv", strict=strict)
    with pytest.raises(TypeError, match="list"):
        sim.rollout([1, 2])
    with pytest.raises(IndexError):
        left[2]


def test_bad_simulators(tmp_path):
    with pytest.raises(ValueError, match="engine"):
        lockstep.Simulator(engine="nonsense")
    with pytest.raises(ValueError, match="profile"):
        lockstep.Simulator(profile="ort9")
    with lockstep.Simulator(engine="onnxruntime", model="own") as library:
        cpu = "avx2" if "-avx512-" in library.profile else "avx512"
        other = re.sub("-(avx512|avx2|neon)-", f"-{cpu}-", library.profile)
    with pytest.raises(ValueError, match=f"computes with profile .* on this machine, not {other}"):
        lockstep.Simulator(engine="onnxruntime", model="own", profile=other)
    with pytest.raises(ValueError, match="workers"):
        lockstep.Simulator(workers=0)
    with pytest.raises(TypeError):
        lockstep.Simulator(workers=1.5)
    with pytest.raises(FileNotFoundError):
        lockstep.Simulator(model=tmp_path / "nowhere.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a network")
    with pytest.raises((ValueError, RuntimeError)) as caught:
        lockstep.Simulator(model=tmp_path / "bad.onnx")
    assert "bad.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"engine": 3}, TypeError, "engine: int, want a str"),
        ({"profile": None}, TypeError, "profile: NoneType"),
        ({"model": ""}, ValueError, "model: an empty name"),
        (
            {"workers": 2**63},
            ValueError,
            "workers: number 9223372036854775808, want one of type int",
        ),
        ({"stream": 2**64}, ValueError, "stream: number 18446744073709551616"),
    ],
)
def test_bad_arguments_of_simulators(arguments, kind, message):
    with pytest.raises(kind, match=message):
        lockstep.Simulator(**{"engine": "reference", "model": "own"} | arguments)


def test_limits(sim, tmp_path):
    """At most so many of each folder, in the order of their names; files are taken as they are."""
    for folder, name in [("a", "3"), ("a", "1"), ("a", "2"), ("b", "5"), ("b", "4")]:
        (tmp_path / folder).mkdir(exist_ok=True)
        write_route(tmp_path / folder / f"{name}.csv", 104)
    paths = [tmp_path / "b", tmp_path / "a" / "3.csv", tmp_path / "a"]
    for limit, want in [(None, "453123"), (1, "431"), (2, "45312"), (9, "453123")]:
        assert "".join(sim.load(paths, limit, cache=False).names) == want
        folder = tmp_path / f"plan{limit}"
        lockstep.shards.plan(folder, paths, "zero", limit=limit, engine="reference", model="own")
        plan = json.loads((folder / "plan.json").read_text())
        assert "".join(route["name"] for route in plan["routes"]) == want


def test_bad_paths(sim, tmp_path, tmp_path_factory):
    planned, lone = tmp_path_factory.mktemp("plan"), tmp_path_factory.mktemp("data") / "1.csv"
    write_route(lone, 104)
    lockstep.shards.plan(planned, lone, "zero", engine="reference", model="own")
    for paths, kind, message in [
        ("", ValueError, 'paths: an empty name: want files, folders, or "own"'),
        (["own", ""], ValueError, "paths: an empty name"),
        ([], ValueError, "paths: none"),
        (3, TypeError, "int"),
        (b"own", TypeError, "str"),
        ("a\0b", ValueError, "invalid"),
        (tmp_path, ValueError, "no .csv file in this folder"),
    ]:
        with pytest.raises(kind, match=message):
            sim.load(paths)
        with pytest.raises(kind, match=message.replace("paths", "data")):
            lockstep.shards.plan(tmp_path / "plan", paths, model="own")
        if paths != []:  # where it was planned
            told = (kind, lockstep.SimulationError)  # it would compute something else than planned
            with pytest.raises(told, match=message.replace("paths", "data")):
                lockstep.shards.run(planned, 0, data=paths)
    for limit in (0, -1, -7):
        for call in (
            lambda limit=limit: sim.load("own", limit=limit),
            lambda limit=limit: lockstep.shards.plan(tmp_path / "plan", "own", limit=limit),
        ):
            with pytest.raises(ValueError, match=f"limit={limit}: want 1 or more"):
                call()
    assert not (tmp_path / "plan").exists()
    # one path is one, and not as many as it has letters
    lockstep.shards.run(planned, 0, data=str(lone))


def test_what_no_machine_can_hold(sim, short_routes):
    """It is refused before it is begun, with its size."""
    for call in (
        lambda: sim.collect(NETWORK, short_routes, samples=10**9),
        lambda: sim.reset(short_routes[np.zeros(10**8, np.int8)]),
        lambda: sim.rollout(short_routes[np.zeros(10**7, np.int8)], np.zeros((10**5, 3))),
        lambda: sim.reset(short_routes).snapshot().fork(np.zeros(10**8, np.int8), "own"),
    ):
        with pytest.raises(MemoryError, match=r"take [0-9,]+ GB, and this machine has"):
            call()
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    _memory.check("they", here)
    with pytest.raises(MemoryError) as told:
        _memory.check("they", 3 * here)
    assert str(told.value) == (
        f"they take {3 * here / 1e9:,.0f} GB, and this machine has {here / 1e9:,.0f}: "
        "take fewer at a time"
    )


def test_memory_is_counted_before_it_is_taken(sim, short_routes, monkeypatch):
    """By how many rollouts there are, and twice what of each is returned."""
    asked, snapshot = [], sim.reset(short_routes).snapshot()
    monkeypatch.setattr(_memory, "check", lambda what, size: asked.append((what, size)))
    result = sim.rollout(short_routes, ["zero", "pid"], trajectory=True)
    short = sim.rollout(short_routes[:2], "zero")
    found = sim.collect(NETWORK, short_routes[:2], samples=3)
    with pytest.raises(ValueError, match="device=True"):  # of what is left there nothing is here
        sim.collect(NETWORK, short_routes, device=True)
    sim.reset(short_routes)
    snapshot.fork([0, 1, 1], "route")
    lockstep.VectorEnv(7, short_routes)
    whole = result.costs.nbytes + result.lataccel.nbytes + result.action.nbytes
    kept = (found.lataccel, found.action, found.costs, found.raw, found.softplus, found.reward)
    assert asked == [
        ("10 rollouts", 10 * 256 + whole),
        ("2 rollouts", 2 * 256 + short.costs.nbytes),
        ("samples=3: 6 rollouts", 6 * 256 + 2 * sum(x.nbytes for x in kept)),
        ("samples=0: 5 rollouts", 5 * 256),
        ("5 rollouts", 5 * 25_000),
        ("3 candidates", 3 * 25_000),
        ("num_envs=7: their rollouts", 7 * 25_000),
    ]


def test_a_function_that_returns_what_is_none(sim, short_routes):
    for answer, kind, message in [
        (np.zeros(3), ValueError, r"controller returned: shape \(3,\), want \(5,\)"),
        ("left", ValueError, "left"),
        (1j, TypeError, "complex"),
    ]:
        with pytest.raises(kind, match=message):
            sim.rollout(short_routes, lambda step, answer=answer: answer)
    failed = sim.rollout(short_routes, lambda step: np.full(5, math.nan))
    for i, name in enumerate(short_routes.names):
        assert str(failed.errors[0, i]).endswith(f"route {name}, step 20: the command is NaN")
    assert np.isnan(failed.costs).all()


def test_closed(short_routes):
    simulator = lockstep.Simulator(engine="reference", model="own")
    simulator.close()
    simulator.close()
    for use in (lambda: simulator.load("own"), lambda: simulator.rollout(short_routes)):
        with pytest.raises(lockstep.ClosedError, match="closed"):
            use()
    assert "closed" in repr(simulator)


def bits(routes):
    """All that routes are made of, by name, and what seeds them."""
    return {
        route.name: [np.asarray(getattr(route, name)).tobytes() for name in _frames.COLUMNS]
        for route in routes
    }


def test_load_of_what_is_in_memory(sim, tmp_path):
    """DataFrames and Routes are taken as they are; the costs are those of the files."""
    pd = pytest.importorskip("pandas")
    routes = sim.load("own", limit=2)
    want = sim.rollout(routes, "pid")
    frame = pd.DataFrame({name: getattr(routes[0], name) for name in _frames.COLUMNS})
    for given in (
        {"g00000": frame},
        {"g00000.csv": {name: list(frame[name]) for name in frame}},
        [routes[0]],
        routes[0],
    ):
        got = sim.load(given)
        assert bits(got) == bits(routes[:1])
        assert sim.rollout(got, "pid").costs.tobytes() == want.costs[:, :1].tobytes()
    raw = [pd.read_csv(file) for file in routes.files]  # the simulator's arithmetic is its
    same = sim.load(dict(zip(routes.names, raw, strict=True)))
    assert same[1].v_ego.tolist() == raw[1]["vEgo"].tolist()
    assert sim.rollout(same, "pid").sha256 == want.sha256
    for given in ({"g00000": frame, "g00001": raw[1]}, {"g00000": raw[0], "g00001": routes[1]}):
        # as files have them, or not, side by side
        assert sim.rollout(sim.load(given), "pid").sha256 == want.sha256
    other = sim.rollout(sim.load(routes.files, seed_prefix="x", cache=False), "pid").sha256
    given = dict(zip(routes.names, routes, strict=True))
    assert sim.rollout(sim.load(given, seed_prefix="x"), "pid").sha256 == other != want.sha256
    both = {**raw[1], **frame}  # what else there is does not matter
    assert bits(sim.load({"g00000": both})) == bits(routes[:1])
    whole = {
        name: np.round(10 * frame[name].fillna(0)).astype(np.int32) for name in frame
    }  # other numbers
    same = {name: column.astype(np.float64) for name, column in whole.items()}
    assert bits(sim.load({"g00000": whole})) == bits(sim.load({"g00000": same}))
    # bits that no text of fewer than 17 digits has
    frame["v_ego"] = np.nextafter(frame["v_ego"].to_numpy(), 0.0)
    assert sim.load(frame)[0].v_ego.tobytes() == frame["v_ego"].to_numpy().tobytes()
    assert sim.load([frame, frame]).names == ["frame0", "frame1"]
    assert sim.load({"Route B": frame, 7: frame}).names == ["Route B", "7"]
    assert sim.load([frame, frame], limit=1).names == ["frame0"]
    assert sim.rollout(sim.load(frame), "pid").sha256 != want.sha256


def test_bad_frames(sim):
    good = {name: np.full(120, 0.1) for name in _frames.COLUMNS}
    short = {name: column[:50] for name, column in good.items()}
    for wrong, error, message in [
        *(
            ({"a": good | {"v_ego": x}}, ValueError, rf"v_ego: shape {of}, want \(120,\)$")
            for x, of in [(np.full(3, 0.1), r"\(3,\)"), (np.ones((120, 1)), r"\(120, 1\)")]
        ),
        ({"a": good | {"v_ego": np.full(120, np.nan)}}, lockstep.RouteError, "vEgo: NaN in row 0"),
        ({"a": good | {"a_ego": ["x"] * 120}}, ValueError, "a: a_ego: could not convert"),
        ({"a": short}, lockstep.RouteError, "a.csv: 50 rows; want at least"),
        ({"a": 3}, TypeError, "a: int, want a DataFrame"),
        ({}, ValueError, "paths: none"),
    ]:
        with pytest.raises(error, match=message):
            sim.load(wrong)
    route = sim.load("own", limit=1)[0]
    with pytest.raises(ValueError, match="routes of the same name"):
        sim.load([route, route])
    for one, another in [(1, "1"), ("a", "a.csv")]:  # which a file would have, too
        with pytest.raises(ValueError, match=f"routes of the same name: {one!r}, {another!r}"):
            sim.load({one: good, another: good})
    files = pytest.importorskip("pandas").DataFrame(dict.fromkeys(_frames.IN_FILES, [0.1] * 120))
    for missing in files:
        with pytest.raises(ValueError, match=f"a: no column {missing!r}: want roll, vEgo, "):
            sim.load({"a": files.drop(columns=missing)})
