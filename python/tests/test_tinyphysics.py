"""The challenge's names: equal to its unmodified program in every bit of every history."""

import copy
import hashlib
import inspect
import json
import operator
import os
import pickle
import platform
import re
import shutil
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import lockstep
import numpy as np
import patches
import pytest
from conftest import PATIENCE
from lockstep import _frames, shards, tinyphysics

pandas = pytest.importorskip("pandas")

HERE = Path(__file__).parent
RECORDED = "ort1.30-avx512-expU-sinfma-csvexact"  # where patches.json was made

# Run by the program's checkout as well as by the package: whatever they return, in hexadecimal.
PROGRAM = """
import json, sys, importlib
import numpy as np
module = importlib.import_module(sys.argv[1])
route, model = sys.argv[2:4]


class Controller:
    # depends on everything that a controller is shown, in type and value
    def __init__(self):
        self.total, self.text = 0.0, []

    def update(self, target_lataccel, current_lataccel, state, future_plan):
        self.total += float(target_lataccel) - float(current_lataccel)
        plan = sum(future_plan.lataccel[:5]) - sum(future_plan.v_ego[-2:]) / 40
        given = (target_lataccel, current_lataccel, *state, future_plan.a_ego)
        self.text.append([type(x).__name__ for x in given])
        return 0.1 * self.total + 0.02 * plan + state.roll_lataccel / 50 + state.a_ego / 20


model = module.TinyPhysicsModel(model, debug=False)
controller = Controller()
sim = module.TinyPhysicsSimulator(model, route, controller=controller, debug=False)
costs = sim.rollout()
hexed = lambda values: [float(x).hex() for x in values]
print(json.dumps({
    "costs": dict(zip(costs, hexed(costs.values()))),
    "actions": hexed(sim.action_history),
    "lataccels": hexed(sim.current_lataccel_history),
    "targets": hexed(sim.target_lataccel_history),
    "states": [hexed(s) for s in sim.state_history],
    "columns": list(sim.data.columns),
    "shown": [list(x) for x in sorted(set(map(tuple, controller.text[1:])))],
    "step": sim.step_idx,
    "generator": float(np.random.random_sample()).hex(),
}))
"""


def run(python, module, route, model, folder):
    done = subprocess.run(
        [python, "-c", PROGRAM, module, route, model],
        cwd=folder,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["00000", "04959"])
def test_unmodified_program(official, tmp_path, name):
    checkout = os.environ.get("LOCKSTEP_UPSTREAM")
    if not checkout:
        pytest.skip("needs a checkout of commaai/controls_challenge: set LOCKSTEP_UPSTREAM")
    for file in os.listdir(checkout):
        os.symlink(os.path.join(checkout, file), tmp_path / file)
    os.symlink(official / "routes", tmp_path / "data")
    arguments = f"data/{name}.csv", str(official / "tinyphysics.onnx"), tmp_path
    want = run(os.environ.get("LOCKSTEP_PYTHON", sys.executable), "tinyphysics", *arguments)
    got = run(sys.executable, "lockstep.tinyphysics", *arguments)
    for key in want:
        assert got[key] == want[key], key
    assert got.keys() == want.keys()


def test_recorded_program(sim, routes, tmp_path, monkeypatch):
    """The same as whole rollouts, which are held to recordings of the program."""
    (tmp_path / "controllers").mkdir()
    (tmp_path / "controllers" / "gentle.py").write_text(
        "class Controller:\n    def update(self, target_lataccel, current_lataccel, state, "
        "future_plan):\n"
        "        return 0.3 * (target_lataccel - current_lataccel)\n"
    )
    route = routes[[1]]
    folder = os.path.dirname(sim.model)
    os.symlink(os.path.join(folder, "routes"), tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    costs, targets, lataccels = lockstep.run_rollout("data/g00001.csv", "gentle", sim.model)
    want = sim.rollout(route, [0.3, 0.0, 0.0], trajectory=True)
    assert list(costs) == ["lataccel_cost", "jerk_cost", "total_cost"]
    assert np.array(list(costs.values())).tobytes() == want.costs[0, 0].tobytes()
    assert np.array(lataccels).tobytes() == want.lataccel[0, 0].tobytes()
    assert np.array(targets).tobytes() == route[0].target_lataccel.tobytes()
    assert tinyphysics.get_available_controllers() == ["gentle"]
    for name in ("__init__.py", "notes.txt", "gentle.pyc", "two.words.py"):
        (tmp_path / "controllers" / name).touch()
    (tmp_path / "controllers" / "folder.py").mkdir()
    assert sorted(tinyphysics.get_available_controllers()) == ["gentle", "two.words"]


def test_constants(sim):
    """Those that nothing here computes with, since the library does, are the library's."""
    raw = {"roll": 0.3, "vEgo": 20.0, "aEgo": 0.1, "targetLateralAcceleration": 0.2}
    columns = {name: np.full(120, x) for name, x in (raw | {"steerCommand": 0.1}).items()}
    rolled = sim.load({"a": columns})[0].roll_lataccel
    assert rolled == pytest.approx(np.full(120, np.sin(0.3) * tinyphysics.ACC_G), rel=1e-12)
    assert pytest.approx(1) == tinyphysics.FPS * tinyphysics.DEL_T


def test_profiles(sim, monkeypatch, capsys):
    """The profile in use and that of the packages here are printed; a difference is warned of."""
    other = "ort1.23-avx2-expF-sinfma-csv2"
    answer = {
        "profile": sim.profile,
        "whole": True,
        "source": f"profile {sim.profile}, as somebody answered",
    }
    call = tinyphysics._native.long_call
    monkeypatch.setattr(
        tinyphysics._native,
        "long_call",
        lambda name, *a, **k: answer if name == "installed" else call(name, *a, **k),
    )
    warnings.filterwarnings("error", message="two profiles")
    lockstep.TinyPhysicsModel(sim.model, debug=True, profile=sim.profile)
    assert (
        capsys.readouterr().out
        == f"computed with profile {sim.profile}, Python has {answer['source']}\n"
    )
    with pytest.warns(
        UserWarning,
        match=f"two profiles.*computed with profile {other}, Python has profile {sim.profile}",
    ):
        lockstep.TinyPhysicsModel(sim.model, profile=other)
    answer["whole"] = False  # nothing is known of a program that cannot run here
    lockstep.TinyPhysicsModel(sim.model, profile=other)
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(os.name != "posix", reason="a script stands in Python's place")
def test_unknown_arithmetic(tmp_path, monkeypatch):
    """A Python whose exponentials nobody knows is warned of wherever it is asked, by a simulator
    and by a plan; of two profiles nothing is said, since one of them is not known.
    """
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\ncase "$2" in "import sys; "*) echo "lockstep-answer $0"; exit;; esac\n'
        f"'{sys.executable}' \"$@\" | "
        """sed '/"probe": "exp"/s/"bits": "..../"bits": "AAAA/'\n"""
    )
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    unknown = re.escape(f"{python}: probe exp: answer ") + ".*, which no profile has"
    with pytest.warns(UserWarning, match=unknown) as simulators:
        sim = lockstep.Simulator(engine="reference", model="own")
    with pytest.warns(UserWarning, match=unknown) as plans:
        shards.plan(tmp_path / "plan", data="own", limit=1, model="own", shards=1)
    for caught in (simulators, plans):
        assert [(str(w.message), w.filename) for w in caught] == [(sim.notices[0], __file__)]
    warnings.simplefilter("error")
    lockstep.TinyPhysicsModel(sim.model, profile="ort1.23-avx2-expF-sinfma-csv2")


def test_arithmetic(sim):
    """This interpreter is asked, and what it answers is the profile."""
    assert sim.arithmetic["python"] == sys.executable
    assert sim.arithmetic["packages"]["numpy"] == np.__version__
    assert sim.arithmetic["profile"] == sim.profile
    assert f"profile {sim.profile}, as {sys.executable} answered" in sim.arithmetic_source
    with lockstep.Simulator(engine="reference", model="own", profile="pins") as pins:
        assert (pins.arithmetic, pins.arithmetic_source) == (None, "")


def test_seed_where_md5_is_no_security(sim, tmp_path, monkeypatch):
    """Some machines refuse MD5, but to whoever says that security is not what it is for."""

    def refuse(data, usedforsecurity=True):
        assert not usedforsecurity
        return hashlib.md5(data, usedforsecurity=usedforsecurity)

    monkeypatch.setattr(tinyphysics, "md5", refuse)
    file = tmp_path / "short.csv"
    write_short_route(sim, file)
    model = lockstep.TinyPhysicsModel(sim.model, debug=False)
    lockstep.TinyPhysicsSimulator(model, str(file), patches.Steer(), debug=False)


def test_single_predictions(sim, routes):
    """The model alone, asked in any order, and NumPy's generator moves as in the program."""
    model = lockstep.TinyPhysicsModel(sim.model, debug=False)
    route = routes[0]
    states = [
        tinyphysics.State(*x)
        for x in zip(route.roll_lataccel, route.v_ego, route.a_ego, strict=True)
    ]
    actions, past = route.steer_command[1:21].tolist(), route.target_lataccel[:20].tolist()
    seed = int(hashlib.md5(b"data/g00000.csv").hexdigest(), 16) % 10**4
    got = []
    for _ in range(2):
        np.random.seed(seed)
        got.append(model.get_current_lataccel(states[1:21], actions, past))
        assert np.random.random_sample() == np.random.RandomState(seed).random_sample(2)[1]
    assert got[0] == got[1]
    np.random.seed(seed)
    columns = np.column_stack([actions, states[1:21]])
    tokens = model.tokenizer.encode(past)
    token = model.predict(
        {"states": columns[None].astype(np.float32), "tokens": tokens[None]}, temperature=0.8
    )
    assert model.tokenizer.decode(token) == got[0]
    # Of any axis, as the program's: each line of it has the probabilities that it has alone.
    x = np.random.default_rng(2).normal(0, 300, (3, 4, 5)).astype(np.float32)
    for axis in (-1, 0, 1, 2):
        lines = np.moveaxis(model.softmax(x, axis=axis), axis, -1).reshape(-1, x.shape[axis])
        alone = np.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
        assert lines == pytest.approx(np.array([model.softmax(a) for a in alone])), axis


def test_what_a_session_refuses(sim):
    """What is no input of the network's, by its name; each sequence has the logits it has alone."""
    session, random = tinyphysics.Session(sim.model), np.random.default_rng(4)
    feed = {
        "states": random.normal(0, 1, (3, 20, 4)).astype(np.float32),
        "tokens": random.integers(0, 1024, (3, 20)),
    }
    (logits,) = session.run(["output"], feed)
    assert (logits.shape, logits.dtype) == ((3, 20, 1024), np.float32)
    for part in (slice(0, 0), slice(1, 2), slice(1, 3), slice(None, None, -1)):
        (some,) = session.run(None, {name: array[part] for name, array in feed.items()})
        assert some.tobytes() == logits[part].tobytes()
    for wrong, message in [
        (
            {"states": feed["states"].astype(float)},
            r"^states: float64 \(3, 20, 4\), want float32 \(",
        ),
        (
            {"states": feed["states"][:2]},
            r"^states: float32 \(2, 20, 4\), want float32 \(3, 20, 4\)$",
        ),
        ({"tokens": feed["tokens"].astype(np.int32)}, r"^tokens: int32 \(3, 20\), want int64 \(3"),
        ({"tokens": feed["tokens"][:, 1:]}, r"^tokens: int64 \(3, 19\), want int64 \(3, 20\)$"),
        ({"tokens": np.int64(3)}, r"^states: .*, want float32 \(0, 20, 4\)$"),
        ({"more": 1}, "^input_feed: states, tokens, more: want states and tokens$"),
    ]:
        with pytest.raises(ValueError, match=message):
            session.run(None, feed | wrong)
    for names, options in [(["logits"], None), (["output", "output"], None), (None, 1)]:
        with pytest.raises(ValueError, match=r"^output_names=.*: want \['output'\] and None$"):
            session.run(names, feed, options)


# What each function of the program takes, with its defaults.
TAKEN = {
    "BaseController.update": "target_lataccel, current_lataccel, state, future_plan",
    "LataccelTokenizer": "",
    "LataccelTokenizer.encode": "value",
    "LataccelTokenizer.decode": "token",
    "LataccelTokenizer.clip": "value",
    "TinyPhysicsModel.softmax": "x, axis=-1",
    "TinyPhysicsModel.predict": "input_data, temperature=1.0",
    "TinyPhysicsModel.get_current_lataccel": "sim_states, actions, past_preds",
    "TinyPhysicsSimulator": "model, data_path, controller, debug=False",
    "TinyPhysicsSimulator.reset": "",
    "TinyPhysicsSimulator.get_data": "data_path",
    "TinyPhysicsSimulator.sim_step": "step_idx",
    "TinyPhysicsSimulator.control_step": "step_idx",
    "TinyPhysicsSimulator.get_state_target_futureplan": "step_idx",
    "TinyPhysicsSimulator.step": "",
    "TinyPhysicsSimulator.plot_data": "ax, lines, axis_labels, title",
    "TinyPhysicsSimulator.compute_cost": "",
    "TinyPhysicsSimulator.rollout": "",
    "get_available_controllers": "",
    "run_rollout": "data_path, controller_type, model_path, debug=False",
    "download_dataset": "",
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_functions_take(name):
    function = operator.attrgetter(name)(tinyphysics)
    taken = inspect.signature(function).parameters.values()
    plain = [str(p.replace(annotation=p.empty)) for p in taken if p.name != "self"]
    assert ", ".join(plain) == TAKEN[name]


def test_patches(sim, tmp_path, monkeypatch):
    """What people do to the program has the same effect here, or is refused in a sentence."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(
            "needs NumPy's arithmetic on x86-64, where the answers were recorded: this is "
            f"{platform.machine()}"
        )
    write_short_route(sim, tmp_path / "data" / "short.csv")
    monkeypatch.chdir(tmp_path)
    want = json.loads((HERE / "patches.json").read_text())
    assert want.keys() == patches.PATCHES.keys()
    assert len(want) >= 85
    # Frames of pandas 2 let their values be edited.
    if int(pandas.__version__.split(".")[0]) < 3:
        want["data_in_place"] = "29ea5ac74c6717d3ca16220f77ccf684589be885d6e6af57a1e293d846986bf2"
    assert len(set(want.values())) > 60
    module = sys.modules["lockstep.tinyphysics"]
    try:
        got = patches.main("lockstep.tinyphysics", "data/short.csv", sim.model, profile=RECORDED)
    finally:
        sys.modules["lockstep.tinyphysics"] = module
    refused = {
        name for name in want if want[name].startswith("InvalidArgument") and "want" in got[name]
    }
    assert refused == {"session_wrong_type", "session_short", "constant CONTEXT_LENGTH"}
    other = {
        name: (got[name], want[name])
        for name in want
        if got[name] != want[name] and name not in refused
    }
    assert not other


def write_short_route(sim, path):
    """A generated route of 120 rows, in numbers that every version of pandas reads alike."""
    header, *rows = (
        (Path(sim.model).parent / "routes" / "g00001.csv").read_text().splitlines()[:121]
    )
    path.parent.mkdir(exist_ok=True)
    short = [",".join(f"{float(x):.4g}" if x else "" for x in row.split(",")) for row in rows]
    path.write_text("\n".join([header, *short]) + "\n")


def test_without_pandas(sim, tmp_path, monkeypatch):
    write_short_route(sim, tmp_path / "data" / "short.csv")
    monkeypatch.chdir(tmp_path)

    def rollout():
        drive = tinyphysics.TinyPhysicsSimulator(
            tinyphysics.TinyPhysicsModel(sim.model), "data/short.csv", patches.Steer()
        )
        return patches.text({"costs": drive.rollout(), "sim": drive}), drive

    want, _ = rollout()
    monkeypatch.setitem(sys.modules, "pandas", None)
    got, drive = rollout()
    assert got == want
    slower = drive.data["v_ego"].values * 0.5
    drive.data["v_ego"] = slower
    slower[:] = 7  # which was copied, and what it was copied to can be written into
    drive.data["a_ego"].values[3] = 0.25
    assert drive.data["v_ego"].values[4] == drive.data.iloc[4]["v_ego"] != 7
    assert drive.data.iloc[3]["a_ego"] == 0.25
    before = list(drive.data.columns)
    assert before == list(_frames.COLUMNS)
    drive.data["one"] = 1
    assert list(drive.data.columns) == [*before, "one"] == list(drive.data.iloc[0])
    drive.data["one"].values[2] = 2
    assert drive.data["one"].values.tolist() == [1.0, 1.0, 2.0] + [1.0] * (len(drive.data) - 3)
    drive.reset()
    assert patches.text({"costs": drive.rollout(), "sim": drive}) != want
    with pytest.raises(AttributeError, match="without pandas"):
        drive.data.loc[3, "v_ego"] = 1


def test_run_rollout_with_numpy_alone(sim, tmp_path):
    """In a Python that finds neither pandas nor what the program itself imports."""
    write_short_route(sim, tmp_path / "data" / "short.csv")
    (tmp_path / "controllers").mkdir()
    (tmp_path / "controllers" / "steer.py").write_text(
        "class Controller:\n"
        "    def update(self, target_lataccel, current_lataccel, state, future_plan):\n"
        "        return 0.3 * (target_lataccel - current_lataccel)\n"
    )
    program = (
        "import sys\n"
        "for name in ['pandas', 'onnxruntime', 'matplotlib', 'seaborn', 'tqdm']: sys.modules[name] "
        "= None\n"
        "from lockstep.tinyphysics import run_rollout\n"
        "costs, target, lataccel = run_rollout('data/short.csv', 'steer', sys.argv[1])\n"
        "print(costs['total_cost'], len(target), len(lataccel))"
    )
    command = [sys.executable, "-c", program, sim.model]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    routes = sim.load(tmp_path / "data" / "short.csv")
    want = sim.rollout(routes, lambda step: 0.3 * (step.target - step.current))
    assert done.stdout.split() == [str(float(want.costs[0, 0, 2])), "120", "120"]


def test_plots(sim, tmp_path, monkeypatch, capsys):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    pyplot.switch_backend("Agg")
    write_short_route(sim, tmp_path / "data" / "short.csv")
    monkeypatch.chdir(tmp_path)
    model = tinyphysics.TinyPhysicsModel(sim.model)
    calls = []
    for name in ("ion", "pause", "ioff", "show"):
        monkeypatch.setattr(pyplot, name, lambda *_, name=name: calls.append(name))
    drive = tinyphysics.TinyPhysicsSimulator(model, "data/short.csv", patches.Steer(), debug=True)
    drive.rollout()
    assert calls == ["ion", *["pause"] * 10, "ioff", "show"]
    acceleration, roll = "Lateral Acceleration", "Lateral Accel due to Road Roll"
    drawn = [
        (acceleration, acceleration, ["Target lataccel", "Current lataccel"]),
        ("Action", "Action", ["Action"]),
        (roll, roll, ["Roll Lateral Acceleration"]),
        ("v_ego", "v_ego", ["v_ego"]),
    ]
    states = np.array(drive.state_history)
    numbers = [
        [drive.target_lataccel_history, drive.current_lataccel_history],
        [drive.action_history],
        [states[:, 0]],
        [states[:, 1]],
    ]
    for ax, (title, of, lines), of_them in zip(pyplot.gcf().axes, drawn, numbers, strict=True):
        assert ax.get_title() == f"{title} | Step: 120"
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("Step", of)
        legend = [text.get_text() for text in ax.get_legend().get_texts()]
        assert legend == [*lines, "Control Start"]
        for line, history in zip(ax.get_lines()[:-1], of_them, strict=True):
            assert line.get_ydata().tolist() == np.array(history).tolist(), title
            assert line.get_xdata().tolist() == list(range(120))
    assert capsys.readouterr().out.count("Step ") == 10
    pyplot.close("all")


def test_download(tmp_path, monkeypatch):
    """Files, flat, as the program has them; an archive that is cut leaves none."""
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.mkdir("SYNTHETIC_V0") if hasattr(z, "mkdir") else None
        z.writestr("SYNTHETIC_V0/00000.csv", "t\n1\n")
    monkeypatch.setattr(tinyphysics, "DATASET_PATH", tmp_path / "data")
    monkeypatch.setattr(tinyphysics, "DATASET_URL", archive.as_uri())
    tinyphysics.download_dataset()
    assert [(f.name, f.read_text()) for f in (tmp_path / "data").iterdir()] == [
        ("00000.csv", "t\n1\n")
    ]
    archive.write_bytes(archive.read_bytes()[:-30])
    monkeypatch.setattr(tinyphysics, "DATASET_PATH", tmp_path / "other")
    with pytest.raises(zipfile.BadZipFile):
        tinyphysics.download_dataset()
    assert not list((tmp_path / "other").iterdir())


def test_report_program(sim, tmp_path):
    """The challenge's eval.py asks for rollouts in processes forked after the first ones."""
    write_short_route(sim, tmp_path / "data" / "short.csv")
    (tmp_path / "controllers").mkdir()
    (tmp_path / "controllers" / "gentle.py").write_text(
        "class Controller:\n    def update(self, target_lataccel, current_lataccel, state, "
        "future_plan):\n"
        "        return 0.3 * (target_lataccel - current_lataccel)\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, sys\n"
        "from functools import partial\n"
        "from lockstep.tinyphysics import run_rollout\n"
        "work = partial(run_rollout, controller_type='gentle', model_path=sys.argv[1], "
        "debug=False)\n"
        "first = work('data/short.csv')\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(work, ['data/short.csv'] * 3) == [first] * 3)\n"
    )
    done = subprocess.run(
        [sys.executable, program, sim.model],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout.strip() == "True", done.stderr


def test_a_pickled_model_is_made_with_the_same(sim, tmp_path):
    """Where it is sent to, the same network and profile compute, with as many cores."""
    shutil.copy(sim.model, tmp_path / "mine.onnx")
    for options in ({}, {"profile": "ort1.23-avx2-expF-sinfma-csv2"}, {"workers": 3}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of two profiles
            model = tinyphysics.TinyPhysicsModel(tmp_path / "mine.onnx", **options)
        for way in (lambda model: pickle.loads(pickle.dumps(model)), copy.copy, copy.deepcopy):
            of, want = way(model).simulator, model.simulator
            for name in ("model", "profile", "engine", "workers"):
                assert getattr(of, name) == getattr(want, name), f"{options}: {name}"
