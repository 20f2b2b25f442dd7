"""Searches and the command line: the functions of the command line from Python."""

import csv
import inspect
import json
import os
import re
import shutil
import subprocess
import sys

import lockstep
import numpy as np
import pytest
from conftest import write_route
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
    said = lockstep.tune(short_routes[:2], "pid", 8, 2, 600.0, 1)  # as by default
    assert said.gains.tobytes() == found.gains.tobytes()
    ended = []  # by its budget, after the first
    found = lockstep.tune(
        short_routes[:2], "pid", 8, 9, budget=5e-3, progress=lambda *done: ended.append(done)
    )
    assert (len(found.history), ended[-1]) == (1, (16, 16))
    for wrong, message in [
        ({"kind": "table"}, "no gains to search"),
        ({"kind": "pidd"}, "not known"),
        ({"generations": 0}, "not even one generation"),
        ({"budget": -1}, "not even one generation"),
        ({"budget": np.nan}, "tune: a number that is not finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            lockstep.tune(short_routes, **wrong)


def test_tune_by_workers(tmp_path):
    """Rollouts end in any order, and each cost is its own candidate's."""
    for i, rows in enumerate([131, 104, 119, 102]):
        write_route(tmp_path / f"{i}.csv", rows, 1 + i / 3)
    found = []
    for engine, workers in [("reference", 1), ("reference", 3), ("batched", 3)]:
        with lockstep.Simulator(engine=engine, model="own", workers=workers) as simulator:
            tuned = lockstep.tune(simulator.load(tmp_path, cache=False), "pid", 8, 2)
            found.append((tuned.gains.tobytes(), tuned.history.tobytes()))
    assert found[1:] == found[:1] * 2


def test_plan(sim, short_routes, monkeypatch):
    monkeypatch.setattr(lockstep._native, "POLL_MS", 1)
    routes, told = short_routes[:2], []
    actions = lockstep.plan(
        routes, rounds=1, window=8, horizon=12, progress=lambda *done: told.append(done)
    )
    assert actions.shape == (2, 400)
    assert told[-1][0] == told[-1][1]
    assert len(told) > 1
    assert {of for _, of in told} == {told[-1][1]}
    planned, pid = (sim.rollout(routes, c).mean[0, 2] for c in ({"table": actions}, "pid"))
    assert planned < pid
    for wrong, message in [
        ({"noise": "none"}, "noise"),
        ({"horizon": 2}, "window 5, horizon 2: want"),
        ({"start": np.zeros((3, 3))}, "^start: 3 controllers, want one$"),
    ]:
        with pytest.raises(ValueError, match=message):
            lockstep.plan(routes, **wrong)


def test_searches_are_those_of_the_commands(sim, short_routes, tmp_path, capfd, monkeypatch):
    """Of routes out of the middle, each in its order, with no option as it is by default."""
    monkeypatch.chdir(tmp_path)
    routes = short_routes[[2, 4, 0]]
    (tmp_path / "some").mkdir()
    for place, file in enumerate(routes.files):  # of names in this order
        shutil.copy(file, tmp_path / "some" / f"{place:05}.csv")
    some = sim.load("some", cache=False)
    files = routes.simulator.load(sorted(short_routes.files) + some.files, cache=False)
    some = files[[5, 6, 7]]
    simulator = f"--engine {sim.engine} --profile {sim.profile} --model_path {sim.model}".split()
    simulator += ["--data_path", "some"]

    tune = "tune --kind pid --population 9 --generations 3 --seed 5 --out run --gains gains.json"
    assert command.main([*tune.split(), *simulator]) == 0
    found = lockstep.tune(some, "pid", 9, 3, seed=5)
    assert json.loads((tmp_path / "gains.json").read_text())["gains"] == found.gains.tolist()
    rows = list(csv.reader((tmp_path / "run" / "curve.csv").open()))[1:]
    assert [[float(x) for x in row[1:]] for row in rows] == found.history.tolist()

    start = "pidff_0.1_0.2_0_0_0_0_0_0_0_0"
    for noise in ("route", "seeded", "expected"):
        how = {"rounds": 1} | {
            "route": {"window": 3, "horizon": 4}, "seeded": {"seeds": 3, "seed": 6}, "expected": {},
        }[noise]  # fmt: skip
        given = [word for name, x in how.items() for word in (f"--{name}", str(x))]
        assert command.main(["plan", *simulator, "--from", start, "--noise", noise, *given,
                             "--table", "plan.json"]) == 0  # fmt: skip
        plan = lockstep.plan(some, start, noise, **how)
        table = sim.rollout(some, tmp_path / "plan.json", trajectory=True)
        ours = sim.rollout(some, {"table": plan}, trajectory=True)
        assert ours.action.tobytes() == table.action.tobytes(), noise
        assert ours.costs.tobytes() == table.costs.tobytes(), noise
    capfd.readouterr()


def test_defaults_are_those_of_the_command():
    text = subprocess.run([*PROGRAM, "tune", "--help"], capture_output=True, text=True, check=True)
    words = " ".join(text.stdout.split())
    said = dict(re.findall(r"--(\w+)=\S+ (?:(?! --).)*?Default: (\S+?)\.(?= |$)", words))
    ours = inspect.signature(lockstep.tune).parameters
    for name in ("kind", "population", "generations", "seed"):
        assert said[name] == str(ours[name].default), name
    assert said["budget"] == f"{ours['budget'].default / 60:g}m"


def test_fetch(monkeypatch):
    """What is asked for is asked of the library, which tests of its own hold."""
    with pytest.raises(ValueError, match="what='route'"):
        lockstep.fetch("route")
    asked = []
    monkeypatch.setattr(
        lockstep._native, "long_call", lambda *of, **asks: asked.append((of, asks)) or {"path": "a"}
    )
    assert lockstep.fetch("data", "main", "here", print) == "a"
    assert lockstep.fetch("model") == "a"
    told = asked[0][1].pop("progress")
    assert callable(told)
    assert asked == [
        (("fetch", 0), {"what": "data", "revision": "main", "out": "here"}),
        (("fetch", 0), {"what": "model", "revision": "", "out": "", "progress": None}),
    ]


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


def test_the_command_line_in_this_process(tmp_path, capfd, monkeypatch):
    """It leaves the environment as it was, since other programs are started with it."""
    monkeypatch.delenv("LOCKSTEP_PYTHON", raising=False)
    before = dict(os.environ)
    assert command.main(["generate", "--num_routes", "1", "--out", str(tmp_path / "routes")]) == 0
    assert dict(os.environ) == before
    assert capfd.readouterr().out == f"1 routes of seed 1 in {tmp_path / 'routes'}\n"
    assert command.main(["fetch", "nothing"]) == 2
    assert "nothing" in capfd.readouterr().err
