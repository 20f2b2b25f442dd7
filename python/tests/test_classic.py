"""Classic control: every bit of Gymnasium's own environments, on seeds and options of the day."""

import copy
import functools
import inspect
import json
import os
import secrets
import threading

import gymnasium
import lockstep
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from lockstep import __main__ as command
from lockstep import classic
from test_envs import equal

NAMES = ["CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"]
OPTIONS = {
    "CartPole-v1": {"sutton_barto_reward": True},
    "MountainCar-v0": {"goal_velocity": 0.03},
    "MountainCarContinuous-v0": {"goal_velocity": 0.05},
    "Pendulum-v1": {"g": 9.81},
    "Acrobot-v1": {},
}
ATTRIBUTES = {
    "CartPole-v1": {"kinematics_integrator": "semi-implicit"},
    "Acrobot-v1": {"book_or_nips": "nips"},
}
RESETS = [None, {"low": -0.3, "high": 0.25}, {"low": -0.58}, {"high": 0.02}]

# Gymnasium before 1.0 has another CartPole, and NumPy before 2 other rules.
NUMPY1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"


def bounds(name):
    """A reset's options: none, both, and one of the two."""
    both = {"x_init": 2.5, "y_init": 3.0}
    return [None, both, {"x_init": 0.5}, {"y_init": 0.25}] if name == "Pendulum-v1" else RESETS


@pytest.fixture
def seed():
    seed = secrets.randbits(40)
    print("seed", seed)
    return seed


def same_step(a, b):
    """Whether two steps are the same, rewards as numbers: Gymnasium's are of several types."""
    return (
        equal(a[0], b[0])
        and float(a[1]) == float(b[1])
        and tuple(map(bool, a[2:4])) == tuple(map(bool, b[2:4]))
    )


@pytest.mark.parametrize("options", [False, True], ids=["plain", "options"])
@pytest.mark.parametrize("name", NAMES)
def test_single(name, options, seed):
    given, attributes = (OPTIONS[name], ATTRIBUTES.get(name, {})) if options else ({}, {})
    ours = gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1, **given, **attributes)
    theirs = gymnasium.make(name, **given)
    for attribute, value in attributes.items():
        assert getattr(theirs.unwrapped, attribute) != value
        setattr(theirs.unwrapped, attribute, value)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.spec.max_episode_steps == theirs.spec.max_episode_steps
    theirs.action_space.seed(seed)
    for episode in range(4):
        how = {"seed": seed if episode == 0 else None, "options": bounds(name)[episode]}
        assert equal(ours.reset(**how)[0], theirs.reset(**how)[0])
        ended = False
        while not ended:
            action = theirs.action_space.sample()
            mine = ours.step(action)
            yours = theirs.step(action)
            assert same_step(mine, yours)
            assert [type(x) for x in mine[1:4]] == [float, bool, bool]
            ended = yours[2] or yours[3]
    assert ours.unwrapped.state.dtype == np.float64


def test_options():
    with pytest.raises(ValueError, match="euler or semi-implicit"):
        gymnasium.make("lockstep/CartPole-v1", kinematics_integrator="implicit")


@pytest.mark.parametrize("name", NAMES)
def test_gymnasium_checks(name):
    check_env(gymnasium.make(f"lockstep/{name}").unwrapped, skip_render_check=True)


def drive(envs, seed, steps, options):
    """Everything that a vector returns."""
    envs.action_space.seed(seed)
    yield envs.reset(seed=seed, options=options)
    ended = np.zeros(envs.num_envs, dtype=bool)
    for _ in range(steps):
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            yield envs.reset(options={"reset_mask": ended} | (options or {}))
        got = envs.step(envs.action_space.sample())
        ended = got[2] | got[3]
        yield got


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("n", [1, 3, 70])
@pytest.mark.parametrize("name", NAMES)
def test_vector_is_gymnasiums(name, n, mode, seed):
    ours = gymnasium.make_vec(
        f"lockstep/{name}",
        num_envs=n,
        autoreset_mode=mode,
        max_episode_steps=40,
        numpy1=NUMPY1,
        **OPTIONS[name],
    )
    theirs = SyncVectorEnv(
        [lambda: gymnasium.make(name, max_episode_steps=40, **OPTIONS[name])] * n,
        autoreset_mode=mode,
    )
    assert isinstance(ours.unwrapped, classic.VectorEnv)
    for space in (
        "single_observation_space",
        "observation_space",
        "single_action_space",
        "action_space",
    ):
        assert getattr(ours, space) == getattr(theirs, space)
    options, ends = bounds(name)[n % 2], 0
    for a, b in zip(drive(ours, seed, 90, options), drive(theirs, seed, 90, options), strict=True):
        assert len(a) == len(b)
        assert all(equal(x, y) for x, y in zip(a, b, strict=True))
        ends += a[2].sum() + a[3].sum() if len(a) == 5 else 0
    assert ends >= n


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_what_was_returned_stays(name, n, mode, seed):
    """Later calls change nothing of it."""

    def made():
        return drive(classic.VectorEnv(name, n, mode, max_episode_steps=20), seed, 45, None)

    for kept, seen in zip(list(made()), [copy.deepcopy(got) for got in made()], strict=True):
        assert all(equal(x, y) for x, y in zip(kept, seen, strict=True))


def test_vector_class_is_gymnasiums(seed):
    ours = gymnasium.make_vec("lockstep/CartPoleVectorEnv-v1", num_envs=37)
    theirs = gymnasium.make_vec("CartPole-v1", num_envs=37, vectorization_mode="vector_entry_point")
    for options in (None, {"low": -0.1, "high": 0.2}):
        for a, b in zip(
            drive(ours, seed, 200, options), drive(theirs, seed, 200, options), strict=True
        ):
            assert all(equal(x, y) for x, y in zip(a, b, strict=True))


def test_engines_and_workers_are_equal(seed):
    made = [
        gymnasium.make_vec("lockstep/Acrobot-v1", num_envs=2000, engine=engine, workers=workers)
        for engine, workers in [("reference", 1), ("batched", 1), ("batched", 2)]
    ]
    for first, *others in zip(*(drive(envs, seed, 6, None) for envs in made), strict=True):
        for other in others:
            assert all(equal(x, y) for x, y in zip(first, other, strict=True))


def test_copies():
    for own in (True, False):
        envs = classic.VectorEnv("CartPole-v1", 2, copy=own)
        first, _ = envs.reset(seed=1)
        kept = first.copy()
        second = envs.step(np.array([0, 1]))[0]
        assert equal(first, kept) == own
        for again in (second, envs.restore(envs.snapshot()), envs.reset()[0]):
            assert (again is first) == (not own)


def test_bad_input():
    envs = classic.VectorEnv("CartPole-v1", 3, autoreset_mode="Disabled", max_episode_steps=2)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(3, int))
    envs.reset(seed=1)
    before = envs.states.copy()
    drawn = classic.VectorEnv("CartPole-v1", 3, render_mode="rgb_array")
    drawn.reset(seed=1)  # which takes its steps another way
    for actions, kind, message in [
        (np.zeros(2, int), ValueError, r"shape \(2,\)"),
        (np.zeros((3, 1), int), ValueError, r"shape \(3, 1\)"),
        (np.zeros(3), TypeError, "float64, want integers"),
        (np.array([0, 2, 1]), ValueError, "environment 1: action 2 is not one of 0 to 1"),
        (np.array([0, 1, -(2**40)]), ValueError, "environment 2: action -1"),
        (np.array([0, 2**64 - 1, 0], np.uint64), ValueError, "environment 1"),
        (np.array([0, 0, 2**32 + 1]), ValueError, r"environment 2: action \d"),
        (np.array([2**31, 0, 0], np.uint32), ValueError, r"environment 0: action \d"),
    ]:
        for each in (envs, drawn):
            with pytest.raises(kind, match=message):
                each.step(actions)
        with pytest.raises(kind, match="want" if actions.shape != (3,) else message):
            envs.run(1, actions[None], record=())
    assert equal(envs.states, before)
    assert equal(drawn.states, before)
    envs.step(np.array([0, 1, 1], np.uint8))
    envs.step(np.array([0, 1, 1]))
    with pytest.raises(ValueError, match="environment 0 has ended: reset it"):
        envs.step(np.array([0, 1, 1]))
    for how, kind, message in [
        ({"seed": -1}, ValueError, "environment 0: seed -1 is negative"),
        ({"seed": [1, 2]}, ValueError, "2 of them, want 3"),
        ({"seed": [1, None, 2]}, ValueError, "environment 1 has none"),
        ({"seed": [1, 2, -5]}, ValueError, "environment 2: seed -5"),
        ({"options": {"reset_mask": [True, True, True]}}, TypeError, "numpy array of bool"),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, ValueError, "no environment"),
        ({"options": {"reset_mask": np.ones(2, bool)}}, ValueError, "mask of 2"),
        ({"options": {"low": 3, "high": 2}}, ValueError, "must be ordered"),
        ({"options": {"low": np.nan}}, ValueError, "not finite"),
        ({"seed": 2**70}, ValueError, "seed: number 1180591620717411303424"),
    ]:
        with pytest.raises(kind, match=message):
            envs.reset(**how)
    torque = classic.VectorEnv("Pendulum-v1", 2)
    torque.reset(seed=0)
    for kind in (np.float16, np.longdouble, ">f8", ">f4", np.int64, np.bool_, complex, object):
        states, name = np.zeros((2, 2), kind), np.dtype(kind)
        with pytest.raises(ValueError, match=rf"^state: {name} of .*, want float64"):
            torque.states = states
    with pytest.raises(ValueError, match=r"^state: float64 of shape \(2, 3\), want .* \(2, 2\)$"):
        torque.states = np.zeros((2, 3))
    with pytest.raises(ValueError, match="environment 1: the action is NaN"):
        torque.step(np.array([[0], [np.nan]], np.float32))
    with pytest.raises(TypeError, match="want float32"):
        torque.step(np.zeros((2, 1)))
    for wrong, message in [
        ({"name": "Pendulum-v1", "g": "heavy"}, "finite number"),
        ({"name": "CartPole-v1", "num_envs": 0}, "at least 1"),
        ({"name": "CartPole-v1", "num_envs": 10**12}, "at most 16777216"),
        ({"name": "CartPole-v1", "workers": 0}, "workers=0"),
        ({"name": "CartPole-v1", "render_mode": "human"}, "render_mode"),
        ({"name": "CartPole-v2"}, "is unknown"),
        ({"name": "CartPole-v1", "engine": "warp"}, "no engine"),
    ]:
        with pytest.raises(ValueError, match=message):
            classic.VectorEnv(**wrong)
    with pytest.raises(
        TypeError, match="unexpected keyword argument 'g': CartPole-v1 has no option"
    ):
        classic.VectorEnv("CartPole-v1", g=3)
    envs.close()
    with pytest.raises(lockstep.ClosedError):
        envs.step(np.zeros(3, int))


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_what_is_refused_changes_nothing(name):
    """Neither the state nor what is drawn next, nor what Gymnasium's generator is seeded with."""

    def seen(env):
        generator = [env.np_random_seed, str(env.np_random.bit_generator.state)]
        return [getattr(env, "state", None), getattr(env, "states", None), *generator]

    for make in (classic.Env, functools.partial(classic.VectorEnv, num_envs=3)):
        env, other = make(name), make(name)
        for each in (env, other):
            each.reset(seed=5)
            each.np_random  # noqa: B018 a vector's is made when it is asked for
        before = seen(env)
        for how in (
            *({"seed": -1}, {"seed": 1.5}, {"seed": 2**70}, {"seed": [7, 8, -1]}),
            *({"seed": 3, "options": {"none": 1}}, {"options": {"none": 1}}),
            *({"seed": 3, "options": {key: -9}} for key in ("x_init", "high")),
        ):
            with pytest.raises((ValueError, TypeError, gymnasium.error.Error)):
                env.reset(**how)
            assert all(equal(a, b) for a, b in zip(seen(env), before, strict=True)), how
        assert equal(env.reset()[0], other.reset()[0])


def test_nothing_is_left(handles):
    before = handles()
    for _ in range(20):
        envs = classic.VectorEnv("MountainCar-v0", 4)
        envs.reset(seed=1)
        envs.close()
        gymnasium.make("lockstep/Pendulum-v1").close()
    assert handles() == before


@pytest.mark.parametrize("name", NAMES)
def test_attributes(name):
    """What Gymnasium's environment computes with is read here, too; setting it is refused."""
    theirs, ours = (
        gymnasium.make(name).unwrapped,
        gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1).unwrapped,
    )
    vector = gymnasium.make_vec(f"lockstep/{name}", num_envs=2, numpy1=NUMPY1).unwrapped
    names = {n for n in [*vars(theirs), *vars(type(theirs))] if not n.startswith("_")}
    constants = {
        n for n in names if isinstance(getattr(theirs, n), (int, float, str, list, np.ndarray))
    }
    assert len(constants) >= 8
    for constant in constants:
        assert np.array_equal(getattr(ours, constant), getattr(theirs, constant)), constant
        for made in (ours, vector):
            with pytest.raises(AttributeError, match=f"{constant}: it cannot be changed"):
                setattr(made, constant, getattr(theirs, constant))
        if isinstance(getattr(theirs, constant), (list, np.ndarray)):
            with pytest.raises((TypeError, ValueError), match="assignment"):
                getattr(ours, constant)[0] = 2
    with pytest.raises(AttributeError, match="cannot be changed"):  # as a wrapper's users would
        gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1).set_wrapper_attr(constant, 1.0)
    with pytest.raises(AttributeError, match="cannot be set"):
        ours.np_random = np.random.default_rng(1)
    ours.note = "a wrapper's"
    assert ours.note == "a wrapper's"
    for key, value in (OPTIONS[name] | ATTRIBUTES.get(name, {})).items():
        given = gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1, **{key: value}).unwrapped
        assert key == "sutton_barto_reward" or getattr(given, key) == value
    with pytest.raises(AttributeError, match="gravitation"):
        ours.gravitation  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_states_that_are_set(name, seed):
    """From there on the same as Gymnasium's environment that was put there."""
    theirs, ours = gymnasium.make(name), gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1)
    envs = gymnasium.make_vec(f"lockstep/{name}", num_envs=3, numpy1=NUMPY1)
    with pytest.raises(ResetNeeded):
        ours.unwrapped.state = np.zeros(4 if name in ("CartPole-v1", "Acrobot-v1") else 2)
    for env in (theirs, ours, envs):
        env.reset(seed=seed)
    random, state = np.random.default_rng(seed), np.asarray(theirs.unwrapped.state)
    theirs.action_space.seed(seed)
    for _ in range(20):
        state = (state + random.uniform(-0.01, 0.01, state.shape)).astype(
            np.asarray(theirs.unwrapped.state).dtype
        )
        theirs.unwrapped.state, ours.unwrapped.state = state.copy(), state
        envs.unwrapped.states = np.tile(state, (3, 1))
        action = theirs.action_space.sample()
        want = theirs.step(action)
        assert same_step(ours.step(action), want)
        assert equal(envs.step(np.array([action] * 3))[0][1], want[0])
        state = ours.unwrapped.state
        assert equal(state, np.array(theirs.unwrapped.state, dtype=np.float64))
        if want[2]:
            break
    far = [] if name == "CartPole-v1" else [np.full(len(state), 1e300)]  # which no episode reaches
    if name != "Acrobot-v1":  # where NumPy computes alike with both types
        other = np.float64 if np.asarray(theirs.unwrapped.state).dtype == np.float32 else np.float32
        far.append(state.astype(other))
    for wrong in (np.zeros(7), 1.0, *far):
        with pytest.raises(ValueError, match="state"):
            ours.unwrapped.state = wrong
    assert equal(ours.unwrapped.state, state)
    if name == "MountainCarContinuous-v0":  # each environment has its type, not the first alone
        envs = classic.VectorEnv(name, 2, "Disabled", numpy1=NUMPY1)
        envs.reset(seed=seed)
        envs.step(np.zeros(2, np.float32))
        for i in range(2):
            envs.reset(options={"reset_mask": np.arange(2) == i})
            for dtype, first, kind in [(np.float32, i, "float64"), (np.float64, 1 - i, "float32")]:
                with pytest.raises(
                    ValueError, match=f"state: environment {first} computes with {kind}"
                ):
                    envs.states = np.zeros((2, 2), dtype)
            envs.reset(seed=seed)
            envs.step(np.zeros(2, np.float32))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_registered(name):
    """Gymnasium's specification and metadata, which callbacks and recorders ask."""
    ours, theirs = (gymnasium.make(prefix + name) for prefix in ("lockstep/", ""))
    assert ours.metadata == theirs.metadata
    for field in ("reward_threshold", "max_episode_steps", "nondeterministic", "order_enforce"):
        assert getattr(ours.spec, field) == getattr(theirs.spec, field), field
    if name == "CartPole-v1":  # which Gymnasium has as a vector of its own, too
        shared = gymnasium.spec("lockstep/CartPoleVectorEnv-v1")
        assert shared.reward_threshold == theirs.spec.reward_threshold
        assert shared.max_episode_steps == theirs.spec.max_episode_steps
    envs = gymnasium.make_vec(f"lockstep/{name}", num_envs=2)
    single = SyncVectorEnv([lambda: gymnasium.make(name)] * 2)
    assert envs.metadata == single.metadata | {"render_modes": ["rgb_array"]}
    with pytest.raises(TypeError, match="environments are memory of this process"):
        copy.deepcopy(envs.unwrapped._core.handle)


@pytest.mark.parametrize("name", NAMES)
def test_pictures(name, seed, monkeypatch):
    """Gymnasium's own, of our states; a window shows them from the reset on."""
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    theirs = gymnasium.make(name, render_mode="rgb_array")
    ours = gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1, render_mode="rgb_array")
    envs = gymnasium.make_vec(
        f"lockstep/{name}", num_envs=2, numpy1=NUMPY1, render_mode="rgb_array"
    )
    assert ours.metadata["render_fps"] == theirs.metadata["render_fps"]
    for env in (theirs, ours, envs):
        env.reset(seed=seed)
    assert equal(ours.render(), theirs.render())
    theirs.action_space.seed(seed)
    for _ in range(3):
        action = theirs.action_space.sample()
        for env in (theirs, ours):
            env.step(action)
        envs.step(np.array([action] * 2))
        assert equal(ours.render(), theirs.render())
        assert equal(envs.render()[0], theirs.render())
    for env in (theirs, ours, envs):
        env.close()
    window, drawn = (
        gymnasium.make(f"lockstep/{name}", numpy1=NUMPY1, render_mode=mode)
        for mode in ("human", "rgb_array")
    )
    for drive in (lambda env: env.reset(seed=seed), lambda env: env.step(action)):
        for env in (window, drawn):
            drive(env)
        screen = pygame.surfarray.array3d(pygame.display.get_surface())
        assert equal(screen.swapaxes(0, 1).copy(), drawn.render())
    window.close()
    assert pygame.display.get_surface() is None
    with pytest.raises(ValueError, match="human"):
        gymnasium.make_vec(f"lockstep/{name}", num_envs=2, numpy1=NUMPY1, render_mode="human")


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_pictures_of_neighbours(mode):
    """Each environment's own, with the torque that it was given last, if it was given one.

    What steps and resets answer is what it is where nothing is drawn.
    """
    pytest.importorskip("pygame")
    how = {"render_mode": "rgb_array"}
    ours = classic.VectorEnv("Pendulum-v1", 3, mode, 4, numpy1=NUMPY1, **how)
    theirs = SyncVectorEnv(
        [lambda: gymnasium.make("Pendulum-v1", max_episode_steps=4, **how)] * 3,
        autoreset_mode=mode,
    )

    def same(what):
        for i, (got, want) in enumerate(zip(ours.render(), theirs.render(), strict=True)):
            assert equal(got, want), f"environment {i}: {what}"

    kept = []

    def call(name, **how):
        """What both answer, which is the same, and stays."""
        got, want = (getattr(envs, name)(**how) for envs in (ours, theirs))
        kept.append((got, copy.deepcopy(got)))
        for a, b in ((got, want), *kept):
            assert all(equal(x, y) for x, y in zip(a, b, strict=True)), name

    call("reset", seed=5)
    same("reset")
    for k in range(7):
        if mode is AutoresetMode.DISABLED and k in (2, 4):
            mask = np.array([True, False, True]) if k == 2 else np.ones(3, bool)
            call("reset", options={"reset_mask": mask})
            same(f"reset of some before step {k}")
        call("step", actions=np.array([[-1.0], [0.5], [9.0]], np.float32) * (2 - k % 3))
        same(f"step {k}")
    ours.restore(ours.snapshot())
    for env in theirs.envs:  # a state that was not stepped to
        env.unwrapped.last_u = None
    same("restored")
    # Whether a step resets is what it is wherever the episode was begun.
    other = classic.VectorEnv("Pendulum-v1", 3, mode, 4, numpy1=NUMPY1, **how)
    actions = np.full((3, 1), 2, np.float32)
    for k in range(0 if mode is AutoresetMode.DISABLED else 6):  # else it ends, and goes no further
        other.restore(ours.snapshot())
        for envs in (ours, other, theirs):
            envs.step(actions)
        same(f"step {k} behind a snapshot")
        for got, want in zip(other.render(), theirs.render(), strict=True):
            assert equal(got, want), f"step {k} of another that goes on"
        ours.run(1, actions.T, record=())
        theirs.step(actions)
        for env in theirs.envs:
            env.unwrapped.last_u = None
        same(f"a run behind step {k}: its action is not drawn")
    for envs in (ours, theirs, other):
        envs.close()


def test_gumbel():
    """The distribution's quantiles in the middle of equal parts of it."""
    found = classic.Network.gumbel(2)
    assert found.dtype == np.float32
    want = [-np.log(-np.log(p)) for p in (1 / 8, 3 / 8, 5 / 8, 7 / 8)]
    assert found.tolist() == pytest.approx(want, rel=1e-6)
    assert len(classic.Network.gumbel()) == 1 << 16
    # With it actions follow the softmax of the outputs.
    network = classic.Network([np.zeros((2, 4))], [np.log([3.0, 1.0])], classic.Network.gumbel(), 5)
    envs = classic.VectorEnv("CartPole-v1", 500)
    envs.reset(seed=1)
    chosen = envs.run(20, network, record=["actions"]).actions
    assert abs((chosen == 0).mean() - 0.75) < 0.02


@pytest.mark.parametrize("seed", [None, 0, 2**63 + 9])
def test_a_network_that_is_saved(seed, tmp_path, capfd):
    """The command that reads it has the episodes that it has here."""
    rng = np.random.default_rng(4)
    network = classic.Network(
        [rng.normal(0, 1, (6, 3)), rng.normal(0, 1, (1, 6))],
        [rng.normal(0, 1, 6), rng.normal(0, 1, 1)],
        None if seed is None else classic.Network.gumbel(3),
        seed,
    )
    network.save(tmp_path / "policy.npz")
    network.save(tmp_path / "v1.2")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["policy.npz", "v1.2.npz"]
    envs = classic.VectorEnv("Pendulum-v1", 7, numpy1=NUMPY1)
    envs.reset(seed=3)
    envs.run(60, network, record=())
    assert command.main([
        "rollout", "--env", "Pendulum-v1", "--num-envs", "7", "--env-seed", "3", "--steps", "60",
        *(["--numpy1"] if NUMPY1 else []), "--policy", str(tmp_path / "policy.npz"), "--json",
    ]) == 0  # fmt: skip
    told, totals = json.loads(capfd.readouterr().out), envs.totals()
    assert told["rewards"] == totals["rewards"].tolist()
    assert (told["steps"], told["episodes"]) == (totals["steps"], totals["episodes"].sum())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_processes_forked_after_use():
    """Gymnasium's vector of processes, forked from one that has used the library."""
    one = gymnasium.make("lockstep/CartPole-v1", numpy1=NUMPY1)
    want = one.reset(seed=3)[0]
    make = [functools.partial(gymnasium.make, "lockstep/CartPole-v1", numpy1=NUMPY1)] * 2
    envs = gymnasium.vector.AsyncVectorEnv(make, context="fork")
    try:
        assert equal(envs.reset(seed=[3, 4])[0][0], want)
        assert equal(envs.step(np.array([1, 0]))[0][0], one.step(1)[0])
    finally:
        envs.close()


def test_two_threads():
    """The second that steps the same environments is refused, at once."""
    envs = gymnasium.make_vec("lockstep/CartPole-v1", num_envs=200_000, numpy1=NUMPY1, workers=1)
    envs.reset(seed=1)
    actions, refused, begin = np.zeros(200_000, dtype=np.int64), [], threading.Barrier(2)

    def work():
        begin.wait()
        for _ in range(200):
            try:
                envs.step(actions)
            except RuntimeError as e:
                refused.append(str(e))
                return

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert "thread" in refused[0]


def recorded(envs, steps, actions):
    """What a loop over step returns, as a run records it, with given actions."""
    rows = []
    for t in range(steps):
        observations, rewards, terminated, truncated, infos = envs.step(actions[t])
        rows.append((observations, rewards, terminated, truncated, envs.states.copy(), infos))
    return rows


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("name", NAMES)
def test_run_is_steps(name, mode, seed):
    def make():
        return classic.VectorEnv(name, 5, autoreset_mode=mode, max_episode_steps=17, numpy1=NUMPY1)

    with_finals = ("final_observations",) if mode == "SameStep" else ()
    everything = (
        "states",
        "rewards",
        "observations",
        "actions",
        "terminated",
        "truncated",
        *with_finals,
    )
    ours, theirs = make(), make()
    assert equal(ours.reset(seed=seed)[0], theirs.reset(seed=seed)[0])
    inputs, outputs = (
        ours.single_observation_space.shape[0],
        getattr(ours.single_action_space, "n", 1),
    )
    rng = np.random.default_rng(seed)
    network = classic.Network(
        [rng.normal(0, 0.2, (8, inputs)), rng.normal(0, 0.2, (outputs, 8))],
        [np.zeros(8), np.zeros(outputs)],
        classic.Network.gumbel(8),
        seed,
    )
    chosen = []
    for policy in ("random", network, "table"):
        table = chosen[0] if policy == "table" else policy
        how = {"seed": seed} if policy == "random" else {}
        run = ours.run(20, table, **how, record=everything)
        for t, (obs, rewards, terminated, truncated, states, infos) in enumerate(
            recorded(theirs, 20, run.actions)
        ):
            assert equal(run.observations[t], obs)
            assert equal(run.states[t], states)
            assert equal(run.rewards[t], rewards)
            assert equal(run.terminated[t], terminated)
            assert equal(run.truncated[t], truncated)
            for i in np.flatnonzero(infos.get("_final_obs", [])):
                assert equal(run.final_observations[t][i], infos["final_obs"][i])
        chosen.append(run.actions)
    assert equal(chosen[2], chosen[0])
    assert len({row.tobytes() for row in chosen[1]}) > 3
    totals = ours.totals()
    assert totals["steps"] == 300
    assert totals["episodes"].sum() >= 15
    assert equal(ours.states, theirs.states)
    assert equal(ours.run(3, "random", seed, record=("rewards",)).rewards[0].shape, (5,))


def test_a_row_is_a_step_of_all():
    """Also where there are as many steps as environments."""
    envs = classic.VectorEnv("Acrobot-v1", 3)
    envs.reset(seed=1)
    for table in (np.array([0, 1, 2]), np.repeat([[0], [1], [2]], 3, axis=1)):
        chosen = envs.run(3, table, record=["actions"]).actions
        assert chosen.tolist() == [[0] * 3, [1] * 3, [2] * 3]


def test_run_refuses():
    envs = classic.VectorEnv("CartPole-v1", 3)
    with pytest.raises(ResetNeeded):
        envs.run(3)
    envs.reset(seed=1)
    for policy, why in [
        ("best", "want 'random', a table of actions, or a Network"),
        (np.zeros((4, 3), int), r"a table of shape \(4, 3\), want \(3,\) or \(3, 3\)"),
        (np.full((3, 3), 2), "action 2 is not one of 0 to 1"),
        (classic.Network([np.zeros((3, 4))], [np.zeros(3)]), "3 outputs, want 2"),
        (classic.Network([np.zeros((2, 4))], [np.zeros(2)], np.zeros(3)), "3 numbers of noise"),
        (classic.Network([np.zeros((2, 4))], [np.zeros(3)]), "^layer 0: weights .* do not fit"),
        *(
            (classic.Network([np.zeros(of) for of in shapes], [np.zeros(n) for n in biases]), why)
            for shapes, biases, why in [
                ([(5, 4), (2, 3)], (5, 2), r"^layer 1: weights \(2, 3\) and bias \(2,\) do"),
                ([(5, 4), (2, 5), (2, 2)], (5, 2, 1), r"^layer 2: weights \(2, 2\) and bias \(1"),
            ]
        ),
    ]:
        with pytest.raises(ValueError, match=why):
            envs.run(3, policy)
    torques = classic.VectorEnv("Pendulum-v1", 4)
    torques.reset(seed=1)
    for shape in [(), (1,), (4,), (1, 4), (3, 1), (4, 3), (3, 4, 2), (3, 1, 1), (4, 3, 1)]:
        with pytest.raises(ValueError, match=r"a table of shape .*, want \(3,\) or \(3, 4\)"):
            torques.run(3, np.zeros(shape, np.float32))
    with pytest.raises(TypeError, match="want integers"):
        envs.run(3, np.zeros((3, 3)))
    with pytest.raises(ValueError, match="'looks' is none of states, "):
        envs.run(3, record=["looks"])
    with pytest.raises(ValueError, match="SameStep"):
        envs.run(3, record=["final_observations"])
    with pytest.raises(ValueError, match="steps: 0"):
        envs.run(0)
    assert envs.totals()["steps"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_snapshots(name, seed):
    envs = classic.VectorEnv(name, 4, max_episode_steps=15)
    envs.reset(seed=seed)
    envs.run(11, seed=seed)
    snapshot = envs.snapshot()
    assert (snapshot.num_envs, snapshot.steps) == (4, 11)
    first = envs.run(12, seed=seed)
    ends = envs.totals()
    other = classic.VectorEnv(name, 4, max_episode_steps=15)  # never reset
    for into, at in [(envs, snapshot), (other, classic.Snapshot.from_bytes(snapshot.to_bytes()))]:
        into.restore(at)
        again = into.run(12, seed=seed)
        for field in ("observations", "actions", "rewards", "terminated", "truncated"):
            assert equal(getattr(again, field), getattr(first, field))
        assert all(equal(into.totals()[k], ends[k]) for k in ("rewards", "episodes"))
    index = [3, 0, 3]
    forked = envs.fork(index, snapshot)
    for t in range(12):
        assert equal(forked.step(first.actions[t][index])[0], first.observations[t][index])
    assert equal(envs.snapshot().to_bytes(), other.snapshot().to_bytes())
    with pytest.raises(ValueError, match="environment 4 is not in the snapshot"):
        envs.fork([4])
    with pytest.raises(ValueError, match="is not one of 3 environments"):
        forked.restore(snapshot)
    never = classic.VectorEnv(name, 3, max_episode_steps=15)
    with pytest.raises(ValueError, match="is not one of 3 environments"):
        never.restore(snapshot)
    with pytest.raises(ResetNeeded):  # still
        never.run(1)
    with pytest.raises(ValueError, match="zip"):
        classic.Snapshot.from_bytes(snapshot.to_bytes()[:-30])
    single = gymnasium.make(f"lockstep/{name}").unwrapped
    first, _ = single.reset(seed=seed)
    at, was = single.snapshot(), first.copy()
    step = single.step(single.action_space.sample())
    stepped = step[0].copy()
    back = single.restore(at)
    assert single.snapshot().to_bytes() == at.to_bytes()
    single.step(single.action_space.sample())  # writes to nothing that was handed out
    assert equal(first, was)
    assert equal(step[0], stepped)
    assert equal(back, was)


def test_forks_are_made_with_every_option():
    envs = classic.VectorEnv("CartPole-v1", 2)
    _, _, arguments = envs._made
    wanted = {
        name
        for name, parameter in inspect.signature(classic.VectorEnv.__init__).parameters.items()
        if parameter.kind is not parameter.VAR_KEYWORD
    }
    # The episodes' length stands among the options where it is given.
    assert set(arguments) == wanted - {"self", "name", "num_envs", "max_episode_steps"}

    class Mine(classic.VectorEnv):
        pass

    envs = Mine("Pendulum-v1", 2, max_episode_steps=3, copy=False, autoreset_mode="SameStep", g=5)
    envs.reset(seed=1)
    for forked in (envs.fork([1, 0, 1]), envs.fork([1]).fork([0, 0])):
        assert (type(forked), forked._made) == (Mine, envs._made)
        assert forked.restore(forked.snapshot()) is forked._observations


def test_shared_generator_is_not_forked():
    envs = classic.VectorEnv("CartPoleVectorEnv", 3)
    envs.reset(seed=1)
    with pytest.raises(ValueError, match="share a generator"):
        envs.fork([0])


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_actions_of_all_types(dtype):
    envs, others = (classic.VectorEnv("Acrobot-v1", 70) for _ in range(2))
    assert equal(envs.reset(seed=1)[0], others.reset(seed=1)[0])
    for t in range(5):
        actions = np.arange(70) * (t + 1) % 3
        strided = np.repeat(actions, 2)[::2]
        for a, b in zip(envs.step(actions.astype(dtype)), others.step(strided), strict=True):
            assert equal(a, b)
    for wrong in (-1, 3, 1 << 40, -(1 << 40)):
        actions = np.zeros(70, np.int64)
        actions[69] = wrong
        with pytest.raises(ValueError, match="environment 69: action "):
            envs.step(actions)
