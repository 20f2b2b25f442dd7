"""The challenge's names: equal to its unmodified program in every bit of every history."""

import hashlib
import json
import os
import subprocess
import sys

import lockstep
import numpy as np
import pytest
from conftest import PATIENCE
from lockstep import tinyphysics

pytest.importorskip("pandas")

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
        self.text.append([type(x).__name__ for x in (target_lataccel, current_lataccel, *state, future_plan.a_ego)])
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
        "class Controller:\n    def update(self, target_lataccel, current_lataccel, state, future_plan):\n"
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


def test_single_predictions(sim, routes):
    """The model alone, asked in any order, and NumPy's generator moves as in the program."""
    model = lockstep.TinyPhysicsModel(sim.model, debug=False)
    route = routes[0]
    states = [tinyphysics.State(*x) for x in zip(route.roll_lataccel, route.v_ego, route.a_ego, strict=True)]
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
    token = model.predict({"states": columns[None].astype(np.float32), "tokens": tokens[None]}, temperature=0.8)
    assert model.tokenizer.decode(token) == got[0]
    with pytest.raises(ValueError, match="temperature"):
        model.predict({"states": columns[None], "tokens": tokens[None]})
    with pytest.raises(ValueError, match="action"):
        model.get_current_lataccel(states[1:21], [*actions[:-1], 2.5], past)
