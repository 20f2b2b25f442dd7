"""Runs in parts: plans, shards and merging, from Python and as tasks of Ray."""

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


def test_merge(tmp_path, data, serial):
    hashes = set()
    for count in (1, 5):
        folder = tmp_path / str(count)
        plan = make(folder, data, count)
        assert (plan.rollouts, plan.shards) == (18, count)
        assert make(folder, data, count) == plan
        assert shards.merge(folder).missing == list(range(count))
        for index in reversed(range(count)):
            file = shards.run(folder, index)
            assert shards.run(folder, index) == file
        merged = shards.merge(folder)
        assert merged.result.sha256 == serial.sha256
        assert merged.result.controllers == serial.controllers
        hashes.add(merged.sha256)
    assert len(hashes) == 1


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
    with pytest.raises(lockstep.SimulationError, match="would compute something else than planned: route 3"):
        shards.run(tmp_path, 0, data=[other])
    with pytest.raises(lockstep.SimulationError, match=r"5 of 5 shards are missing: \[0, 1, 2, 3, 4\]"):
        _ = shards.merge(tmp_path).result


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

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    others = [cluster.add_node(num_cpus=1) for _ in range(2)]
    yield cluster, others
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.ray
def test_ray(nodes, tmp_path, data, serial):
    """A node that is killed in the middle, a driver that is killed and begins again, and a worker."""
    import ray
    from lockstep.ray import evaluate, rollout_workers

    cluster, others = nodes
    make(tmp_path / "driver", data, 18)
    driver = subprocess.Popen(
        [sys.executable, "-m", "lockstep.ray", str(tmp_path / "driver"), "--address", cluster.address],
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
    with pytest.raises(lockstep.SimulationError, match="would compute something else than planned: route 8"):
        evaluate(tmp_path / "plan", data=[other])
    assert np.isnan(serial.costs).sum() == 0
