"""Runs in parts: plans, shards and merging, from Python and as tasks of Ray."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import lockstep
import numpy as np
import pytest
from conftest import write_route
from lockstep import shards

GAINS = ["pid", "pid_0.3_0.05_-0.1"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Nine short routes."""
    folder = tmp_path_factory.mktemp("data")
    for i in range(9):
        write_route(folder / f"{i:05}.csv", 104 + i, 1 + i / 5)
    return folder


@pytest.fixture(scope="module")
def serial(sim, data):
    """What an undisturbed run gives."""
    return sim.rollout(sim.load(data, cache=False), GAINS)


def make(folder, data, count=5):
    return shards.plan(folder, data, GAINS, count, engine="reference", model="own")


def test_merge(tmp_path, data, serial, monkeypatch):
    monkeypatch.setattr(lockstep._native, "POLL_MS", 1)
    hashes, told = set(), []
    for count in (1, 5):
        folder = tmp_path / str(count)
        plan = make(folder, data, count)
        assert (plan.rollouts, plan.shards) == (18, count)
        assert json.loads((folder / "inputs.json").read_text())["limit"] == -1  # all of them
        assert make(folder, data, count) == plan
        assert shards.merge(folder).missing == list(range(count))
        for index in reversed(range(count)):
            file = shards.run(folder, index, progress=told.append, workers=1)
            assert shards.run(folder, index) == file
        if count == 1:  # how many of its rollouts have ended
            assert told == sorted(set(told))
            assert len(told) > 2
            assert told[-1] <= 18
        merged = shards.merge(folder)
        assert merged.result.sha256 == serial.sha256
        assert merged.result.controllers == serial.controllers
        hashes.add(merged.sha256)
    assert len(hashes) == 1


def test_what_is_not_said_of_shards():
    """Then none are missing or wrong, and no two objects share a list."""
    some, others = shards.Merged(2), shards.Merged(2)
    some.missing.append(0)
    some.wrong.append("a file")
    assert (others.missing, others.wrong, others.sha256) == ([], [], "")


def test_merge_of_failures(sim, tmp_path, data):
    """All that a run gives is what its parts give: which rollouts failed, and why, and NaN, too."""
    write_route(tmp_path / "short.csv", 101)  # which has no jerk
    some = [data, tmp_path / "short.csv"]
    controllers = ["pid", "pid_1.7e308_1.7e308_-1.7e308"]  # the latter fails where errors are large
    whole = sim.rollout(sim.load(some, cache=False), controllers)
    assert 0 < len(whole.errors) < 9
    assert np.isnan(whole.costs[0, 9, 1:]).all()
    shards.plan(tmp_path, some, controllers, 4, engine="reference", model="own")
    for index in range(4):
        shards.run(tmp_path, index)
    merged = shards.merge(tmp_path).result
    assert merged.controllers == whole.controllers
    assert merged.routes == whole.routes
    assert merged.costs.tobytes() == whole.costs.tobytes()
    assert {at: str(e) for at, e in merged.errors.items()} == {
        at: str(e) for at, e in whole.errors.items()
    }


def test_controllers_run_on_this_python(sim, tmp_path, data, monkeypatch):
    """Where they are planned and where they are run, whatever other Python the machine has."""
    monkeypatch.setenv("LOCKSTEP_PYTHON", "/nowhere")
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import os\nclass Controller:\n"
        "    def update(self, *_, **named):\n        return float(os.environ['LC_STEER'])\n"
    )
    monkeypatch.chdir(tmp_path)  # what is named from here is found from elsewhere
    here = os.path.relpath(data)
    shards.plan("plan", here, "mine.py", 1, engine="reference", model="own", limit=1)
    monkeypatch.chdir("/")
    monkeypatch.setenv("LC_STEER", "0.25")  # what is set by now is known there
    shards.run(tmp_path / "plan", 0)
    want = sim.rollout(sim.load(data, limit=1, cache=False), mine)
    got = shards.merge(tmp_path / "plan").result
    assert (got.sha256, got.errors) == (want.sha256, {})


def test_gains_as_arrays(tmp_path, data, serial):
    shards.plan(
        tmp_path,
        data,
        ["pid", np.array([0.3, 0.05, -0.1])],
        np.int64(1),
        engine="reference",
        model="own",
        limit=np.int32(2),
    )
    shards.run(tmp_path, np.int8(0))
    assert shards.merge(tmp_path).result.costs.tobytes() == serial.costs[:, :2].tobytes()
    plans = [  # of gains down to the last bit
        shards.plan(tmp_path / str(i), data, gains, engine="reference", model="own", limit=1).key
        for i, gains in enumerate(
            [
                np.array([0.1 + 0.2, 1 / 3, -1e-7]),
                "pid_0.30000000000000004_0.3333333333333333_-1e-07",
                np.array([0.3, 1 / 3, -1e-7]),
            ]
        )
    ]
    assert plans[0] == plans[1] != plans[2]
    for wrong, message in [
        ({"table": np.zeros((2, 400))}, "actions for 2 routes, want 0$"),
        ([1.0], "shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            shards.plan(tmp_path / "none", data, wrong)
    with pytest.raises(TypeError, match="save the network"):
        shards.plan(tmp_path / "none", data, lockstep.Network([np.zeros((2, 256))], [np.zeros(2)]))
    with pytest.raises(ValueError, match="model: an empty name"):
        shards.plan(tmp_path / "none", data, model="")
    with pytest.raises(ValueError, match="model: an empty name"):
        shards.run(tmp_path, 0, model="")


def test_bad_input(tmp_path, data, serial):
    with pytest.raises(FileNotFoundError):
        shards.merge(tmp_path / "none")
    with pytest.raises(ValueError, match="want 1 or more"):
        make(tmp_path, data, 0)
    make(tmp_path, data)
    with pytest.raises(ValueError, match="is of another run: 2 shards, there 5"):
        make(tmp_path, data, 2)
    with pytest.raises(lockstep.SimulationError, match="shard 5: the plan has 5, from 0 on"):
        shards.run(tmp_path, 5)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    write_route(other / "00003.csv", 107, 9)
    with pytest.raises(
        lockstep.SimulationError, match="would compute something else than planned: route 3"
    ):
        shards.run(tmp_path, 1, data=[other])
    assert os.path.exists(shards.run(tmp_path, 0, data=[other]))  # has no route 3
    with pytest.raises(
        lockstep.SimulationError, match=r"4 of 5 shards are missing: \[1, 2, 3, 4\]"
    ):
        _ = shards.merge(tmp_path).result


def test_a_plan_tells_what_a_simulator_tells(sim, tmp_path, data, monkeypatch):
    """Such as that the network is not the challenge's."""
    shutil.copy(sim.model, tmp_path / "tinyphysics.onnx")
    monkeypatch.setenv("LOCKSTEP_ASSETS", str(tmp_path))
    foreign = "is not the challenge's network"
    with pytest.warns(UserWarning, match=foreign) as want:
        lockstep.Simulator(engine="reference")
    with pytest.warns(UserWarning, match=foreign) as got:
        shards.plan(tmp_path / "plan", data, engine="reference")
    told = [[(str(w.message), w.filename) for w in caught] for caught in (want, got)]
    assert told[0] == told[1]


def test_all_that_is_wrong_is_told(tmp_path, data):
    """Parts that are missing, and files that are wrong, at once."""
    make(tmp_path, data)
    (tmp_path / "shards" / "000003-0.shard").write_text("no shard")
    merged = shards.merge(tmp_path)
    for _ in range(2):  # the same each time
        with pytest.raises(
            lockstep.SimulationError, match=r"^\S*000003-0\.shard: [^;]*; 5 of 5 sha"
        ):
            _ = merged.result
    assert len(merged.wrong) == 1


def test_broken_machine(tmp_path, data, serial):
    make(tmp_path, data)
    files = [Path(shards.run(tmp_path, i)) for i in range(5)]
    content = files[2].read_bytes()
    for i in range(0, len(content), 29):
        files[2].write_bytes(content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :])
        merged = shards.merge(tmp_path)
        assert merged.missing == [2]
        assert str(files[2]) in merged.wrong[0]
    files[2].write_bytes(content)
    assert shards.merge(tmp_path).result.sha256 == serial.sha256


# --- Ray -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes():
    """Three nodes of one core each, on this machine."""
    pytest.importorskip("ray")
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "300")  # of a machine that does much else
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    yield cluster, others
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.ray
def test_ray(nodes, tmp_path, data, serial):
    """A node is killed in the middle; a driver is killed and begins again; so is a worker."""
    import ray
    from lockstep.ray import evaluate, rollout_workers

    cluster, others = nodes
    make(tmp_path / "driver", data, 18)
    driver = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "lockstep.ray",
            str(tmp_path / "driver"),
            "--address",
            cluster.address,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in driver.stderr:
        if line.startswith("lockstep: 2 of 18"):
            driver.kill()
            break
    driver.wait(60)
    there = set(os.listdir(tmp_path / "driver" / "shards"))
    assert 2 <= len(there) < 18

    ray.init(address=cluster.address, log_to_driver=False)
    killed = []

    def progress(done, of):
        if done > 6 and not killed:
            killed.append(cluster.remove_node(others[0], allow_graceful=False))

    merged = evaluate(tmp_path / "driver", progress=progress)
    assert killed
    assert merged.result.sha256 == serial.sha256
    assert there <= set(os.listdir(tmp_path / "driver" / "shards"))

    # A worker that dies in its task is started again.
    make(tmp_path / "worker", data, 6)

    def shoot(done, of):
        if done == 2 and len(killed) == 1:
            killed.append(os.system("pkill -9 -f ray::_compute"))

    assert evaluate(tmp_path / "worker", progress=shoot).sha256 == merged.sha256

    def count(number, of):
        def work(argument):
            time.sleep(0.2 * (of - number))  # the last is first
            return number, of, argument

        return work

    gather = rollout_workers(count, 2)
    for argument in ("a", "b"):
        assert list(gather(argument)) == [(0, 2, argument), (1, 2, argument)]


@pytest.mark.ray
def test_ray_refuses(nodes, tmp_path, data, serial):
    """A machine with other routes is refused, and says why."""
    from lockstep.ray import evaluate

    make(tmp_path / "plan", data)
    other = tmp_path / "other"
    shutil.copytree(data, other)
    write_route(other / "00008.csv", 112, 3)
    with pytest.raises(
        lockstep.SimulationError, match="would compute something else than planned: route 8"
    ):
        evaluate(tmp_path / "plan", data=[other])
    assert np.isnan(serial.costs).sum() == 0


CONTROLLER = """
import time
with open({log!r}, "a") as f:
    f.write("began\\n")

class Controller:
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        time.sleep(0.004)
        return 0.1 * target_lataccel
"""


@pytest.mark.ray
def test_ray_redone(nodes, sim, tmp_path, data):
    """A killed node redoes one shard for each of its cores, at most."""
    import ray
    from lockstep.ray import evaluate

    cluster, others = nodes
    log, controller = tmp_path / "log", tmp_path / "steady.py"
    controller.write_text(CONTROLLER.format(log=str(log)))
    count = 9
    shards.plan(tmp_path / "plan", data, controller, count, engine="reference", model="own")
    planned = len(log.read_text().splitlines())
    ray.init(address=cluster.address, log_to_driver=False, ignore_reinit_error=True)
    killed = []

    def progress(done, of):
        if done == 3:
            killed.append(cluster.remove_node(others[1], allow_graceful=False))

    merged = evaluate(tmp_path / "plan", progress=progress)
    redone = len(log.read_text().splitlines()) - planned - count
    print(f"redone: {redone} of {count} shards")
    assert killed
    assert redone <= 1  # the node has one core
    assert merged.result.sha256 == sim.rollout(sim.load(data, cache=False), controller).sha256


@pytest.mark.ray
@pytest.mark.skipif(
    "LOCKSTEP_RAY" not in os.environ,
    reason="LOCKSTEP_RAY is not set: it needs an idle machine, for minutes",
)
def test_ray_efficiency(tmp_path):
    """All cores by Ray, and one after the other: the same shards, of about 10 seconds each."""
    import ray
    from lockstep.ray import evaluate

    cores, seconds, routes = os.cpu_count(), 10, tmp_path / "routes"
    lockstep.generate(routes, 20)

    def plan(name, sweep, count):
        gains = [f"pid_{0.1 + k / 1000:.3f}_0.1_-0.05" for k in range(sweep)]
        return shards.plan(tmp_path / name, routes, gains, count, engine="batched", model="own")

    def one_after_the_other(folder, numbers):
        start = time.monotonic()
        for i in numbers:
            shards.run(folder, i, workers=1)
        return time.monotonic() - start

    plan("probe", 4, 1)
    # Sets of gains in a shard.
    each = round(4 * seconds / one_after_the_other(tmp_path / "probe", [0]))
    count = 3 * cores
    plan("serial", each * count, count)
    alone = one_after_the_other(tmp_path / "serial", range(2)) / 2
    program = (
        "import sys; from lockstep import shards; "
        "shards.run(sys.argv[1], int(sys.argv[2]), workers=1)"
    )
    start = time.monotonic()
    others = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path / "serial", str(2 + i)])
        for i in range(cores)
    ]
    assert not any(p.wait() for p in others)
    together = time.monotonic() - start  # what the machine itself gives, without Ray
    plan("ray", each * count, count)
    ray.shutdown()  # of other tests
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    # A cluster that is up.
    ray.get([ray.remote(lambda: time.sleep(1)).remote() for _ in range(cores)])
    start = time.monotonic()
    merged = evaluate(tmp_path / "ray")
    took = time.monotonic() - start
    ray.shutdown()
    efficiency = alone * count / (cores * took)
    print(f"{cores} plain processes: {alone / together:.3f}")
    print(
        f"{count} shards of {alone:.1f} s, {cores} cores, {took:.1f} s: efficiency {efficiency:.3f}"
    )
    assert not merged.missing
