"""Steps with actions and results in a GPU's memory; on a GPU, or on a stand-in driver."""

import ctypes
import gc
import itertools
import math
import os

import lockstep
import numpy as np
import pytest
from lockstep import _device

NOT_READY = 600


class Driver:
    """What a program that works on the GPU, too, has: memory and streams in the primary context."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(100)
        self.call("cuDeviceGetName", name, 100, 0)
        self.standin = name.value == b"stand-in"

    def call(self, name, *args):
        assert getattr(self.lib, name)(*args) == 0, name

    def wait(self, stream=None):
        while (code := self.lib.cuStreamQuery(ctypes.c_void_p(stream))) == NOT_READY:
            pass
        assert code == 0

    def upload(self, numbers):
        numbers = np.ascontiguousarray(numbers)
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(numbers.nbytes))
        self.call(
            "cuMemcpyHtoDAsync_v2",
            address,
            ctypes.c_void_p(numbers.ctypes.data),
            ctypes.c_size_t(numbers.nbytes),
            None,
        )
        self.wait()
        return address.value

    def download(self, address, n):
        numbers = np.empty(n)
        self.call(
            "cuMemcpyDtoHAsync_v2",
            ctypes.c_void_p(numbers.ctypes.data), ctypes.c_uint64(address),
            ctypes.c_size_t(numbers.nbytes), None,
        )  # fmt: skip
        self.wait()
        return numbers

    def passed(self):
        """Uploads, downloads and their bytes, as the stand-in counts them."""
        return list((ctypes.c_int64 * 6).in_dll(self.lib, "lockstep_standin_counts"))[1:5]


@pytest.fixture(scope="module")
def gpu():
    try:
        sim = lockstep.Simulator(engine="gpu", model="own")
    except Exception as e:
        if os.environ.get("LOCKSTEP_REQUIRE_GPU") == "1":
            raise
        pytest.skip(str(e))
    with sim:
        yield sim


@pytest.fixture(scope="module")
def driver(gpu):
    return Driver()


@pytest.fixture(scope="module")
def three(gpu, tmp_path_factory, short_routes):
    return gpu.load(short_routes.files[:3], cache=False)


class Array:
    """An array on the GPU that knows one protocol."""

    def __init__(self, driver, numbers, **other):
        numbers = np.asarray(numbers)
        self.address = driver.upload(numbers)
        self.__cuda_array_interface__ = {
            "version": 3,
            "shape": numbers.shape,
            "typestr": numbers.dtype.str,
            "data": (self.address, False),
            "strides": None,
        } | other


def test_steps_on_the_gpu_are_steps(gpu, driver, three):
    actions = np.sin(np.arange(30.0)).reshape(10, 3)
    actions[2, 2] = math.nan
    with gpu.reset(three) as host, gpu.reset(three) as there:
        given = [Array(driver, a) for a in actions[:4]]
        outs = [Array(driver, np.zeros(3)) for _ in given]
        seen = [Array(driver, np.zeros((3, 256), np.float32)) for _ in given]
        passed = driver.standin and driver.passed()
        for a, out, features in zip(given, outs, seen, strict=True):
            assert there.advance(a, out=out) is out
            assert there.lataccel is out
            assert there.features(out=features) is features
        own = there.features()
        assert (own.shape, own.dtype) == ((3, 256), "float32")
        assert not driver.standin or driver.passed() == passed, "something went through the host"
        for a, out, features in zip(actions[:4], outs, seen, strict=True):
            np.testing.assert_array_equal(driver.download(out.address, 3), host.advance(a))
            assert driver.download(features.address, 3 * 128).tobytes() == host.features().tobytes()
        assert (
            driver.download(own.__cuda_array_interface__["data"][0], 3 * 128).tobytes()
            == host.features().tobytes()
        )
        # The rollouts' own array goes by both protocols, and in as it came out.
        own = there.advance(Array(driver, actions[4]))
        assert isinstance(own, lockstep.DeviceArray)
        assert (own.shape, own.dtype, len(own)) == ((3,), "float64", 3)
        face = own.__cuda_array_interface__
        assert (face["typestr"], face["stream"], face["data"][1]) == ("<f8", 1, False)
        now = host.advance(actions[4])
        np.testing.assert_array_equal(driver.download(face["data"][0], 3), now)
        there.advance(own)
        now = host.advance(now)
        np.testing.assert_array_equal(driver.download(face["data"][0], 3), now)
        # NumPy again, and what the host learns.
        np.testing.assert_array_equal(there.advance(actions[5]), host.advance(actions[5]))
        there.advance(Array(driver, actions[6]))
        host.advance(actions[6])
        assert {i: str(e) for i, e in there.errors.items()} == {
            i: str(e) for i, e in host.errors.items()
        }
        assert list(there.errors) == [2]
        assert there.running.tolist() == host.running.tolist()
        assert there.snapshot().to_bytes() == host.snapshot().to_bytes()
        snapshot = host.snapshot()
        for rollouts in (there, host):
            rollouts.restore(snapshot)
        while not host.done:
            there.advance(Array(driver, actions[7]))
            host.advance(actions[7])
        assert there.done
        assert there.costs().tobytes() == host.costs().tobytes()
        with pytest.raises(ValueError, match="have ended"):
            there.advance(Array(driver, actions[7]))


def test_the_caller_s_streams(gpu, driver, three):
    """Arrays made on another stream, and a simulator that works on the caller's."""
    stream = ctypes.c_void_p()
    driver.call("cuStreamCreate", ctypes.byref(stream), 1)
    actions = np.array([0.5, -0.5, 0.25])
    with gpu.reset(three) as host, gpu.reset(three) as there:
        want = host.advance(actions)
        own = there.advance(Array(driver, actions, stream=stream.value))
        capsule = own.__dlpack__(stream=stream.value)
        driver.wait(stream.value)
        np.testing.assert_array_equal(
            driver.download(own.__cuda_array_interface__["data"][0], 3), want
        )
        del capsule
    with lockstep.Simulator(engine="gpu", model="own", stream=stream.value) as sim:
        routes = sim.load(three.files, cache=False)
        with sim.reset(routes) as there:
            own = there.advance(Array(driver, actions))
            assert own.__cuda_array_interface__["stream"] == stream.value
            driver.wait(stream.value)
            np.testing.assert_array_equal(
                driver.download(own.__cuda_array_interface__["data"][0], 3), want
            )
    memory = ctypes.c_uint64()
    # The context is as it was.
    driver.call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(8))


def test_exports_live_as_long_as_they_are_held(gpu, driver, three, handles):
    rollouts = gpu.reset(three)
    own = rollouts.advance(Array(driver, np.zeros(3)))
    before = handles()
    capsule = own.__dlpack__()
    assert own.__dlpack_device__() == (2, 0)
    del rollouts, own
    gc.collect()
    assert len(_device._exported) == 1
    assert handles() == before
    del capsule
    gc.collect()
    assert not _device._exported
    assert handles() == before - 1


class Elsewhere:
    """An array of another GPU."""

    def __dlpack_device__(self):
        return 2, 1

    def __dlpack__(self, stream=None):
        place = _device.Place(1, 0)
        keep = type("Handle", (), {"id": 1})()
        return _device.DeviceArray(place, 4096, (3,), keep).__dlpack__()


def test_bad_arrays(gpu, driver, three, sim, short_routes):
    good = Array(driver, np.zeros(3))
    with gpu.reset(three) as rollouts:
        for actions, error, message in [
            (Array(driver, np.zeros(4)), ValueError, r"actions: shape \(4,\), want \(3,\)"),
            (Array(driver, np.zeros((3, 1))), ValueError, r"shape \(3, 1\)"),
            (Array(driver, np.zeros(3, np.float32)), TypeError, "f4 on the GPU, want f8"),
            (Array(driver, np.zeros(3, ">f8")), TypeError, "order of bytes"),
            (Array(driver, np.zeros(3), strides=(16,)), ValueError, "strides"),
            (Elsewhere(), ValueError, "on GPU 1, and the simulator is on GPU 0"),
        ]:
            with pytest.raises(error, match=message):
                rollouts.advance(actions)
        with pytest.raises(TypeError, match="out: ndarray is not on the GPU"):
            rollouts.advance(good, out=np.zeros(3))
        for out, error, message in [
            (good, ValueError, r"shape \(3,\), want \(3, 256\)"),
            (Array(driver, np.zeros((3, 256))), TypeError, "f8 on the GPU, want f4"),
        ]:
            with pytest.raises(error, match=message):
                rollouts.features(out=out)
        with pytest.raises(ValueError, match="read-only"):
            rollouts.advance(good, out=Array(driver, np.zeros(3), data=(good.address, True)))
        own = rollouts.advance(good)
        with pytest.raises(BufferError, match="without a copy"):
            own.__dlpack__(copy=True)
        assert rollouts.step == 101
    with pytest.raises(lockstep.ClosedError):
        rollouts.advance(good)
    with pytest.raises(lockstep.ClosedError):
        own.__cuda_array_interface__  # noqa: B018 it raises
    with sim.reset(short_routes) as rollouts:
        for call in (lambda: rollouts.advance(good), lambda: rollouts.features(out=good)):
            with pytest.raises(TypeError, match='use engine="gpu"'):
                call()
    with pytest.raises(ValueError, match="stream=-1"):
        lockstep.Simulator(engine="gpu", model="own", stream=-1)


def test_what_is_collected_stays_on_the_gpu(gpu, driver, three):
    rng = np.random.default_rng(5)
    sizes = [256, 16, 2]
    weights = [rng.normal(0, 0.1, (n, k)) for k, n in itertools.pairwise(sizes)]
    policy = lockstep.Network(weights, [np.zeros(n) for n in sizes[1:]])
    host = gpu.collect(policy, three, samples=2, seed=3)
    passed = driver.standin and driver.passed()
    there = gpu.collect(policy, three, samples=2, seed=3, device=True)
    if driver.standin:
        assert driver.passed()[3] - passed[3] < 2000, "more than statuses and costs came down"
    np.testing.assert_array_equal(there.costs, host.costs)
    np.testing.assert_array_equal(there.steps, host.steps)
    np.testing.assert_array_equal(there.places, host.places)
    for name in ("raw", "softplus", "reward", "lataccel", "action"):
        array, want = getattr(there, name), getattr(host, name)
        assert (array.shape, array.dtype) == (want.shape, want.dtype.name), name
        face = array.__cuda_array_interface__
        assert (face["typestr"], face["shape"]) == (want.dtype.str, want.shape)
        n = want.nbytes // 8
        assert driver.download(face["data"][0], n).tobytes() == want.tobytes(), name
        assert array.__dlpack_device__() == (2, 0)
        del face
    places = host.places[[5, 0, 7, 5]]
    out = Array(driver, np.zeros((4, 256), np.float32))
    assert there.observe(places, out=out) is out
    assert driver.download(out.address, 4 * 128).tobytes() == host.observe(places).tobytes()
    for wrong, error, message in [
        (None, TypeError, "on the GPU: give an array there as out"),
        (np.zeros((4, 256), np.float32), TypeError, "not on the GPU"),
        (Array(driver, np.zeros((4, 256))), TypeError, "f8 on the GPU, want f4"),
        (
            Array(driver, np.zeros((256, 4), np.float32)),
            ValueError,
            r"shape \(256, 4\), want \(4, 256\)",
        ),
        (Array(driver, np.zeros((4, 256), np.float32), strides=(4, 16)), ValueError, "strides"),
    ]:
        with pytest.raises(error, match=message):
            there.observe(places, out=wrong)
    with pytest.raises(TypeError, match="needs no out"):
        host.observe(places, out=out)
    with pytest.raises(ValueError, match="has no step"):
        there.observe([399, 0, 0, 0], out=out)
    reward = there.reward
    there.close()
    with pytest.raises(lockstep.ClosedError):
        reward.__dlpack__()


def test_only_a_gpu_keeps_what_is_collected(sim, short_routes):
    policy = lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
    with pytest.raises(ValueError, match="no arrays on a GPU"):
        sim.collect(policy, short_routes, device=True)


def read(driver, array, dtype):
    """What an array on the GPU holds, by the address that it exports."""
    face = array.__cuda_array_interface__
    assert face["shape"] == array.shape
    assert np.dtype(face["typestr"]) == dtype
    out = np.empty(array.shape, dtype)
    driver.call(
        "cuMemcpyDtoHAsync_v2",
        ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(face["data"][0]),
        ctypes.c_size_t(out.nbytes), None,
    )  # fmt: skip
    driver.wait()
    return out


DTYPES = {
    "observations": np.float32, "final_observations": np.float32, "rewards": np.float64,
    "states": np.float64, "terminated": np.bool_, "truncated": np.bool_,
}  # fmt: skip


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1"])
def test_classic(driver, name):
    classic = pytest.importorskip("lockstep.classic", exc_type=ImportError)
    envs, host = (
        classic.VectorEnv(name, 5, autoreset_mode="SameStep", max_episode_steps=13, engine=engine)
        for engine in ("gpu", "batched")
    )
    assert np.array_equal(envs.reset(seed=4)[0], host.reset(seed=4)[0])
    names = [*DTYPES, "actions"]
    inputs, outputs = (
        envs.single_observation_space.shape[0],
        getattr(envs.single_action_space, "n", 1),
    )
    rng = np.random.default_rng(1)
    network = classic.Network(
        [rng.normal(0, 0.2, (outputs, inputs))], [np.zeros(outputs)], classic.Network.gumbel(6), 3
    )
    kind = np.int32 if outputs > 1 else np.float32
    for policy in ("random", network):
        before = driver.passed() if driver.standin else None
        key = 7 if policy == "random" else None
        there = envs.run(40, policy, key, record=names, device=True)
        if before is not None:
            uploads, _, _, bytes_down = (
                b - a for a, b in zip(before, driver.passed(), strict=True)
            )
            assert uploads == (1 if policy is network else 0)
            assert bytes_down < 2000  # the record is 40 times as much
        here = host.run(40, policy, key, record=names)
        ended = here.terminated | here.truncated
        for field, dtype in (DTYPES | {"actions": kind}).items():
            mine, theirs = read(driver, getattr(there, field), dtype), getattr(here, field)
            mine = mine.transpose(0, 2, 1) if mine.ndim == 3 else mine
            if field == "final_observations":
                mine, theirs = mine[ended], theirs[ended]
            assert np.array_equal(mine, theirs), field
    kinds = []
    for array in (there.rewards, there.actions, there.terminated):
        capsule = array.__dlpack__(stream=-1)
        tensor = _device._Managed.from_address(_device._pointer(capsule, _device.UNUSED)).tensor
        kinds.append((tensor.code, tensor.bits, tensor.ndim))
    assert kinds == [(2, 64, 2), (0 if outputs > 1 else 2, 32, 2), (6, 8, 2)]
    table = here.actions.astype(kind)
    array = Array(driver, table)
    rewards = read(driver, envs.run(40, array, record=["rewards"], device=True).rewards, np.float64)
    by_table = host.run(40, table, record=["rewards"])
    assert np.array_equal(rewards, by_table.rewards)
    there = envs.run(40, array, record=["rewards", "actions"], device=True)
    assert np.array_equal(read(driver, there.actions, kind), table)
    rewards = read(driver, there.rewards, np.float64)
    assert np.array_equal(rewards, host.run(40, table, record=["rewards"]).rewards)
    for wrong, why in [
        (np.zeros((40, 5), kind), "a table is an array on the GPU"),
        (Array(driver, np.zeros((40, 5))), "f8 on the GPU, want"),
    ]:
        with pytest.raises(TypeError, match=why):
            envs.run(40, wrong, device=True)
    with pytest.raises(ValueError, match="the batched engine has no arrays on a GPU"):
        host.run(3, device=True)
    envs.close()
    with pytest.raises(lockstep.ClosedError):
        there.rewards.__dlpack__()
