"""The harness on simulators of others: what is right is equal, and what is wrong is named."""

import functools
import hashlib
import html
import itertools
import os
import struct

import lockstep
import numpy as np
import pytest
from conftest import write_route
from lockstep import tinyphysics


class Mine:
    """A simulator of N routes with the network in ONNX Runtime, right unless told otherwise."""

    def __init__(self, model, fault=None, stages=None):
        onnxruntime = pytest.importorskip("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        self.fault, self.stages = fault, stages
        self.bins = np.linspace(-5, 5, 1024)

    def reset(self, routes):
        self.routes = list(routes)
        self.index = 20
        self.actions = [r.steer_command[:20].tolist() for r in self.routes]
        self.lataccels = [r.target_lataccel[:20].tolist() for r in self.routes]
        seeds = [
            int(hashlib.md5(f"data/{r.name}.csv".encode()).hexdigest(), 16) % 10**4
            for r in self.routes
        ]
        self.random = [np.random.RandomState(seed) for seed in seeds]

    def step(self, actions):
        got = []
        for k, route in enumerate(self.routes):
            i = min(self.index, len(route) - 1)  # what a route that has ended gives is ignored
            self.actions[k].append(actions[k])
            columns = [route.roll_lataccel, route.v_ego, route.a_ego]
            states = np.column_stack(
                [self.actions[k][-20:], *(c[i - 19 : i + 1] for c in columns)]
            ).astype(np.float32)
            clipped = np.clip(self.lataccels[k][-20:], -5, 5)
            tokens = np.digitize(clipped, self.bins, right=self.fault != "digitize")
            logits = self.session.run(None, {"states": states[None], "tokens": tokens[None]})[0][
                0, -1
            ]
            x = logits / np.float32(0.8)
            e = np.exp(x - x.max())
            probs = e / e.sum()
            cdf = probs.astype(np.float64).cumsum()
            if self.fault == "cdf":
                cdf = probs.cumsum().astype(np.float64)
            cdf /= cdf[-1]
            draw = self.random[k].random_sample()
            sample = int(cdf.searchsorted(draw, side="right"))
            prediction = self.bins[sample]
            last = self.lataccels[k][-1]
            lataccel = (
                prediction
                if self.fault == "no clip"
                else np.clip(prediction, last - 0.5, last + 0.5)
            )
            lataccel = lataccel if i >= 100 else route.target_lataccel[i]
            self.lataccels[k].append(lataccel)
            row = dict(
                tokens=tokens,
                states=states,
                logits=logits,
                probs=probs,
                cdf=cdf,
                draw=draw,
                sample=sample,
            )
            got.append(row | {"prediction": prediction, "lataccel": lataccel})
        self.index += 1
        return {name: np.array([row[name] for row in got]) for name in self.stages or got[0]}


@pytest.fixture(scope="module")
def few(sim, short_routes):
    return short_routes[[0, 2]]


def test_equal(sim, few, tmp_path):
    found = lockstep.compare(Mine(sim.model), few)
    assert found.equal, found.text
    assert found.json["report"]["steps"] == 2 * (84 + 87)
    assert set(found.json["report"]["compared"]) == {*lockstep.parity.STAGES, "action", "costs"}
    assert ": 4 of 4 rollouts equal, 342 steps\n" in found.text
    # What is equal says nothing of what no drive went through.
    assert found.text.endswith(found.exercised)
    assert " branches of the specification; never: " in found.exercised
    times = {
        branch["name"]: branch["times"] for branch in found.json["report"]["exercised"]["branches"]
    }
    assert times["pid"] == 4
    assert times["warm-up"] == 4 * 80
    assert times["table"] == 0
    found.to_html(tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text())
    assert "<html" in page
    assert "lockstep.compare(mine)" in page


@pytest.mark.parametrize(("fault", "stage"), [("cdf", "cdf"), ("digitize", "tokens")])
def test_faults_are_named(sim, few, fault, stage, tmp_path):
    found = lockstep.compare(Mine(sim.model, fault), few, name="port")
    assert found.outcome == "different"
    assert "port against reference" in found.text
    assert found.effects == ""  # which why tells
    assert " of 4 rollouts equal, " in found.text
    # What the fault did: which rollouts end otherwise, from which step on, by how much; or nothing.
    assert ("rollouts went another way:" in found.text) != (
        "no rollout went another way for it" in found.text
    )
    if "another way:" in found.text:
        assert "lataccel from step 1" in found.text
        assert " cost" in found.text
    assert stage in found.why
    first = found.json["report"]["first"]
    assert first["stage"] == stage
    found.to_html(tmp_path / "report.html")
    assert stage in (tmp_path / "report.html").read_text()


def test_the_default_inputs_reach_every_bound(sim):
    """A simulator without the clip of lataccel was equal by the challenge's gains alone."""
    found = lockstep.compare(Mine(sim.model, "no clip"))
    assert found.outcome == "different"
    assert found.title == "mine against reference"
    assert " of 6 rollouts equal" in found.extent  # of three routes, by either gains
    assert found.json["report"]["first"]["stage"] == "lataccel"
    assert found.json["report"]["first"]["key"][1] == "pid_3_0_0"
    routes = sim.load("own", limit=3)
    exercised = {
        branch["name"]
        for branch in found.json["report"]["exercised"]["branches"]
        if branch["times"]
    }
    assert {
        f"{what} clipped {side}" for what in ("lataccel", "command") for side in ("above", "below")
    } <= exercised
    result = sim.rollout(routes, np.array([lockstep.parity.SATURATING_GAINS]), trajectory=True)
    actions, moves = result.action[0], np.diff(result.lataccel[0])
    for i, rows in enumerate(routes.rows):
        part = slice(100, min(rows, 500))
        assert {-2.0, 2.0} <= set(actions[i][part].tolist())
        assert moves[i][part].min() < -0.4999
        assert moves[i][part].max() > 0.4999


def test_a_controllers_name_is_the_librarys(sim, few):
    """Else what one side has recorded is not what the other has computed."""
    edges = [10.0**k for k in range(-8, 24)]
    gains = [x for edge in edges for x in (edge, np.nextafter(edge, 0), 1.2345 * edge)]
    drivers = np.array([*zip(gains, np.negative(gains), gains[::-1], strict=True), (0, -0.0, 1)])
    names = [lockstep.parity._Drive(None, few, driver).controller for driver in drivers]
    assert names == sim.rollout(few[:0], drivers).controllers


def test_routes_of_one_name(sim, few, tmp_path):
    """Each is compared as what it is, as often as it is there."""
    (tmp_path / "other").mkdir()
    write_route(tmp_path / "other" / f"{few.names[0]}.csv", 106, 2)
    routes = sim.load([*few.files, tmp_path / "other"], cache=False)[[2, 0, 1, 0]]
    found = lockstep.compare(Mine(sim.model), routes)
    assert found.equal, found.text
    assert found.json["report"]["steps"] == 2 * (86 + 84 + 87 + 84)


def test_few_stages(sim, few):
    """What a simulator does not show is not compared, and the rest is."""
    found = lockstep.compare(Mine(sim.model, stages=["lataccel", "sample"]), few)
    assert found.equal, found.text
    found = lockstep.compare(Mine(sim.model, "digitize", stages=["lataccel"]), few)
    assert not found.equal


def test_what_is_excused_is_told(sim, few):
    """Inexact, a fault that changes no token is excused; what it did to rollouts is said."""
    found = lockstep.compare(Mine(sim.model, "cdf"), few, inexact=True, budget=3)
    assert found.equal, found.text
    assert found.effects
    assert f"\n{found.effects}\n" in found.text


def test_the_challenges_interface(sim, few):
    model = tinyphysics.TinyPhysicsModel(sim.model)
    make = functools.partial(tinyphysics.TinyPhysicsSimulator, model)
    found = lockstep.compare(make, few)
    assert found.equal, found.text
    steps = 2 * (84 + 87)  # of each stage that it shows
    shown = ["action", "draw", "lataccel", "prediction", "probs", "sample", "states", "tokens"]
    want = dict.fromkeys(shown, steps) | {"costs": 4}
    assert found.json["report"]["compared"] == want

    class Padded(tinyphysics.TinyPhysicsModel):  # of the sequences that it takes the first counts
        def softmax(self, x, axis=-1):
            return super().softmax(np.concatenate([x, -x]), axis)

        def predict(self, input_data, temperature=1.0):
            probs = self.softmax(self.ort_session.run(None, input_data)[0] / temperature)
            return int(np.random.choice(probs.shape[2], p=probs[0, -1]))

    padded = functools.partial(tinyphysics.TinyPhysicsSimulator, Padded(sim.model))
    found = lockstep.compare(padded, few[:1], gains=(0.1, 0, 0))
    assert found.equal, found.text

    class Late(tinyphysics.TinyPhysicsSimulator):
        def sim_step(self, step_idx):
            super().sim_step(step_idx)
            if step_idx == 101:
                self.current_lataccel_history[-1] += 1e-15

    found = lockstep.compare(functools.partial(Late, model), few)
    assert found.json["report"]["first"]["stage"] == "lataccel"
    assert "step 101" in found.why
    assert "predict" not in vars(model)  # the recorder is gone

    class Dear(tinyphysics.TinyPhysicsSimulator):
        def compute_cost(self):
            costs = super().compute_cost()
            costs[wrong] = np.nextafter(costs[wrong], np.inf)
            return costs

    for index, wrong in enumerate(("lataccel_cost", "jerk_cost", "total_cost")):
        found = lockstep.compare(functools.partial(Dear, model), few[:1])
        assert not found.equal
        assert f"stage costs, index {index} ({wrong.removesuffix('_cost')})" in found.why


def test_one_that_draws_nothing_shows_no_draw(sim, few):
    class Greedy(tinyphysics.TinyPhysicsModel):
        def predict(self, input_data, temperature=1.0):
            return int(np.argmax(self.ort_session.run(None, input_data)[0][0, -1]))

    make = functools.partial(tinyphysics.TinyPhysicsSimulator, Greedy(sim.model))
    report = lockstep.compare(make, few[:1], gains=(0.1, 0, 0)).json["report"]
    assert report["compared"]["sample"] > 0
    assert report["compared"].get("draw", 0) == 0


def test_what_is_compared_is_left_as_it_was(sim, few, monkeypatch, tmp_path):
    """Also by one that ends with an exception: the working folder, its model, and its process."""
    monkeypatch.chdir(tmp_path)
    model = tinyphysics.TinyPhysicsModel(sim.model)

    class Breaks(tinyphysics.TinyPhysicsSimulator):
        def sim_step(self, step_idx):
            super().sim_step(step_idx)
            if step_idx == 25:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lockstep.compare(functools.partial(Breaks, model), few)
    assert os.getcwd() == str(tmp_path)
    assert not {"predict", "softmax", "get_current_lataccel"} & set(vars(model))
    # A method that a model has of its own is that of each route, and stays.
    sampled, calls = model.predict, []
    model.predict = own = lambda *given, **how: calls.append(1) or sampled(*given, **how)
    found = lockstep.compare(functools.partial(tinyphysics.TinyPhysicsSimulator, model), few)
    assert found.equal, found.text
    assert len(calls) == found.json["report"]["steps"]
    assert model.predict is own


def test_a_trace_of_another_profile(sim, few, tmp_path):
    """Is compared by a simulator of that one alone."""
    path = tmp_path / "mine.trace"
    writer = lockstep.TraceWriter(
        path,
        lockstep._native.call("schema"),
        profile="ort1.23-avx2-expU-sinfma-csvexact",
        shortcuts=["stop_at_cost_end"],
    )
    writer.end(writer.begin([few.names[0], "pid"]), outcome=(1.0, 2.0, 3.0))
    writer.close()
    with pytest.raises(ValueError, match=r"mine\.trace has profile ort1\.23-avx2-expU.*make one"):
        lockstep.compare(path, few)


@pytest.mark.parametrize(("shortcuts", "end"), [([], None), (["stop_at_cost_end"], 500)])
def test_a_trace_is_compared_to_its_end(sim, routes, shortcuts, end, tmp_path):
    """That of the route, or where costs end, as it says."""
    route, path = routes[:1], tmp_path / "mine.trace"
    assert route.rows[0] > 500
    result = sim.rollout(route, "pid", trajectory=True)
    with lockstep.TraceWriter(path, lockstep._native.call("schema"), shortcuts=shortcuts) as writer:
        rollout = writer.begin([route.names[0], "pid"])
        steps = range(20, end or route.rows[0])
        for i in steps:
            lataccel, action = result.lataccel[0, 0, i], result.action[0, 0, i]
            writer.step(rollout, i, lataccel=lataccel, action=action)
        writer.end(rollout, outcome=result.costs[0, 0])
    found = lockstep.compare(path, route)
    assert found.equal, found.text
    assert found.json["report"]["steps"] == len(steps)


def test_a_simulator_may_write_into_what_it_is_given(sim, few):
    """And use its own arrays again."""

    class Writes(Mine):
        answer = None

        def step(self, actions):
            got = super().step(actions.copy())
            actions[...] = 9
            self.answer = self.answer or got
            for name in got:
                self.answer[name][...] = got[name]
            return self.answer

    found = lockstep.compare(Writes(sim.model), few)
    assert found.equal, found.text


FALL = {
    "name": "fall",
    "key": ["start"],
    "stages": [
        {"name": "force", "type": "float32", "from": [{"stage": "place", "steps": 1}]},
        {"name": "place", "type": "float64", "shape": [2], "from": [{"stage": "force"}]},
    ],
    "outcome": {"name": "result", "elements": ["depth"], "from": ["place"]},
}


def fall(path, force=-9.81, schema=FALL):
    """Two falls by a simulator that nobody else knows."""
    with lockstep.TraceWriter(path, schema) as trace:
        for start in [100.0, 50.0]:
            rollout, height = trace.begin([str(start)]), start
            for step in range(5):
                pull = np.float32(force if step == 3 else -9.81)
                height += float(pull)
                trace.step(rollout, step, force=pull, place=[0.5, height])
            trace.end(rollout, outcome=[height])
    return path


def test_traces_of_any_simulator(tmp_path):
    want, got = fall(tmp_path / "want.trace"), fall(tmp_path / "got.trace")
    found = lockstep.compare_traces(want, got)
    assert found.equal, found.text
    assert found.text == f"equal  {got} against {want}: 2 of 2 rollouts equal, 10 steps"
    told = {key: found.json[key] for key in ("kind", "want", "got")}
    assert told == {"kind": "traces", "want": str(want), "got": str(got)}
    found = lockstep.compare_traces(want, fall(tmp_path / "wrong.trace", -9.8))
    assert found.outcome == "different"
    first = found.json["report"]["first"]
    assert (first["stage"], first["step"], first["key"]) == ("force", 3, ["100.0"])
    found.to_html(tmp_path / "report.html")
    page = html.unescape((tmp_path / "report.html").read_text())
    assert "force" in page
    assert f'lockstep.compare_traces("{want}", "{tmp_path / "wrong.trace"}")' in page  # the call
    rise = fall(tmp_path / "rise.trace", schema=FALL | {"name": "rise"})
    assert "fall and rise are other simulators" in lockstep.compare_traces(want, rise).why
    same = lockstep.compare_traces(want, want)
    assert "are one file: nothing would be proved" in same.why
    assert same.text == f"failed  {same.title}\n{same.why}"  # and of what there is none, nothing
    with pytest.raises(ValueError, match="budget"):
        lockstep.compare_traces(want, got, budget=1)
    with pytest.raises(FileNotFoundError):
        lockstep.compare_traces(want, tmp_path / "nowhere.trace")
    writer = lockstep.TraceWriter(tmp_path / "bad.trace", FALL)
    rollout = writer.begin(["1"])
    counts = {"name": "count", "type": "int32"}
    writer.stages["count"] = 2, counts
    for refused, message in [
        ({"farce": 1.0}, "step 0: no stage 'farce', want one of force, place"),
        ({"count": -(2**31) - 1}, r"count is int64, and int32 does not hold it: \[-2147483649"),
        ({"count": 2**32 + 1}, "count is int64, and int32 does not hold it"),
        ({"count": np.uint64(2**64 - 1)}, "count is uint64, and int32 does not hold it"),
        ({"force": 0.1}, r"force is float64, and float32 does not hold it: \[0\.1\]"),
        ({"force": 2**24 + 1}, "force is int64, and float32 does not hold it"),
        ({"place": [2**53 + 1] * 2}, rf"place is int64, .* does not hold it: \[{2**53 + 1}\]$"),
        ({"place": [0.5]}, r"place has shape \(1,\), want \(2,\)"),
        ({"place": ["0.5", "1"]}, "Cannot cast"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            writer.step(rollout, 0, **refused)
    with pytest.raises(ValueError, match="step -1 after step -1"):
        writer.step(rollout, -1)
    with pytest.raises(ValueError, match=r"outcome \[1, 2\]: want depth"):
        writer.end(rollout, [1, 2])
    with pytest.raises(ValueError, match=r"key \['1', '2'\]: want start"):
        writer.begin(["1", "2"])
    writer.step(rollout, 0, force=np.nan, place=[-0.0, np.inf], count=np.int64(2**31 - 1))
    writer.end(rollout, [1.0])
    for late in (writer.step, writer.end):
        with pytest.raises(ValueError, match="rollout 0 has ended"):
            late(rollout, *([1] if late == writer.step else []))
        for unknown in (-1, 1):
            with pytest.raises(ValueError, match=f"no rollout {unknown}: begin returned 0 to 0"):
                late(unknown, *([1] if late == writer.step else []))
    text = len('{"key": ["1"], "inputs": {"a": ""}}') + 4
    writer.begin(["1"], a="x" * ((1 << 20) - text))  # as long as readers take it
    with pytest.raises(ValueError, match="a record of 1048577 bytes, want 1048576 at most"):
        writer.begin(["1"], a="x" * ((1 << 20) - text + 1))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="for want of /proc/self/fd")
def test_no_trace_is_left_open(few, tmp_path):
    """Neither by a comparison nor by one that is refused."""
    want, got, bad = (tmp_path / f"{name}.trace" for name in ("want", "got", "bad"))
    fall(want)
    fall(got)
    bad.write_bytes(want.read_bytes()[:-1])
    lockstep.compare_traces(want, got)
    for pair in ((want, bad), (bad, want)):
        with pytest.raises(ValueError, match="bad"):
            lockstep.compare_traces(*pair)
    other = r"want\.trace: fall and tinyphysics are other simulators: compare_traces holds it to"
    with pytest.raises(ValueError, match=other):
        lockstep.compare(want, few)
    files = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    names = [os.readlink(file) for file in files if os.path.lexists(file)]
    assert not [name for name in names if name.startswith(str(tmp_path))]


def test_what_is_closed_is_read(tmp_path):
    """What no reader would take is refused when it is written, or taken as near as can be."""
    path = tmp_path / "mine.trace"
    with lockstep.TraceWriter(path, FALL) as writer:
        with pytest.raises(ValueError, match="surrogates not allowed"):
            writer.begin(["\udcff"])  # as names of files may be, which would be read as another
        rollout = writer.begin([100], gain=0.5)
        for index, refused in [(5, (5, 4, -1, 2**31)), (2**31 - 1, (0, 2**31 - 1, 2**31))]:
            writer.step(rollout, index)
            for other in refused:
                with pytest.raises(ValueError, match=f"step {other} after step {index}"):
                    writer.step(rollout, other)
        writer.end(rollout, error="it fell, \udcff" + "!" * (1 << 20))
        last = writer.begin(["ä"])
        with pytest.raises(ValueError, match="no rollout 2: begin returned 0 to 1"):
            writer.end(2)
        writer.end(last, outcome=[np.nan])
    told = (b"it fell, \\udcff" + b"!" * (1 << 16))[: 1 << 16]
    assert told in path.read_bytes()
    assert told + b"!" not in path.read_bytes()
    order = [FALL["stages"][1], FALL["stages"][0] | {"name": "a"}]  # the schema's, not of names
    with lockstep.TraceWriter(tmp_path / "order.trace", FALL | {"stages": order}) as writer:
        rollout = writer.begin(["1"])
        writer.step(rollout, 0, a=0.25, place=[0.5, 0.75])
        writer.end(rollout, outcome=[1.0])
    assert struct.pack("<2df", 0.5, 0.75, 0.25) in (tmp_path / "order.trace").read_bytes()
    found = lockstep.compare_traces(path, fall(tmp_path / "other.trace"))
    assert {tuple(r["key"]) for r in found.json["report"]["rollouts"]} >= {("100",), ("ä",)}


def test_a_trace_is_whole_or_not_there(tmp_path, monkeypatch):
    """What is left too early leaves what was there; rollouts on their way are named, and kept."""
    there = tmp_path / "there.trace"
    refused = r"there\.trace: 2 of 3 rollouts have not ended, the first is 0, 100: end each, with"

    def begun(path=there):
        there.write_text("before")
        writer = lockstep.TraceWriter(path, FALL)
        for start in ["100", "50", "20"]:
            writer.step(writer.begin([start]), 0, place=[0.5, 1.0])
        writer.end(1, [1.0])
        return writer

    def ended(writer):
        writer.end(0, error="it fell")
        writer.end(2, [3.0])
        writer.close()

    def nothing_else():
        return there.read_text() == "before" and os.listdir(tmp_path) == [there.name]

    with pytest.raises(ZeroDivisionError), begun():
        1 / 0  # noqa: B018
    assert nothing_else()
    with pytest.raises(ValueError, match=refused), begun():
        pass
    assert nothing_else()
    with monkeypatch.context() as m:
        m.setattr(os, "replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ended(begun())
    assert nothing_else()
    begun().discard()
    with pytest.raises(KeyError):
        lockstep.TraceWriter(there, {})
    assert nothing_else()
    monkeypatch.chdir(tmp_path)
    writer = begun(there.name)
    os.chdir("/")
    for _ in range(2):
        with pytest.raises(ValueError, match=refused):
            writer.close()
    with pytest.raises(ValueError, match=f"a record of {(1 << 20) + 31} bytes"):
        writer.begin(["1" * (1 << 20)])  # which is none then
    assert there.read_text() == "before"
    ended(writer)
    writer.close()
    with pytest.raises(ValueError, match="begin: the trace is closed"):
        writer.begin(["1"])
    assert os.listdir(tmp_path) == [there.name]
    found = lockstep.compare_traces(there, fall(tmp_path / "other.trace"))
    assert found.outcome == "different", found.text


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="for want of /dev/fd")
def test_where_a_trace_is_written(tmp_path):
    """Where a link leads, which stays; and to a pipe as it is."""
    link = tmp_path / "link.trace"
    link.symlink_to("there.trace")
    end, pipe = os.pipe()
    fall(f"/dev/fd/{pipe}")
    assert os.read(end, 1 << 20) == fall(link).read_bytes()
    os.close(end)
    os.close(pipe)
    assert link.is_symlink()


def test_bad_input(few, sim, tmp_path):
    class Broken:
        def reset(self, routes):
            pass

        def step(self, actions):
            self.begun += 1
            return {"lataccel": np.zeros(2)} if self.begun <= self.well else self.answer

    broken = Broken()
    for well, (answer, message) in itertools.product([0, 9, 83], [
        ({}, r"stages \[\]: want lataccel"),
        ({"lataccel": np.zeros(2), "nonsense": np.zeros(2)}, r"stages \['lataccel', 'nonsense'\]:"),
        ({"lataccel": np.zeros(3)}, r"lataccel has shape \(3,\), want \(2, …\)"),
        ({"lataccel": np.zeros(2), "draw": np.zeros(1)}, r"draw has shape \(1,\), want \(2, …\)"),
    ]):  # fmt: skip
        broken.answer, broken.well, broken.begun = answer, well, 0
        with pytest.raises(ValueError, match=f"^step {20 + well}: {message}"):
            lockstep.compare(broken, few)
    with pytest.raises(TypeError, match="int"):
        lockstep.compare(3, few)
    for gains in [(1, 2), [[1, 2, 3], [1, 2, np.nan]], np.zeros((0, 3)), np.zeros((1, 1, 3))]:
        with pytest.raises(ValueError, match="gains: "):
            lockstep.compare(broken, few, gains=gains)
    with pytest.raises(ValueError, match="budget"):
        lockstep.compare(broken, few, budget=2)
    with pytest.raises(FileNotFoundError):
        lockstep.compare(tmp_path / "nowhere.trace", few)
    schema = lockstep._native.call("schema")
    with lockstep.parity.TraceWriter(tmp_path / "name.trace", schema) as writer:
        writer.end(writer.begin([few.names[0], "pid_3.0_0_0"]), error="it is not driven")
    with pytest.raises(ValueError, match=r"want pid_3_0_0"):
        lockstep.compare(tmp_path / "name.trace", few)
    (tmp_path / "bad.trace").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=r"bad\.trace"):
        lockstep.compare(tmp_path / "bad.trace", few)
