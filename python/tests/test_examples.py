"""The examples, at a small size: they run, resume, and what they write scores as they say."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
import types

import lockstep
import numpy as np
import pytest
from conftest import PATIENCE, REPOSITORY, example

EXAMPLES = REPOSITORY / "python" / "examples"


def run(name, *arguments):
    command = [
        sys.executable,
        EXAMPLES / name,
        "--engine",
        "reference",
        "--model",
        "own",
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_cem(tmp_path, sim, routes):
    out = tmp_path / "gains.json"
    printed = run("cem.py", "--limit", 1, "--population", 4, "--generations", 1, "--out", out)
    assert len(json.loads(out.read_text())["gains"]) == 10
    cost = sim.rollout(routes[:1], out).costs[0, 0, 2]
    assert f"mean cost {cost:.3f}" in printed
    assert cost <= sim.rollout(routes[:1], "pid").costs[0, 0, 2]


@pytest.mark.parametrize("noise", ["expected", "route"])
def test_mpc(noise):
    sizes = ["--limit", 1, "--candidates", 3, "--horizon", 2, "--replan", 2]
    if noise == "route":
        printed = run("mpc.py", "--noise", noise, *sizes, "--steps", 6)
        assert "stopped at step 106" in printed
    else:
        printed = run("mpc.py", "--noise", noise, *sizes)
        assert "g00000  planned" in printed


def test_ppo(tmp_path, sim):
    pytest.importorskip("torch")
    sizes = [
        "--train",
        2,
        "--valid",
        1,
        "--samples",
        2,
        "--routes-per-epoch",
        2,
        "--minibatch",
        500,
        "--passes",
        1,
    ]
    sizes += [
        "--hidden",
        16,
        "--cloning-epochs",
        1,
        "--critic-epochs",
        1,
        "--validate-every",
        1,
        "--run",
        tmp_path,
    ]
    run("ppo.py", *sizes, "--epochs", 1)
    printed = run("ppo.py", *sizes, "--epochs", 2)
    assert "epoch    1" not in printed  # it went on
    with open(tmp_path / "curve.csv") as f:
        curve = list(csv.DictReader(f))
    assert [row["epoch"] for row in curve] == ["0", "1", "2"]
    valid = sim.load(tmp_path / "routes", limit=1)
    result = sim.rollout(valid, [tmp_path / "actor.onnx", tmp_path / "controller.py"])
    if importlib.util.find_spec("onnxruntime"):  # which the controller needs
        assert result.errors == {}
        assert result.costs[0].tobytes() == result.costs[1].tobytes()
    assert float(curve[-1]["validation_cost"]) == result.costs[0, 0, 2]
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]


def test_ppo_begins_with_a_teacher(tmp_path, sim, short_routes):
    pytest.importorskip("torch")
    ppo = example("ppo")
    gains = np.array([0.2, 0.1, -0.05, 0.3, 0.2, -0.1, 0.1, 0.3, 0.2, 0.01])
    teacher = ppo.Feedforward(gains, len(short_routes))
    mine, engine = (
        sim.rollout(short_routes, c, trajectory=True) for c in (teacher.update, {"pidff": gains})
    )
    assert mine.costs.tobytes() == engine.costs.tobytes()
    assert mine.action.tobytes() == engine.action.tobytes()
    observations, changes = ppo.taught(sim, short_routes, gains, 0.05)
    assert observations.shape == (sum(short_routes.rows) - 100 * len(short_routes), 256)
    assert changes.shape == observations.shape[:1]
    file = tmp_path / "gains.json"
    file.write_text(json.dumps({"policy": "pidff", "gains": gains.tolist()}))
    sizes = [
        "--train",
        2,
        "--valid",
        1,
        "--lessons",
        2,
        "--hidden",
        16,
        "--cloning-epochs",
        1,
        "--epochs",
        0,
    ]
    printed = run("ppo.py", *sizes, "--teacher", file, "--run", tmp_path)
    assert (
        f"{file}: {sim.rollout(sim.load(tmp_path / 'routes', limit=1), file).mean[0, 2]:.3f} on"
        in printed
    )
    assert "epoch    0" in printed


def test_advantages_of_ppo_classic():
    """By hand, of three environments: one goes on, one is terminated, one truncated."""
    critic = types.SimpleNamespace(forward=lambda x: x[:, :1])  # the value is what is observed
    seen = types.SimpleNamespace(
        rewards=np.array([[1.0, 2, 4], [1, 1, 1]]),
        observations=np.array([[8.0, 16, 32], [4, 4, 4]])[..., None],
        final_observations=np.array([[0.0, 64, 128], [0, 0, 0]])[..., None],
        terminated=np.array([[False, True, False], [False] * 3]),
        truncated=np.array([[False, False, True], [False] * 3]),
    )
    before = np.array([[2.0, 2, 2], [8, 16, 32]])[..., None]
    gains, returns = example("ppo_classic").advantages(seen, before, critic, 0.5, 0.25)
    last = [1 + 0.5 * 4 - 8, 1 + 0.5 * 4 - 16, 1 + 0.5 * 4 - 32]
    first = [1 + 0.5 * 8 - 2 + 0.125 * last[0], 2 - 2, 4 + 0.5 * 128 - 2]
    assert gains.tolist() == [first, last]
    assert returns.tolist() == (gains + before[..., 0]).tolist()


def test_ppo_classic(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    file = tmp_path / "policy.npz"
    command = [
        sys.executable,
        EXAMPLES / "ppo_classic.py",
        "--seed",
        "2",
        "--engine",
        "batched",
        "--save",
        file,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("CartPole-v1 solved: ")
    assert float(last.split()[-2]) <= 60  # CPU-seconds
    # The file's network earns in Gymnasium's own environment what it earns in the engine.
    arrays = np.load(file)
    layers = [(arrays[f"weights{i}"], arrays[f"bias{i}"]) for i in range(2)]
    from lockstep import classic

    envs = classic.VectorEnv("CartPole-v1", 4)
    envs.reset(seed=9)
    mine = envs.run(
        500,
        classic.Network(*zip(*layers, strict=True)),
        record=("actions", "rewards", "observations"),
    )
    theirs = gymnasium.make("CartPole-v1")
    for i in range(4):
        x, _ = theirs.reset(seed=9 + i)
        for t in range(500):
            for k, (w, b) in enumerate(layers):
                y = b.copy()
                for column, v in zip(w.T, x, strict=True):
                    y += column * v
                x = np.maximum(y, 0) if k == 0 else y
            assert np.argmax(x) == mine.actions[t, i]
            x, reward, terminated, truncated, _ = theirs.step(mine.actions[t, i])
            assert reward == mine.rewards[t, i]
            assert np.array_equal(x, mine.observations[t, i])
            if terminated or truncated:
                break


def test_networks_of_torch():
    """Parameters are taken as they are, with gradients or without."""
    torch = pytest.importorskip("torch")
    layers = [torch.nn.Linear(256, 8), torch.nn.Linear(8, 2)]
    weights, biases = [x.weight for x in layers], [x.bias for x in layers]
    assert weights[0].requires_grad
    want = lockstep.Network([w.tolist() for w in weights], [b.tolist() for b in biases])
    assert repr(lockstep.Network(weights, biases)) == repr(want)


def test_sequential_of_torch(tmp_path):
    """A torch.nn.Sequential is its parameters and activations, and what it computes: here every
    product and sum is exact, so that their order is no matter."""
    torch, onnxruntime = pytest.importorskip("torch"), pytest.importorskip("onnxruntime")
    nn = torch.nn
    for layers in (
        [nn.Linear(256, 8), nn.Tanh(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 2)],
        [nn.Identity(), nn.Linear(256, 300, bias=False), nn.ReLU(), nn.Linear(300, 2)],
    ):
        linear = [x for x in layers if isinstance(x, nn.Linear)]
        want = lockstep.Network(
            [x.weight for x in linear],
            [np.zeros(x.out_features) if x.bias is None else x.bias for x in linear],
            activation=[type(x).__name__.lower() for x in layers if type(x) in (nn.Tanh, nn.ReLU)],
        )
        assert lockstep.Network(nn.Sequential(*layers)).name == want.name
    model = nn.Sequential(nn.Linear(256, 300), nn.ReLU(), nn.Linear(300, 2))
    rng = np.random.default_rng(5)
    with torch.no_grad():
        for x in model.parameters():
            x.copy_(torch.from_numpy(rng.integers(-8, 9, tuple(x.shape)) / 64))
        lockstep.Network(model).save(tmp_path / "model.onnx")
        seen = (rng.integers(-40, 41, (32, 256)) / 8).astype(np.float32)
        theirs = model(torch.from_numpy(seen)).numpy()
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert np.array_equal(session.run(None, {"obs": seen})[0], theirs)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ("Linear(256, 8), GELU(), Linear(8, 2)", "layer 1 of torch.nn.Sequential is GELU: want"),
        ("Linear(256, 8), Dropout(), Linear(8, 2)", "layer 1 of torch.nn.Sequential is Dropout"),
        ("LSTM(256, 8), Linear(8, 2)", "layer 0 of torch.nn.Sequential is LSTM: want"),
        ("Linear(256, 8), Linear(8, 2)", "layer 1 .* follows another without ReLU or Tanh"),
        ("ReLU(), Linear(256, 2)", "layer 0 of torch.nn.Sequential is ReLU and follows no Linear"),
        ("Linear(256, 2), Tanh()", "want a Linear last, and nothing behind it"),
        ("Linear(256, 8), ReLU(), Tanh(), Linear(8, 2)", "layer 2 .* is Tanh and follows no"),
    ],
)
def test_sequential_that_does_not_fit(layers, message):
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(*eval(f"[{layers}]", vars(torch.nn).copy()))
    with pytest.raises((TypeError, ValueError), match=message):
        lockstep.Network(model)


def test_modules_that_do_not_fit():
    torch = pytest.importorskip("torch")
    linear = torch.nn.Linear(256, 2)
    with pytest.raises(TypeError, match=r"Linear: want a torch\.nn\.Sequential"):
        lockstep.Network(linear)
    model = torch.nn.Sequential(linear)
    with pytest.raises(TypeError, match="has biases and activations of its own"):
        lockstep.Network(model, activation="tanh")
    with pytest.raises(TypeError, match="biases: want one for each"):
        lockstep.Network([np.zeros((2, 256))])
    linear.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match=r"layer 0 .* is Linear and has hooks"):
        lockstep.Network(model)
