"""The package beside what its users have: `make test-ecosystem`, in a fresh environment."""

import importlib
import importlib.util
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
from conftest import example
from gymnasium.vector import SyncVectorEnv

NUMPY1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"


def wanted(name):
    """A module, without which a test is skipped; with LOCKSTEP_ECOSYSTEM=1 it fails."""
    required = os.environ.get("LOCKSTEP_ECOSYSTEM")
    module = importlib.import_module(name) if required else pytest.importorskip(name)
    if "torch" in sys.modules:  # whose threads wait for one another by turning, on a busy machine
        sys.modules["torch"].set_num_threads(1)
    return module


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


def said(value):
    """All that Stable-Baselines3 is told, arrays as types and bits."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: said(x) for key, x in value.items()}
    return [said(x) for x in value] if isinstance(value, (list, tuple)) else (type(value), value)


def answers(envs, steps, seed):
    """What environments of Stable-Baselines3's answer to seeded actions, and to resets after them,
    of which none is seeded again."""
    envs.action_space.seed(seed)
    envs.seed(seed)
    yield said((envs.reset(), envs.reset_infos))
    for _ in range(steps):
        got = envs.step(np.array([envs.action_space.sample() for _ in range(envs.num_envs)]))
        yield said((*got, envs.reset_infos))
    for _ in range(2):
        yield said((envs.reset(), envs.reset_infos))


def made(name):
    return {"engine": "reference", "model": "own"} if name == "Controls-v0" else {"numpy1": NUMPY1}


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Controls-v0"])
def test_stable_baselines_vectors(name):
    """One call for all environments answers what its own vector of single ones does."""
    wanted("stable_baselines3")
    from lockstep.sb3 import VecEnv
    from stable_baselines3.common.vec_env import DummyVecEnv

    options = made(name)
    ours = VecEnv(f"lockstep/{name}", 2, **options)
    theirs = DummyVecEnv([lambda: gymnasium.make(f"lockstep/{name}", **options)] * 2)
    ends = 0
    for a, b in zip(answers(ours, 405, 3), answers(theirs, 405, 3), strict=True):
        assert a == b
        ends += sum("terminal_observation" in info for info in a[3]) if len(a) == 5 else 0
    assert ends >= 2
    assert ours.get_attr("render_mode") == [None, None]
    assert ours.env_is_wrapped(gymnasium.Wrapper, 0) == [False]
    with pytest.raises(NotImplementedError, match="no single environments"):
        ours.env_method("step", 0)
    with pytest.raises(ValueError, match="for all of them"):
        ours.set_attr("answer", 42, 0)
    ours.close()


def test_stable_baselines_asks_for_some():
    """Seeds, options, attributes and ends are those of its own vector, whichever are asked for."""
    wanted("stable_baselines3")
    from lockstep.sb3 import VecEnv
    from stable_baselines3.common.vec_env import DummyVecEnv

    name, options = "lockstep/CartPole-v1", {"numpy1": NUMPY1, "max_episode_steps": 3}
    ours = VecEnv(name, 3, **options)
    theirs = DummyVecEnv([lambda: gymnasium.make(name, **options)] * 3)

    def seen(envs):
        yield envs.seed(0)
        yield envs.reset()
        for bounds in ({"low": -0.01, "high": 0.02}, [{"low": 0.03}] * 3):
            envs.set_options(bounds)
            yield [envs.reset(), envs.reset()]  # of which the second has none
        for _ in range(2):
            yield envs.step(np.array([0, 1, 0]))
        states = np.array(envs.get_attr("state"))
        yield [np.array(envs.get_attr("state", which)) for which in (2, [2, 0], [1], [0, 1, 2])]
        yield [envs.get_attr("x_threshold", which) for which in (None, 1, [2, 0])]
        states[1, 0] = 2.5  # it ends at the step that is the last
        if envs is ours:
            envs.envs.states = states
        else:
            for env, state in zip(envs.envs, states, strict=True):
                env.unwrapped.state = state
        answer = envs.step(np.array([1, 0, 1]))
        assert [info["TimeLimit.truncated"] for info in answer[3]] == [True, False, True]
        yield answer

    for a, b in zip(seen(ours), seen(theirs), strict=True):
        assert said(a) == said(b)
    for unlike in ([{"low": 0.01}, {"low": 0.02}, {"low": 0.01}], [{"low": 0.01}, {}, {}]):
        ours.set_options(unlike)
        with pytest.raises(ValueError, match=r"^options: environments have different ones"):
            ours.reset()
    for n in (2, 4):
        with pytest.raises(ValueError, match="n_envs: the environments are made already"):
            VecEnv(ours.envs, n)
    assert VecEnv(ours.envs, 3).num_envs == VecEnv(ours.envs).num_envs == 3


def test_stable_baselines_vectors_train():
    """PPO learns the same network, with pictures and Stable-Baselines3's own wrappers around."""
    sb3 = wanted("stable_baselines3")
    from lockstep.sb3 import VecEnv
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecMonitor

    learnt = []
    for envs in (
        VecEnv("lockstep/CartPole-v1", 3, numpy1=NUMPY1),
        make_vec_env("CartPole-v1", 3, seed=0),
    ):
        model = sb3.PPO(
            "MlpPolicy",
            VecMonitor(envs),
            n_steps=64,
            batch_size=32,
            n_epochs=1,
            seed=3,
            device="cpu",
        )
        learnt.append([p.detach().numpy().tobytes() for p in model.learn(400).policy.parameters()])
        assert len(model.ep_info_buffer) > 3
    assert learnt[0] == learnt[1]
    seen = VecEnv("lockstep/CartPole-v1", 2, render_mode="rgb_array")
    seen.reset()
    assert seen.render().shape == (800, 600, 3)
    assert seen.get_attr("state", 1)[0].shape == (4,)
    with pytest.raises(ValueError, match='want "SameStep"'):
        VecEnv(gymnasium.make_vec("lockstep/CartPole-v1", num_envs=2))
    with pytest.raises(ValueError, match="want an environment of this package"):
        VecEnv("CartPole-v1", 2)
    with pytest.raises(TypeError, match="envs: TimeLimit, want an id"):
        VecEnv(gymnasium.make("lockstep/CartPole-v1"))


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_torchrl(name):
    """Its wrapper makes of our vectors what it makes of Gymnasium's, in every bit."""
    wanted("torchrl")
    from torchrl.envs import GymEnv

    collect = example("torchrl_rollouts").collect
    single = gymnasium.make_vec(
        f"lockstep/{name}",
        num_envs=4,
        numpy1=NUMPY1,
        autoreset_mode="SameStep",
        vectorization_mode="vector_entry_point",
    )
    theirs = SyncVectorEnv([lambda: gymnasium.make(name)] * 4, autoreset_mode="SameStep")
    a, b = (collect(envs, 250, 5) for envs in (single, theirs))
    assert int(a["next", "done"].sum()) >= 4
    for key in (
        "observation",
        "action",
        ("next", "observation"),
        ("next", "reward"),
        ("next", "done"),
    ):
        assert a[key].numpy().tobytes() == b[key].numpy().tobytes(), key
    assert GymEnv(f"lockstep/{name}").rollout(3).batch_size == (3,)


def test_pufferlib(capsys, monkeypatch):
    """As a native environment, and by its emulation of single ones."""
    pytest.importorskip(
        "pufferlib"
    )  # whose pins are older than Gymnasium's: see make test-ecosystem
    puffer = example("puffer")
    envs = puffer.Environments("lockstep/CartPole-v1", 4, numpy1=NUMPY1)
    plain = gymnasium.make_vec(
        "lockstep/CartPole-v1", num_envs=4, numpy1=NUMPY1, autoreset_mode="SameStep"
    )
    assert np.array_equal(envs.reset(seed=3)[0], plain.reset(seed=3)[0])
    for k in range(100):
        actions = np.arange(k, k + 4) % 2
        for ours, theirs in zip(envs.step(actions)[:4], plain.step(actions), strict=False):
            assert np.array_equal(ours, theirs)
    envs.close()
    monkeypatch.setattr(sys, "argv", ["puffer.py", "--num-envs", "3", "--steps", "40"])
    puffer.main()
    assert "lockstep/CartPole-v1: mean reward 1.0000" in capsys.readouterr().out

    from pufferlib.emulation import GymnasiumPufferEnv

    one = GymnasiumPufferEnv(env_creator=lambda: gymnasium.make("lockstep/CartPole-v1"))
    assert one.reset(seed=1)[0].shape[-1] == 4


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


def test_the_script_runs_controllers_by_its_own_python(tmp_path):
    """Wherever that is, and what Python has set of the environment is known, too."""
    script = shutil.which("lockstep", path=str(Path(sys.executable).parent))
    controller = tmp_path / "mine.py"
    controller.write_text(
        "import sys\nclass Controller:\n"
        "    def update(self, *a, **k):\n        raise ValueError(sys.prefix)\n"
    )
    rollout = ["rollout", "--own", "--num_segs", "1", "--controller", str(controller)]
    environment = {k: v for k, v in os.environ.items() if k != "LOCKSTEP_PYTHON"}
    ran = subprocess.run([script, *rollout], env=environment, capture_output=True, text=True)
    assert f"ValueError: {sys.prefix}" in ran.stderr
    program = (
        "import os, sys; from lockstep.__main__ import main; "
        "os.environ['LOCKSTEP_PYTHON'] = '/nowhere'; sys.exit(main(sys.argv[1:]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *rollout], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "LOCKSTEP_PYTHON" in ran.stderr
    assert "/nowhere" in ran.stderr


def test_who_made_the_wheel():
    about = metadata.metadata("lockstep")
    assert about["Author"] == "The Lockstep authors"
    assert about["License-Expression"] == "MIT"
    assert "LICENSE" in about.get_all("License-File")
    assert any("github.com/commaai" in url for url in about.get_all("Project-URL"))
    assert about["Version"] == lockstep.__version__
