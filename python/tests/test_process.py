"""What the library does to its process: forks, signals, import orders, memory."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import zipfile

import lockstep
import pytest

COST = """
import lockstep
def cost():
    sim = lockstep.Simulator(engine="reference", model="own")
    return sim.rollout(sim.load("own", limit=1), "pid").sha256
"""


def python(code, timeout=60, before=COST, **environment):
    """Run a program and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", before + textwrap.dedent(code)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def want():
    return python("print(cost())")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_after_use_is_an_error_at_once():
    out = python(
        """
        import os, time
        want = cost()
        sim = lockstep.Simulator(engine="reference", model="own")
        reader, writer = os.pipe()
        if os.fork() == 0:
            start = time.monotonic()
            answers = []
            for use in (lambda: cost(), lambda: sim.load("own")):
                try:
                    use()
                except RuntimeError as e:
                    answers.append("forked" in str(e) and "spawn" in str(e))
            del sim
            os.write(writer, repr((answers, time.monotonic() - start < 30)).encode())
            os._exit(0)
        os.wait()
        print(os.read(reader, 1000).decode(), cost() == want)
        """
    )
    assert out == "([True, True], True) True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_fork_before_use_works(want):
    out = python(
        """
        import os
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, cost().encode())
            os._exit(0)
        os.wait()
        print(os.read(reader, 1000).decode())
        """
    )
    assert out == want


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
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == [want, want]


@pytest.mark.parametrize("order", ["{0}, lockstep", "lockstep, {0}"])
@pytest.mark.parametrize("other", ["torch", "onnxruntime", "pandas"])
def test_import_orders(order, other, want):
    pytest.importorskip(other)
    assert python(f"import {order.format(other)}\nprint(cost())", timeout=180) == want


def interrupted(code):
    """How long a program takes to end after Ctrl-C, and what it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", COST + textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    return time.monotonic() - start, out, err


def test_interrupt_of_a_rollout():
    seconds, out, err = interrupted(
        """
        import numpy as np, time
        sim = lockstep.Simulator(engine="reference", model="own")
        routes = sim.load("own")
        print("ready", flush=True)
        try:
            sim.rollout(routes, np.tile([0.2, 0.1, -0.05], (1000, 1)))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    assert out == "interrupted\n", err
    # Half a second beyond what the end of a process takes that only sleeps, on this machine as busy as it is.
    calibration, out, err = interrupted(
        """
        import time
        import numpy as np
        sim = lockstep.Simulator(engine="reference", model="own")
        print("ready", flush=True)
        try:
            time.sleep(100)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    assert out == "interrupted\n", err
    assert seconds < 0.5 + 3 * calibration, f"{seconds:.2f} s, a process that sleeps takes {calibration:.2f} s"


def test_nothing_is_left(sim, routes):
    """Objects of the library go when Python's do."""
    before = lockstep._native.call("handles")
    for _ in range(50):
        sim.load("own", limit=2)
        sim.rollout(routes[:0], "pid")
        with pytest.raises(ValueError, match="engine"):
            lockstep.Simulator(engine="nonsense")
    assert lockstep._native.call("handles") == before


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
    assert (
        python("import lockstep; print([n for n in lockstep.__all__ if not hasattr(lockstep, n)])", before="") == "[]"
    )
    for code in ("import lockstep, gymnasium", "import gymnasium, lockstep", "import lockstep, gymnasium.spaces"):
        out = python(f"{code}; print(sorted(id for id in gymnasium.registry if id.startswith('lockstep/')))", before="")
        assert "lockstep/Controls-v0" in out
        assert "lockstep/Pendulum-v1" in out
