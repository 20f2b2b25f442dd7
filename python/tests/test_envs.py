"""Environments: Gymnasium's own checks, and the vector held to single ones in every bit."""

import copy
import itertools
import re
from types import SimpleNamespace

import gymnasium
import lockstep
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from lockstep import _drawing, _native, classic


def equal(a, b):
    """Whether two values are of equal type and bits, through dicts and arrays of objects."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, np.ndarray):
        if not isinstance(b, np.ndarray) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if a.dtype == object:
            return all(equal(x, y) for x, y in zip(a, b, strict=True))
        return a.tobytes() == b.tobytes()
    return type(a) is type(b) and a == b


def test_equal_sees_a_bit():
    assert equal({"a": np.array([0.0])}, {"a": np.array([0.0])})
    assert not equal({"a": np.array([0.0])}, {"a": np.array([-0.0])})
    assert not equal({"a": np.zeros(1)}, {"a": np.zeros(1, np.float32)})


@pytest.mark.parametrize("noise", ["route", "seed"])
def test_gymnasium_checks(short_routes, noise):
    check_env(lockstep.Env(short_routes, noise=noise), skip_render_check=True)


def test_registered():
    env = gymnasium.make("lockstep/Controls-v0", routes="own", engine="reference", model="own")
    obs, info = env.reset(seed=3, options={"route": 2})
    assert obs.shape == (257,)
    assert info["route"] == "g00002"
    assert env.reset(seed=np.int64(3), options={"route": "g00003"})[1]["route"] == "g00003"
    env.close()
    envs = gymnasium.make_vec(
        "lockstep/Controls-v0", num_envs=3, routes="own", engine="reference", model="own"
    )
    assert isinstance(envs.unwrapped, lockstep.VectorEnv)
    assert envs.reset(seed=1)[0].shape == (3, 257)
    envs.close()


def test_spaces(short_routes):
    """What wrappers scale and clip by: commands within ±2, and each observation and the clock."""
    low, high = np.array([-3, -np.inf], np.float32), np.array([0, 7], np.float32)
    own = {"obs": lambda rollouts, _: rollouts.features()[:, :2]}
    own["observation_space"] = Box(low, high)
    for how, least, most in [({}, [-5] * 256, [5] * 256), (own, low, high)]:
        env = lockstep.Env(short_routes, **how)
        envs = lockstep.VectorEnv(2, short_routes, **how)
        seen = Box(np.float32([*least, 0]), np.float32([*most, 1]))
        for made in (env.observation_space, envs.single_observation_space):
            assert made == seen
        for made in (env.action_space, envs.single_action_space):
            assert made == Box(-2, 2, (1,))
    assert env.metadata == {"render_modes": ["rgb_array", "human"], "render_fps": 10}
    assert lockstep.VectorEnv(routes=short_routes).num_envs == 1


@pytest.mark.parametrize(
    "how",
    [
        {"seed": 3, "options": {"route": 9}},
        {"seed": 3, "options": {"route": "nobody"}},
        {"seed": 3, "options": {"road": 1}},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": [7, -1, 2]},
        {"seed": [7, 2, "8"]},
        {"seed": [7, 2]},
        {"seed": 3, "options": {"reset_mask": np.zeros(1, np.bool_)}},
        {"options": {"route": -1}},
    ],
)
def test_what_is_refused_draws_nothing(short_routes, how):
    """The next episodes are those of one that was not asked."""

    def episodes(asked):
        env = lockstep.Env(short_routes, noise="seed")
        seen = [env.reset(seed=5)]
        for _ in range(3):
            if asked:
                with pytest.raises((ValueError, TypeError, gymnasium.error.Error)):
                    env.reset(**how)
            seen.append(env.reset())
        seen.append(env.np_random.bit_generator.state)
        env.close()
        return seen

    def many(asked):
        envs = lockstep.VectorEnv(3, short_routes, noise="seed")
        seen = [envs.reset(seed=5)]
        for _ in range(3):
            if asked:
                with pytest.raises((ValueError, TypeError, gymnasium.error.Error)):
                    envs.reset(**how)
            seen.append(envs.reset())
        envs.close()
        return seen

    for way in (episodes, many):
        for a, b in zip(way(True), way(False), strict=True):
            assert equal(a[0], b[0]) and equal(a[1], b[1]) if isinstance(a, tuple) else equal(a, b)


def drive(env, seed, steps, mask=None, reset_mask=None):
    """Everything that an environment returns, under actions that depend on what it shows."""
    rng = np.random.default_rng(seed)
    yield env.reset(seed=seed)
    ended, unused = np.zeros((2, env.num_envs), dtype=bool)
    for k in range(steps):
        if env.autoreset_mode is AutoresetMode.DISABLED and ended.any():
            # and one that has not ended
            which = ended | (np.arange(env.num_envs) == k % env.num_envs)
            yield env.reset(options={"reset_mask": which})
            ended[:] = False
        actions = rng.uniform(-2.5, 2.5, (env.num_envs, 1)).astype(np.float32)
        actions[unused] = np.nan
        got = env.step(actions)
        ended |= got[2] | got[3]
        if env.autoreset_mode is AutoresetMode.NEXT_STEP:
            unused = got[2] | got[3]  # the next step begins an episode, whatever the action
        yield got


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("noise", ["route", "seed"])
@pytest.mark.parametrize("own", [False, True], ids=["features", "function"])
def test_vector_is_many_single_ones(tiny_routes, mode, n, noise, own):
    observed = {"noise": noise}
    if own:
        observed["obs"] = lambda rollouts, _: rollouts.lataccel[:, None]
        observed["observation_space"] = Box(-9, 9, (1,))
    vector = lockstep.VectorEnv(n, tiny_routes, autoreset_mode=mode, **observed)
    single = SyncVectorEnv([lambda: lockstep.Env(tiny_routes, **observed)] * n, autoreset_mode=mode)
    assert vector.single_observation_space == single.single_observation_space
    assert vector.observation_space == single.observation_space
    assert vector.action_space == single.action_space
    assert vector.metadata == single.metadata
    ends = 0
    for a, b in zip(drive(vector, 7, 25), drive(single, 7, 25), strict=True):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert equal(x, y)
        ends += a[2].sum() if len(a) == 5 else 0
    assert ends >= 3 * n
    assert len(vector._cohorts) <= n
    vector.close()
    single.close()


@pytest.mark.parametrize("mode", list(AutoresetMode), ids=lambda mode: mode.value)
def test_what_was_returned_stays(tiny_routes, mode):
    """Later calls change nothing of it."""

    def made():
        return drive(lockstep.VectorEnv(3, tiny_routes, autoreset_mode=mode), 5, 25)

    for kept, seen in zip(list(made()), [copy.deepcopy(got) for got in made()], strict=True):
        assert all(equal(x, y) for x, y in zip(kept, seen, strict=True))


def rewarded(target, lataccel, before):
    """The rewards of an episode by the formula, spelled out once more."""
    n = len(lataccel)
    for k, (want, got) in enumerate(zip(target, lataccel, strict=True)):
        error, jerk = want - got, (got - before) / 0.1
        reward = -(50.0 * 100.0 / n * (error * error))
        yield reward - 100.0 / (n - 1) * (jerk * jerk) if k else reward
        before = got


def test_rewards_are_the_formula_and_sum_to_the_cost(sim, short_routes):
    env = lockstep.Env(short_routes)
    for seed in range(3):
        _, info = env.reset(seed=seed)
        index = short_routes.names.index(info["route"])
        total, rewards, ended = 0.0, [], False
        while not ended:
            _, reward, ended, truncated, info = env.step(np.array([0.3], np.float32))
            assert not truncated
            total += reward
            rewards.append(reward)
        table = np.full((1, 400), np.float64(np.float32(0.3)))
        result = sim.rollout(short_routes[[index]], {"table": table}, trajectory=True)
        before, *lataccel = result.lataccel[0, 0, 99:].tolist()
        target = short_routes[index].target_lataccel[100:].tolist()
        assert rewards == list(rewarded(target, lataccel, before))
        assert total == pytest.approx(-info["costs"][2], rel=1e-12)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(1))


def test_an_episode_is_a_rollout(sim, routes):
    """The costs in info are those of the challenge's program: 400 steps, from 100 to 500."""
    want = sim.rollout(routes[:1], "pid", trajectory=True)
    env = lockstep.Env(routes)
    obs, _ = env.reset(options={"route": 0})
    assert obs[-1] == 0
    for k in range(400):
        assert obs[-1] == np.float32(k / 400)
        obs, _, ended, _, info = env.step(want.action[0, 0, 100 + k])
        assert ended == (k == 399)
    assert info["costs"].tobytes() == want.costs[0, 0].tobytes()
    assert obs.tolist() == [0] * 256 + [1]


def test_features_are_those_of_the_contract(sim, routes):
    """Some elements, by their formulas, from what the simulation shows."""
    route = routes[2]
    with sim.reset(routes[[2]]) as rollouts:
        actions = [0.1, -0.4, 3.0, 0.2]
        lataccel = [*route.target_lataccel[:100], *(rollouts.advance([a])[0] for a in actions)]
        o = rollouts.features()[0]
    t, f = 104, np.float32
    target, current, before = route.target_lataccel[t], lataccel[t - 1], lataccel[t - 2]
    assert o[0] == f(target / 5)
    assert o[1] == f(current / 5)
    assert o[2] == f((target - current) / 5)
    assert o[6] == f(route.v_ego[t] / 40)
    assert o[9] == f(0.2 / 2)
    assert o[12] == np.clip(f((current - before) / 0.1 / 5), -5, 5)
    assert o[13] == np.clip(f((0.2 - 2.0) / 0.1 / 2), -5, 5)
    assert o[16:36].tolist() == [f(x) / f(2) for x in [0] * 16 + [0.1, -0.4, 2.0, 0.2]]
    assert o[36:56].tolist() == [f(x) / f(5) for x in lataccel[t - 21 : t - 1]]
    preview = [*route.target_lataccel[t + 1 : t + 50], route.target_lataccel[t + 49]]
    assert o[56:106].tolist() == np.clip(np.array(preview, f) / f(5), -5, 5).tolist()


def test_order_of_routes(short_routes):
    def names(seed, n):
        env = lockstep.VectorEnv(n, short_routes, autoreset_mode="Disabled")
        seen = [env.reset(seed=seed)[1]["route"].tolist()]
        seen += [env.reset()[1]["route"].tolist() for _ in range(9)]
        return np.array(seen)

    three, one = names(5, 3), names(6, 1)
    assert (three[:, 1] == one[:, 0]).all()  # environment 1 of seed 5 is seeded with 6
    random = gymnasium.utils.seeding.np_random(6)[0]  # as it was for who has kept a seed
    order = np.concatenate([random.permutation(5) for _ in range(2)])
    assert one[:, 0].tolist() == [short_routes.names[i] for i in order]
    for column in three.T:  # each route once, then each once more
        assert sorted(column[:5]) == sorted(column[5:]) == sorted(short_routes.names)
    assert (names(5, 3) == three).all()
    assert (names(9, 3) != three).any()


def test_seeds_of_some(tiny_routes):
    """An environment that is given none goes on with its own, and with its order of routes."""
    ours = lockstep.VectorEnv(3, tiny_routes, noise="seed")
    single = SyncVectorEnv([lambda: lockstep.Env(tiny_routes, noise="seed")] * 3)
    for seeds in (
        *([4, 5, 6], [None, 7, None], [8, None, None], None, [None, 0, 3]),
        [np.int64(9), None, np.uint8(2)],
    ):
        for a, b in ((ours, single), (ours, single)):
            x, y = a.reset(seed=seeds), b.reset(seed=seeds)
            assert all(equal(p, q) for p, q in zip(x, y, strict=True)), seeds
            seeds = None


def test_many_environments_are_as_few(tiny_routes):
    """Above some number a step is a task, which must not change a bit."""
    routes = lockstep.Simulator(engine="batched", model="own").load(tiny_routes.files, cache=False)
    many, *few = (lockstep.VectorEnv(n, routes, noise="seed") for n in (300, 100, 200))
    first = [envs.reset(seed=seed)[0] for envs, seed in ((many, 1), (few[0], 1), (few[1], 101))]
    assert equal(first[0], np.concatenate(first[1:]))
    for k in range(4):
        actions = np.linspace(-2, 2, 300, dtype=np.float32)[:, np.newaxis] * (k - 1.5)
        got = many.step(actions)
        parts = few[0].step(actions[:100]), few[1].step(actions[100:])
        for i, name in enumerate(["observations", "rewards", "terminated", "truncated"]):
            assert equal(got[i], np.concatenate([part[i] for part in parts])), (k, name)


def test_own_observations(short_routes, tiny_routes):
    space = Box(-np.inf, np.inf, (2,), np.float32)

    def observe(rollouts, routes):
        return np.stack(
            [rollouts.lataccel, [r.v_ego[min(rollouts.step, len(r) - 1)] for r in routes]], axis=1
        )

    envs = lockstep.VectorEnv(3, short_routes, obs=observe, observation_space=space)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (3, 3)
    with pytest.raises(ValueError, match="observation_space"):
        lockstep.Env(short_routes, obs=observe)
    with pytest.raises(ValueError, match="shape"):
        lockstep.Env(short_routes, obs=lambda *_: np.zeros(7), observation_space=space).reset()
    # All but what it says is as it is without it: clock, rewards, ends, and 0 after them.
    for_itself = {"obs": observe, "observation_space": space}
    own, plain = (
        lockstep.VectorEnv(3, tiny_routes, autoreset_mode="Disabled", **observed)
        for observed in (for_itself, {})
    )
    for a, b in zip(drive(own, 7, 25), drive(plain, 7, 25), strict=True):
        assert equal(a[0][:, -1], b[0][:, -1])
        assert all(equal(x, y) for x, y in zip(a[1:], b[1:], strict=True))
        assert ((a[0][:, :-1] == 0).all(axis=1) == (a[0][:, -1] == 1)).all()


def test_rollouts_are_closed_with_their_episodes(short_routes):
    """Also where a function that observes has kept them: they hold the engine's memory."""
    space, kept = Box(-np.inf, np.inf, (1,), np.float32), []

    def observe(rollouts, _):
        kept.append(rollouts)
        return rollouts.lataccel[:, np.newaxis]

    for make in (lockstep.Env, lambda *a, **k: lockstep.VectorEnv(2, *a, **k)):
        kept.clear()
        env = make(short_routes, obs=observe, observation_space=space)
        for seed in range(2):
            env.reset(seed=seed)
        assert ["closed" in repr(r) for r in kept] == [True, False]
        env.close()
        assert all("closed" in repr(r) for r in kept)


def test_copies(short_routes):
    for own in (True, False):
        envs = lockstep.VectorEnv(2, short_routes, copy=own)
        first, _ = envs.reset(seed=1)
        kept = first.copy()
        second = envs.step(np.ones((2, 1)))[0]
        assert equal(first, kept) == own
        for again in (second, envs.reset()[0]):
            assert (again is first) == (not own)


def test_other_environments_do_not_matter(sim, short_routes):
    """What happens in an environment is the same in any company, and after others were reset."""
    alone = lockstep.VectorEnv(1, short_routes, autoreset_mode="Disabled")
    many = lockstep.VectorEnv(5, short_routes, autoreset_mode="Disabled")
    a, b = alone.reset(seed=13)[0], many.reset(seed=10)[0]
    for k in range(4):
        assert equal(a[0], b[3])
        others = np.array([True, False, False, False, True])
        many.reset(seed=20 * k, options={"reset_mask": others})
        actions = np.full((5, 1), 0.1 * k)
        a, b = alone.step(actions[:1])[0], many.step(actions)[0]
    for _ in range(4):  # nor are its next episodes others for their seeds
        a, told = alone.reset()
        b, infos = many.reset(options={"reset_mask": ~others})
        assert equal(a[0], b[3])
        assert infos["route"][3] == told["route"][0]


def test_bad_input(short_routes):
    envs = lockstep.VectorEnv(3, short_routes)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros((3, 1)))
    envs.reset(seed=1)
    before = envs._at.observations.copy()
    for actions, message in [
        (np.zeros((2, 1)), r"\(2, 1\)"),
        (np.zeros((3, 2)), r"\(3, 2\)"),
        (np.array([[0], [np.nan], [0]]), "environment 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            envs.step(actions)
    assert equal(envs._at.observations, before)
    for options, kind in [
        ({"reset_mask": [True, False, False]}, TypeError),
        ({"reset_mask": np.zeros(3, bool)}, ValueError),
        ({"reset_mask": np.ones(2, bool)}, ValueError),
        ({"route": 99}, ValueError),
    ]:
        with pytest.raises(kind):
            envs.reset(options=options)
    with pytest.raises(ValueError, match="seed"):
        envs.reset(seed=[1, 2])
    env = lockstep.Env(short_routes)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="NaN"):
        env.step(np.array([np.nan]))
    for shape in [(0,), (2,), (1, 2)]:
        with pytest.raises(ValueError, match=f"^action: shape {re.escape(str(shape))}, want"):
            env.step(np.zeros(shape))
    for bad in ({"obs": "pixels"}, {"noise": "white"}, {"engine": "reference"}, {"num_envs": 0}):
        with pytest.raises(ValueError, match=r"obs|noise|engine|num_envs"):
            lockstep.VectorEnv(**{"num_envs": 1, "routes": short_routes} | bad)
    for bad, kind, message in [
        ({"num_envs": 2.5}, TypeError, "float"),
        ({"num_envs": 10**9}, MemoryError, "num_envs=1000000000"),
        ({"routes": short_routes[:0]}, ValueError, "routes: there is none"),
        ({"observation_space": Box(0, 1, (2,))}, ValueError, "obs is no function"),
        ({"render_mode": "human"}, ValueError, "render_mode='human'"),
    ]:
        with pytest.raises(kind, match=message):
            lockstep.VectorEnv(**{"num_envs": 1, "routes": short_routes} | bad)
    for options, kind, message in [
        ({"route": 1.5}, TypeError, "integer"),
        ({"route": "nowhere"}, ValueError, "'nowhere': no route has that name"),
        ({"routes": 1}, ValueError, r"options\['routes'\]: there is none such"),
        ({"route": 5}, ValueError, r"options\['route'\]=5: want 0 to 4$"),
    ]:
        with pytest.raises(kind, match=message):
            env.reset(options=options)
    env.reset(seed=0)
    for action in (np.zeros(1, complex), ["left"], [None]):
        with pytest.raises(TypeError, match=r"action: .*, want float32"):
            env.step(action)
    envs.close()
    for begun in ([], [0], [1, 2]):  # those of before are begun no longer
        if begun:
            envs.reset(options={"reset_mask": np.isin(range(3), begun)})
        if begun != [1, 2]:
            with pytest.raises(ResetNeeded):
                envs.step(np.zeros((3, 1)))
    envs.step(np.zeros((3, 1)))
    with pytest.raises(ValueError, match="NotAMode"):
        lockstep.VectorEnv(1, short_routes, autoreset_mode="NotAMode")


@pytest.mark.parametrize("family", ["controls", "classic"])
def test_which_environment_has_ended_is_told(tiny_routes, family):
    """The first of them, wherever it stands, until it is reset; the others' masks are no help."""
    for ended in ([0], [1], [2], [1, 2], [0, 1, 2]):
        others = ~np.isin(range(3), ended)
        if family == "classic":
            envs = classic.VectorEnv(
                "CartPole-v1", 3, autoreset_mode="Disabled", max_episode_steps=2
            )
            actions, again = np.zeros(3, int), {}
        else:
            envs = lockstep.VectorEnv(3, tiny_routes, autoreset_mode="Disabled")
            actions, again = np.zeros((3, 1)), {"route": 0}  # of two steps
        envs.reset(seed=1, options=again)
        envs.step(actions)
        if others.any():
            envs.reset(options=again | {"reset_mask": others})
        assert envs.step(actions)[2 if family == "controls" else 3].tolist() == (~others).tolist()
        for _ in range(2):
            with pytest.raises((ResetNeeded, ValueError), match=f"environment {ended[0]}.* ended"):
                envs.step(actions)
            if others.any():
                envs.reset(options=again | {"reset_mask": others})
        envs.reset(options=again | {"reset_mask": ~others})
        envs.step(actions)
        envs.close()


def test_nothing_is_left_of_environments(short_routes, handles):
    before = handles()
    envs = lockstep.VectorEnv(4, short_routes, autoreset_mode="SameStep")
    for _ in drive(envs, 1, 60):
        pass
    envs.close()
    assert handles() == before


@pytest.mark.parametrize("workers", [1, 2])
def test_engines_are_equal(tiny_routes, workers):
    """Another engine, and other numbers of its workers, give the same bits."""
    other = lockstep.Simulator(engine="batched", model="own", workers=workers).load(
        tiny_routes.files, cache=False
    )
    for noise in ("route", "seed"):
        a, b = (
            lockstep.VectorEnv(5, tiny_routes, noise=noise),
            lockstep.VectorEnv(5, other, noise=noise),
        )
        for x, y in zip(drive(a, 3, 12), drive(b, 3, 12), strict=True):
            assert all(equal(p, q) for p, q in zip(x, y, strict=True))


def test_pictures(sim, short_routes):
    """Of the drive up to now: more of it after a step; none where nobody asked."""
    pytest.importorskip("matplotlib")
    env = lockstep.Env(short_routes, render_mode="rgb_array")
    with pytest.raises(ResetNeeded):
        env.render()
    env.reset(seed=1)
    pictures = [env.render()]
    for _ in range(3):
        env.step(np.array([0.5], dtype=np.float32))
        pictures.append(env.render())
    assert {(p.shape, p.dtype.name) for p in pictures} == {((240, 640, 3), "uint8")}
    assert all(not np.array_equal(a, b) for a, b in itertools.pairwise(pictures))
    fresh = lockstep.Env(short_routes, render_mode="rgb_array")
    for e in (env, fresh):  # nothing of the episode before is drawn
        e.reset(options={"route": 3})
        e.step(np.array([0.25], dtype=np.float32))
    with sim.reset(short_routes[[3]]) as rollouts:
        drive = _drawing.picture(short_routes[3], [float(rollouts.advance([0.25])[0])])
    assert all(np.array_equal(e.render(), drive) for e in (env, fresh))
    assert lockstep.Env(short_routes).render() is None
    for make in (lockstep.Env, lambda routes, **o: lockstep.VectorEnv(2, routes, **o)):
        with pytest.raises(ValueError, match="render_mode"):
            make(short_routes, render_mode="ansi")
    check_env(lockstep.Env(short_routes, render_mode="rgb_array"), skip_render_check=True)


def test_road():
    """A constant curve is a circle's; without acceleration the road is straight."""
    v_ego = np.full(600, 20.0)
    right, ahead = _drawing.bend(np.full(600, 2.0), v_ego)
    assert np.hypot(right - 200, ahead) == pytest.approx(np.full(601, 200), rel=0.01)
    right, ahead = _drawing.bend(np.zeros(600), v_ego)
    assert (right == 0).all()
    assert ahead[-1] == pytest.approx(1200)
    for lataccel in (0.0, 2.0):  # it stands still
        assert not np.any(_drawing.bend(np.full(50, lataccel), np.zeros(50)))


def test_what_is_drawn(short_routes):
    """The road from now on, as the target bends it and as lataccel does; both up to now."""
    pytest.importorskip("matplotlib")
    route, driven = short_routes[1], [0.1, -0.2, 0.3]
    for n in range(4):
        road, axes = _drawing.draw(route, driven[:n]).axes
        now, v_ego = 100 + n, route.v_ego[100 + n : 150 + n]
        present = driven[n - 1] if n else route.target_lataccel[99]
        for line, lataccel in zip(
            road.lines, (route.target_lataccel[now : now + 50], np.full(len(v_ego), present)),
            strict=False,
        ):  # fmt: skip
            assert equal(line.get_xydata(), np.stack(_drawing.bend(lataccel, v_ego), axis=1))
        target, done, when = axes.lines
        steps = np.arange(90, 131)
        assert equal(target.get_xydata(), np.stack([steps / 10, route.target_lataccel[90:]], 1))
        assert done.get_xydata().tolist() == [[(100 + k) / 10, x] for k, x in
                                              enumerate(driven[:n])]  # fmt: skip
        assert when.get_xdata() == [now / 10] * 2
        assert [line.get_label() for line in (target, done)] == ["target", "lataccel"]
        assert axes.get_title() == route.name


def test_window(short_routes, monkeypatch):
    """It shows the pictures that rgb_array gives, from the reset on, and one reset later still."""
    pytest.importorskip("matplotlib")
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    ticks = []
    monkeypatch.setattr(pygame.time, "Clock", lambda: SimpleNamespace(tick=ticks.append))
    drawn = lockstep.Env(short_routes, render_mode="rgb_array")
    shown = lockstep.Env(short_routes, render_mode="human")
    for env in (drawn, shown):
        env.reset(seed=1)
        env.step(np.array([0.5], dtype=np.float32))
    assert shown.render() is None
    screen = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    assert np.array_equal(screen, drawn.render())
    assert ticks == [10] * 3  # a second
    assert pygame.display.get_caption()[0] == "lockstep/Controls-v0"
    shown.reset()
    assert pygame.display.get_surface() is not None
    for _ in range(2):  # another window, after it was closed
        assert pygame.display.get_surface() is not None
        shown.close()
        assert pygame.display.get_surface() is None
        shown.reset()
    shown.close()


def test_addresses_go_by_the_names_of_fields():
    with pytest.raises(TypeError, match=r"the library has the fields .*'rewards'.*, not \['num'\]"):
        _native.struct("episodes", {"num": 1})
