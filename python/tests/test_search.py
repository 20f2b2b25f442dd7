"""Searches and the command line: the functions of the command line from Python."""

import json
import os
import subprocess
import sys

import lockstep
import numpy as np
import pytest
from lockstep import __main__ as command

PROGRAM = [sys.executable, "-m", "lockstep"]


def test_tune(sim, short_routes):
    told = []
    found = lockstep.tune(
        short_routes[:2],
        "pid",
        population=np.int64(8),
        generations=2,
        progress=lambda *done: told.append(done),
    )
    assert found.history.shape == (2, 3)
    assert found.history[1, 0] <= found.history[0, 0]
    assert found.gains.shape == (3,)
    assert all(of == 32 and done <= of for done, of in told)
    best = [
        sim.rollout(short_routes[:2], c).costs.tobytes() for c in (found.gains, found.controller)
    ]
    assert best[0] == best[1]
    assert lockstep.tune(short_routes[:2], "pid", 8, 2).gains.tobytes() == found.gains.tobytes()
    for wrong, message in [
        ({"kind": "table"}, "no gains to search"),
        ({"kind": "pidd"}, "not known"),
        ({"generations": 0}, "not even one generation"),
        ({"budget": -1}, "not even one generation"),
    ]:
        with pytest.raises(ValueError, match=message):
            lockstep.tune(short_routes, **wrong)


def test_plan(sim, short_routes):
    routes, told = short_routes[:2], []
    actions = lockstep.plan(
        routes, rounds=1, window=8, horizon=12, progress=lambda *done: told.append(done)
    )
    assert actions.shape == (2, 400)
    assert told[-1][0] == told[-1][1]
    planned, pid = (sim.rollout(routes, c).mean[0, 2] for c in ({"table": actions}, "pid"))
    assert planned < pid
    for wrong, message in [
        ({"noise": "none"}, "noise"),
        ({"horizon": 2}, "window 5, horizon 2: want"),
        ({"start": np.zeros((2, 3))}, "2 controllers, want one"),
    ]:
        with pytest.raises(ValueError, match=message):
            lockstep.plan(routes, **wrong)


def test_fetch():
    with pytest.raises(ValueError, match="what='route'"):
        lockstep.fetch("route")


def test_the_command_line(tmp_path):
    """That of the wheel prints what the package computes, and its exit status is the command's."""
    environment = os.environ | {"LOCKSTEP_ASSETS": "", "LOCKSTEP_PYTHON": sys.executable}
    ran = subprocess.run(
        [*PROGRAM, "rollout", "--own", "--num_segs", "1", "--json"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    with lockstep.Simulator(model="own") as simulator:
        costs = simulator.rollout(simulator.load("own", limit=1), "pid").costs
    assert lines[0]["total_cost"] == costs[0, 0, 2]
    bad = subprocess.run(
        [*PROGRAM, "rollout", "--enginee", "x"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "unknown flag --enginee" in bad.stderr


def test_the_command_line_in_this_process(tmp_path, capfd):
    assert command.main(["generate", "--num_routes", "1", "--out", str(tmp_path / "routes")]) == 0
    assert capfd.readouterr().out == f"1 routes of seed 0 in {tmp_path / 'routes'}\n"
    assert command.main(["fetch", "nothing"]) == 2
    assert "nothing" in capfd.readouterr().err
