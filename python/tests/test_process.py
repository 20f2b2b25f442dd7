"""What the library does to its process: forks, signals, import orders, memory."""

import contextlib
import copy
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
import warnings
import zipfile
from pathlib import Path

import gymnasium
import lockstep
import numpy as np
import pytest
from conftest import PATIENCE
from lockstep import classic

COST = """
import lockstep
def cost():
    sim = lockstep.Simulator(engine="reference", model="own")
    return sim.rollout(sim.load("own", limit=1), "pid").sha256
"""


def python(code, before=COST, **environment):
    """Run a program, return what it prints. An environment variable that is None is unset."""
    done = subprocess.run(
        [sys.executable, "-c", before + textwrap.dedent(code)],
        env={
            name: value for name, value in (os.environ | environment).items() if value is not None
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def want():
    return python("print(cost())")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_after_use():
    """What a child process makes works there; what its parent made is refused by name."""
    out = python(
        f"""
        import os, signal
        want = cost()
        sim = lockstep.Simulator(engine="reference", model="own")
        rollouts = sim.reset(sim.load("own", limit=1))
        reader, writer = os.pipe()
        if os.fork() == 0:
            signal.alarm({PATIENCE // 2})
            answers = [cost() == want]
            for use in (lambda: sim.load("own"), lambda: rollouts.advance([0.0])):
                try:
                    use()
                except RuntimeError as e:
                    answers.append("forked" in str(e) and "spawn" in str(e))
            own = [lockstep.Simulator(engine="reference", model="own") for _ in range(9)]
            numbers = [sim._handle._handle, rollouts._handle._handle]
            answers.append(set(numbers) <= {{each._handle.id for each in own}})
            del sim, rollouts  # which closes nothing of the child's
            [each.stats for each in own]
            if os.fork() == 0:
                os._exit(0 if cost() == want else 1)
            answers.append(os.wait()[1])
            os.write(writer, repr(answers).encode())
            os._exit(0)
        os.close(writer)
        print(os.read(reader, 1000).decode(), os.wait()[1], cost() == want)
        """
    )
    assert out == "[True, True, True, True, 0] 0 True"


def test_copies_are_refused(sim, short_routes):
    """A copy would be of a number alone, and closed with the first of the two."""
    network = lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
    rollouts, one = sim.reset(short_routes), classic.Env("CartPole-v1")
    one.reset(seed=1)
    things = [sim, short_routes, network, rollouts, rollouts.snapshot()]
    things += [rollouts.snapshot().fork([0], "route"), sim.collect(network, short_routes[:1])]
    things += [lockstep.VectorEnv(2, short_routes), lockstep.Env(short_routes)]
    things += [one, one.snapshot(), classic.VectorEnv("CartPole-v1", 2)]
    for thing in things:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="neither copied nor pickled"):
                way(thing)
    kinds = lockstep._native.Uncopied.__subclasses__()
    for kind in kinds:
        kinds += kind.__subclasses__()
    public = {k for k in kinds if k.__name__ in getattr(sys.modules[k.__module__], "__all__", [])}
    assert public == set(map(type, things))


def test_data_goes_to_other_processes(sim, short_routes, tmp_path):
    """What is no memory of the library's, and errors, as multiprocessing sends them: whole."""
    (tmp_path / "a.csv").write_text("t,vEgo\n1,x\n")
    with pytest.raises(lockstep.RouteError) as caught:
        sim.load(tmp_path)
    failed = sim.rollout(short_routes[:2], lambda step: [0.1, np.nan], trajectory=True)
    envs = classic.VectorEnv("Pendulum-v1", 2)
    envs.reset(seed=1)
    policy = classic.Network([[[1.0] * 3]], [[0.5]], classic.Network.gumbel(2), 3)
    for thing in (
        *(caught.value, lockstep.ClosedError("closed"), failed.errors[0, 1]),
        *(failed, short_routes[0], envs.run(2), policy, lockstep.shards.Merged(3, [1], ["bad"])),
    ):
        got = pickle.loads(pickle.dumps(thing))
        assert type(got) is type(thing)
        assert (str(got), pickle.dumps(got)) == (str(thing), pickle.dumps(thing))


def test_close_during_a_rollout():
    """Ends it, in the thread that waits for it."""
    out = python(
        """
        import threading
        import numpy as np
        sim = lockstep.Simulator(engine="batched", model="own", workers=1)
        routes, many = sim.load("own"), np.tile([0.2, 0.1, -0.05], (1000, 1))
        closer = threading.Thread(target=sim.close)
        try:
            sim.rollout(routes, many, progress=lambda done, of: closer.ident or closer.start())
        except lockstep.ClosedError as e:
            closer.join()
            print("closed" in str(e))
        """
    )
    assert out == "True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_before_use_works(want):
    """Without a copy of the library, for which there may be no place that programs run from."""
    out = python(
        """
        import os
        lockstep._native._open_copy = None
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, cost().encode())
            os._exit(0)
        os.close(writer)
        os.wait()
        print(os.read(reader, 1000).decode())
        """
    )
    assert out == want


@pytest.mark.parametrize("lacking", ["os.memfd_create", "os.path.isdir", None])
def test_the_library_is_loaded_once_more(lacking, tmp_path, monkeypatch):
    """From memory, or from a file that is gone then; all of it."""
    out = python(
        f"""
        import os
        from lockstep import _native
        if {lacking == "os.memfd_create"}:
            del os.memfd_create
        if {lacking == "os.path.isdir"}:
            os.path.isdir = lambda path: False
        library = _native._open_copy(_native.file())
        print(library._name.startswith("/proc/"), library._name.endswith(_native.file().suffix))
        print(library.lockstep_version is not None, os.listdir({str(tmp_path)!r}))
        """,
        before="",
        TMPDIR=str(tmp_path),
    )
    where = "True False" if lacking is None and hasattr(os, "memfd_create") else "False True"
    assert out == f"{where}\nTrue []"
    few = tmp_path / "few.so"
    few.write_bytes(b"some bytes")
    monkeypatch.setattr(lockstep._native.ctypes, "CDLL", lambda name: Path(name).read_bytes())
    assert lockstep._native._open_copy(few) == b"some bytes"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_multiprocessing(method, tmp_path, want):
    program = tmp_path / "program.py"
    program.write_text(
        COST + "if __name__ == '__main__':\n"
        "    import multiprocessing\n"
        "    cost()\n"
        f"    with multiprocessing.get_context({method!r}).Pool(2) as pool:\n"
        "        print(*pool.starmap(cost, [()] * 2))\n"
    )
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout.split() == [want, want]


@pytest.mark.parametrize("order", ["{0}, lockstep", "lockstep, {0}"])
@pytest.mark.parametrize("other", ["torch", "onnxruntime", "pandas"])
def test_import_orders(order, other, want):
    pytest.importorskip(other)
    assert python(f"import {order.format(other)}\nprint(cost())") == want


def test_interrupt_of_a_rollout():
    """Half a second after Ctrl-C at most, in time of the CPU, which other programs do not take."""
    out = python(
        """
        import os, signal, threading, time
        import numpy as np
        # who runs the tests in the background may have them ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sim = lockstep.Simulator(engine="reference", model="own", workers=1)
        routes = sim.load("own")
        went_on, at = threading.Event(), []

        def interrupt():
            went_on.wait()
            at.append(time.process_time())
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        try:
            gains = np.tile([0.2, 0.1, -0.05], (1000, 1))
            sim.rollout(routes, gains, progress=lambda done, of: went_on.set())
        except KeyboardInterrupt:
            print(time.process_time() - at[0])
        """
    )
    assert 0 <= float(out) < 0.5


def test_an_interrupt_leaves_nothing(sim, short_routes, handles, monkeypatch):
    """Not even where it comes after the library is done, and before Python knows."""
    lib, network = lockstep._native.library(), lockstep.Network([np.zeros((2, 256))], [np.zeros(2)])
    rollouts = sim.reset(short_routes)
    snapshot, before = rollouts.snapshot(), handles()
    wait = lib.lockstep_wait

    def interrupt(task, milliseconds):
        while wait(task, milliseconds) >= 0:
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(lib, "lockstep_wait", interrupt)
    for call in (
        lambda: sim.reset(short_routes),
        lambda: sim.load(short_routes.files),
        lambda: sim.collect(network, short_routes),
        rollouts.snapshot,
        lambda: snapshot.fork([0], "route"),
        lambda: rollouts.restore(snapshot),  # which makes nothing
    ):
        with pytest.raises(KeyboardInterrupt):
            call()
        assert handles() == before


def test_an_interrupt_leaves_the_step_known(sim, short_routes, monkeypatch):
    """What it breaks off may be done all the same: Python is where the library is, or asks for a
    reset."""
    lib = lockstep._native.library()

    @contextlib.contextmanager
    def interrupted(of=lib, name="lockstep_wait", until=lambda answer: answer < 0):
        call = getattr(of, name)

        def ends(*given):
            while not until(call(*given)):
                pass
            raise KeyboardInterrupt

        with monkeypatch.context() as m:
            m.setattr(of, name, ends)
            try:
                yield
            except KeyboardInterrupt:
                return
        pytest.fail("nothing was interrupted")

    def now(of, name):
        return interrupted(of, name, lambda answer: True)

    for n in (2, 300):
        routes, actions, few = short_routes[[0, 2] * (n // 2)], np.full(n, 0.1), n == 2
        rollouts, others = sim.reset(routes), sim.reset(routes)
        begin = rollouts.snapshot()
        before = others.lataccel
        with now(rollouts, "_native_step") if few else interrupted():
            rollouts.advance(actions)
        want = others.advance(actions)
        assert (rollouts.step, rollouts.lataccel.tobytes()) == (101, want.tobytes())
        with interrupted():
            rollouts.restore(begin)
        assert (rollouts.step, rollouts.lataccel.tobytes()) == (100, before.tobytes())
        assert rollouts.advance(actions).tobytes() == want.tobytes()

        envs = lockstep.VectorEnv(n, routes)
        first = envs.reset(seed=1)[0]
        with now(lib, "lockstep_episodes_step") if few else interrupted():
            envs.step(actions)
        with pytest.raises(gymnasium.error.ResetNeeded):
            envs.step(actions)
        assert envs.reset(seed=1)[0].tobytes() == first.tobytes()
        with interrupted():
            envs.reset(options={"reset_mask": np.arange(n) == 1})
        with pytest.raises(gymnasium.error.ResetNeeded):
            envs.step(actions)
    candidates = begin.fork([0, 1], "route")
    with interrupted():
        candidates.roll(np.zeros((3, 2)))
    assert candidates.step == 103

    space = gymnasium.spaces.Box(-9, 9, (1,))
    one, other = (
        lockstep.Env(short_routes, lambda r, _: r.lataccel[:, None], observation_space=space)
        for _ in range(2)
    )
    for env in (one, other):
        env.reset(seed=1)
        with now(lib, "lockstep_episodes_step") if env is one else contextlib.nullcontext():
            env.step([0.1])
    assert one.step([0.1])[0].tobytes() == other.step([0.1])[0].tobytes()


def test_the_environment_is_python_s_of_now(sim, tmp_path, monkeypatch):
    """Not what it was when the library was loaded: what is set, changed and taken away since."""
    for name in ("a", "b=c"):
        (tmp_path / name).mkdir()
        shutil.copy(sim.model, tmp_path / name / "tinyphysics.onnx")
        monkeypatch.setenv("LOCKSTEP_ASSETS", str(tmp_path / name))
        network = str(tmp_path / name / "tinyphysics.onnx")
        plan = tmp_path / name / "plan"
        with pytest.warns(UserWarning, match="is not the challenge's network"):
            lockstep.shards.plan(plan, "own", limit=1, engine="reference")
        assert json.loads((plan / "inputs.json").read_text())["model"] == network
        with pytest.warns(UserWarning, match="is not the challenge's network"):
            assert lockstep.Simulator(engine="reference").model == network
    monkeypatch.setenv("LOCKSTEP_ASSETS", str(tmp_path))  # where it is not, no other is taken
    with pytest.raises(lockstep.SimulationError, match="LOCKSTEP_ASSETS"):
        lockstep.Simulator(engine="reference")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LOCKSTEP_ASSETS")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the challenge's is not at hand
        assert not lockstep.Simulator(engine="reference").model.startswith(str(tmp_path))


def test_a_request_has_no_more_than_its_fields(sim):
    """Which would be passed over."""
    for call in (
        lambda: lockstep._native.call("plan_size", noise="route", none=1),
        lambda: lockstep._native.long_call("merge_shards", 0, out="x", none=1),
        lambda: sim._handle.call("stats", none=1),
    ):
        with pytest.raises(ValueError, match='unknown field "none"'):
            call()


def test_threads_take_turns(sim, short_routes, handles):
    """Rollouts that another thread advances are refused; closing them lets it finish its step."""
    many = short_routes[[0, 2] * 150]
    with sim.reset(short_routes[[0, 2]]) as pair:
        want = np.tile(pair.advance([0.1, 0.1]), 150)
    snapshot = sim.reset(many).snapshot()
    before = handles()
    rollouts = sim.reset(many)
    got = []

    def advance():
        # Where it was closed before the library had begun.
        with contextlib.suppress(lockstep.ClosedError):
            got.append(rollouts.advance(np.full(300, 0.1)))

    thread = threading.Thread(target=advance)
    with rollouts._turn:
        for use in (
            lambda: rollouts.advance(np.zeros(300)),
            lambda: rollouts.advance(np.zeros(300), out=np.empty(300)),
            lambda: rollouts.restore(snapshot),
        ):
            with pytest.raises(RuntimeError, match="another thread"):
                use()
    assert rollouts.step == 100
    thread.start()
    while not rollouts._turn._lock.locked() and thread.is_alive():
        pass
    rollouts.close()
    thread.join()
    assert all(x.tobytes() == want.tobytes() for x in got)
    with pytest.raises(lockstep.ClosedError):
        rollouts.advance(np.zeros(300))
    assert handles() == before


def test_nothing_is_left(sim, routes, handles):
    """Objects of the library go when Python's do."""
    before = handles()
    for _ in range(50):
        sim.load("own", limit=2)
        sim.rollout(routes[:0], "pid")
        with pytest.raises(ValueError, match="engine"):
            lockstep.Simulator(engine="nonsense")
    assert handles() == before


def test_answers_are_given_back(sim, short_routes, monkeypatch):
    """Each text of the library's once, also one that is an error."""
    lib, freed = lockstep._native.library(), []
    free = lib.lockstep_free
    monkeypatch.setattr(lib, "lockstep_free", lambda text: freed.append(text) or free(text))
    for n, call in enumerate([
        lambda: lockstep._native.call("schema"),
        lambda: sim.rollout(short_routes[:0], "pid"),
        lambda: sim.rollout(short_routes[:1], "nobody"),
    ], 1):  # fmt: skip
        with contextlib.suppress(ValueError):
            call()
        assert len(freed) == n


def test_what_is_closed_is_given_back(sim, short_routes, handles):
    """While Python holds it still; closed twice, and by the end of a with, where it has one."""
    network, rollouts = (
        lockstep.Network([np.zeros((2, 256))], [np.zeros(2)]),
        sim.reset(short_routes),
    )
    snapshot, one = rollouts.snapshot(), short_routes[:1]

    def begun(envs):
        envs.reset(seed=1)
        return envs

    for make in (
        lambda: lockstep.Simulator(engine="reference", model="own"),
        lambda: sim.reset(one),
        lambda: snapshot.fork([0], "route"),
        lambda: sim.collect(network, one),
        lambda: begun(lockstep.Env(one)),
        lambda: begun(lockstep.VectorEnv(2, one)),
        lambda: begun(classic.Env("CartPole-v1")),
        lambda: begun(classic.VectorEnv("CartPole-v1", 2)),
    ):
        before = handles()
        held, left = make(), make()
        assert handles() > before, held
        held.close()
        held.close()
        with left if hasattr(left, "__exit__") else contextlib.closing(left):
            pass
        assert handles() == before, held
        if isinstance(held, (lockstep.Env, lockstep.VectorEnv)):  # which begin again
            begun(held).close()
            assert handles() == before, held


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="for want of /proc/self/task")
def test_no_process_is_left(sim, short_routes, tmp_path):
    """A controller's ends with the call that runs it, also where that is refused."""

    def children():
        found = [file.read_text().split() for file in Path("/proc/self/task").glob("*/children")]
        return {pid for some in found for pid in some}

    mine = tmp_path / "mine.py"
    mine.write_text("class Controller:\n    def update(self, *_, **named):\n        return 0.25\n")
    before, route = children(), short_routes[:1]
    assert not sim.rollout(route, mine).errors
    assert children() == before
    lockstep.plan(route, mine, rounds=1, window=2, horizon=2)
    assert children() == before
    with pytest.raises(ValueError, match="network"):
        sim.collect(mine, route)
    assert children() == before


def test_library_of_another_version(tmp_path):
    package = os.path.dirname(lockstep.__file__)
    archive = tmp_path / "copy.zip"
    with zipfile.ZipFile(archive, "w") as z:
        for name in os.listdir(package):
            if os.path.isfile(os.path.join(package, name)):
                z.write(os.path.join(package, name), "lockstep/" + name)
    with zipfile.ZipFile(archive) as z:
        z.extractall(tmp_path)
    (tmp_path / "lockstep" / "_version.py").write_text("__version__ = '99.0'\n")
    out = python(
        f"""
        import sys
        for name in [n for n in sys.modules if n.startswith("lockstep")]:
            del sys.modules[name]
        sys.path.insert(0, {str(tmp_path)!r})
        import lockstep
        try:
            lockstep.Simulator()
        except ImportError as e:
            print("99.0" in str(e), "pip install" in str(e))
        """
    )
    assert out == "True True"


def test_panics_become_errors(sim):
    """A mistake on the other side is an exception, never the end of the interpreter."""
    with pytest.raises(lockstep.SimulationError, match="no method"):
        lockstep._native.call("nonsense")
    with pytest.raises(lockstep.SimulationError, match="panic: as was asked for"):
        lockstep._native.call("panic")


def test_registers_when_gymnasium_is_imported():
    """Importing lockstep does not import it, and the order does not matter."""
    loaded = "import sys, lockstep; print([m for m in ('gymnasium', 'numpy') if m in sys.modules])"
    assert python(loaded, before="") == "[]"
    names = """
    import lockstep
    print([n for n in lockstep.__all__ if n not in dir(lockstep) or not hasattr(lockstep, n)])
    print(hasattr(lockstep, "nothing"), hasattr(lockstep, "no name"), lockstep.shards.__name__)
    """
    assert python(names, before="") == "[]\nFalse False lockstep.shards"
    for code in (
        "import lockstep, gymnasium",
        "import gymnasium, lockstep",
        "import lockstep, gymnasium.spaces",
    ):
        out = python(
            f"{code}; print(sorted(id for id in gymnasium.registry if id.startswith('lockstep/')))",
            before="",
        )
        assert "lockstep/Controls-v0" in out
        assert "lockstep/Pendulum-v1" in out
    without = """
    import sys, lockstep
    sys.path.clear()
    try:
        import gymnasium
    except ModuleNotFoundError as e:
        print(e)
    """
    assert python(without, before="") == "No module named 'gymnasium'"


def test_a_network_that_is_not_the_challenge_s_is_warned_of(tmp_path):
    """As the command line does: where the file is another network, and where there is none."""
    code = """
    import warnings
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sim = lockstep.Simulator(engine="reference")
        lockstep.Simulator(engine="reference", model=sim.model)  # what is asked for
    assert sim.notices == [str(caught[0].message)]
    print(len(caught), caught[0].category.__name__, caught[0].filename, caught[0].message)
    """
    own = python("print(lockstep.Simulator(model='own').model)")
    shutil.copy(own, tmp_path / "tinyphysics.onnx")
    out = python(code, LOCKSTEP_ASSETS=str(tmp_path))
    assert out.startswith(
        f"1 UserWarning <string> {tmp_path}/tinyphysics.onnx is not the challenge's network"
    )
    assert "not comparable" in out
    (tmp_path / "elsewhere").mkdir()
    code = f"""
    import os
    os.chdir({str(tmp_path / "elsewhere")!r})
    {code}"""
    out = python(
        textwrap.dedent(code), LOCKSTEP_ASSETS=None, XDG_CACHE_HOME=str(tmp_path / "elsewhere")
    )
    assert out.startswith("1 UserWarning <string> using the project's own network")


def test_without_a_home(tmp_path, want):
    """What is kept is in the folder for temporary files, where nobody else can write."""
    homeless = {"HOME": None, "XDG_CACHE_HOME": None, "TMPDIR": str(tmp_path)}
    assert python("print(cost())", **homeless) == want
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    out = python("try: cost()\nexcept lockstep.SimulationError as e: print(e)", **homeless)
    assert "want a folder of this user's" in out
    assert "set HOME" in out


def test_a_cache_folder_that_cannot_be_written_to(tmp_path):
    """The message says what to set."""
    (tmp_path / "file").write_text("")
    out = python(
        "try: cost()\nexcept Exception as e: print(e)", XDG_CACHE_HOME=str(tmp_path / "file")
    )
    assert "the project's own network and routes: mkdir" in out
    assert "set HOME, or on Linux XDG_CACHE_HOME, to a folder" in out
