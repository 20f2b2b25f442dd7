"""The package beside what its users have: `make test-ecosystem`, in a fresh environment."""

import importlib
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import gymnasium
import lockstep
import numpy as np
import pytest

NUMPY1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"


def wanted(name):
    """A module, without which a test is skipped; with LOCKSTEP_ECOSYSTEM=1 it fails."""
    return (
        importlib.import_module(name)
        if os.environ.get("LOCKSTEP_ECOSYSTEM")
        else pytest.importorskip(name)
    )


@pytest.fixture(autouse=True)
def _no_window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Controls-v0"])
def test_videos(name, tmp_path):
    for module in ("moviepy", "pygame", "matplotlib"):
        wanted(module)
    options = (
        {"engine": "reference", "model": "own"} if name == "Controls-v0" else {"numpy1": NUMPY1}
    )
    env = gymnasium.make(f"lockstep/{name}", render_mode="rgb_array", **options)
    env = gymnasium.wrappers.RecordVideo(env, str(tmp_path), video_length=4, disable_logger=True)
    env.reset(seed=1)
    for _ in range(4):
        env.step(env.action_space.sample())
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 1000


def test_stable_baselines():
    """What its users type first."""
    sb3 = wanted("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    model = sb3.PPO(
        "MlpPolicy", "lockstep/CartPole-v1", n_steps=64, batch_size=32, n_epochs=1, seed=1
    )
    model.learn(128)
    envs = make_vec_env("lockstep/CartPole-v1", n_envs=2, seed=1)
    assert envs.reset().shape == (2, 4)
    mean, _ = evaluate_policy(model, envs, n_eval_episodes=2)
    assert mean >= 1
    pictures = envs.get_images()
    assert [p.shape for p in pictures] == [(400, 600, 3)] * 2
    envs.close()
    cars = make_vec_env(
        "lockstep/Controls-v0", n_envs=2, env_kwargs={"engine": "reference", "model": "own"}
    )
    model = sb3.PPO("MlpPolicy", cars, n_steps=4, batch_size=4, n_epochs=1).learn(8)
    assert cars.action_space.contains(model.predict(cars.reset())[0][0])
    cars.close()


def test_stable_baselines_trains_as_on_gymnasium():
    """Equal environments and seeds give equal networks, in every bit."""
    sb3 = wanted("stable_baselines3")
    learnt = []
    for name in ("CartPole-v1", "lockstep/CartPole-v1"):
        model = sb3.PPO(
            "MlpPolicy", name, n_steps=64, batch_size=32, n_epochs=1, seed=3, device="cpu"
        ).learn(192)
        learnt.append([p.detach().numpy().tobytes() for p in model.policy.parameters()])
    assert learnt[0] == learnt[1]


def test_bars(sim, short_routes):
    tqdm = wanted("tqdm").tqdm
    quiet = open(os.devnull, "w")  # noqa: SIM115
    with quiet, tqdm(file=quiet) as bar:
        sim.rollout(short_routes, ["pid", "zero"], progress=bar)
        assert (bar.n, bar.total) == (10, 10)
    for progress in (tqdm, True):
        sim.rollout(short_routes, "pid", progress=progress)


def test_tables(sim, short_routes):
    wanted("pandas")
    result = sim.rollout(short_routes, ["pid", "zero"])
    costs = {
        name: rows["total_cost"]
        for name, rows in result.to_pandas().groupby("controller", sort=False)
    }
    assert list(costs) == ["pid", "zero"]
    assert np.array_equal(np.array(list(costs.values())), result.costs[:, :, 2])


def test_the_script_is_installed(tmp_path):
    """Beside the interpreter, and in no need of the repository."""
    script = shutil.which("lockstep", path=str(Path(sys.executable).parent))
    assert script
    for program in ([script], [sys.executable, "-m", "lockstep"]):
        ran = subprocess.run(
            [*program, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        for name in ("fetch", "generate", "tune", "plan", "verify", "rollout"):
            assert f"\n  {name} " in ran.stdout
    ran = subprocess.run([script, "envs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Acrobot-v1" in ran.stdout


def test_who_made_the_wheel():
    about = metadata.metadata("lockstep")
    assert about["Author"] == "The Lockstep authors"
    assert about["License-Expression"] == "MIT"
    assert "LICENSE" in about.get_all("License-File")
    assert any("github.com/commaai" in url for url in about.get_all("Project-URL"))
    assert about["Version"] == lockstep.__version__
