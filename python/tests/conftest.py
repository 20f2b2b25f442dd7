"""What tests share: simulators, routes, and where the challenge's own files are."""

import gc
import importlib.util
import os
from pathlib import Path

import lockstep
import pytest

REPOSITORY = Path(__file__).parents[2]

# Seconds that a program of a test may take. No machine is too slow for it: it ends what hangs.
PATIENCE = 1800


def example(name):
    """A program of python/examples, imported."""
    path = REPOSITORY / "python" / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assets():
    """The folder with the challenge's network and routes, or None."""
    folders = [os.environ["LOCKSTEP_ASSETS"]] if "LOCKSTEP_ASSETS" in os.environ else []
    folders += [REPOSITORY / "assets"]
    found = [Path(f) for f in folders if (Path(f) / "tinyphysics.onnx").exists()]
    if not found and os.environ.get("LOCKSTEP_REQUIRE_ASSETS") == "1":
        raise FileNotFoundError(
            "the challenge's files are required and not here: set LOCKSTEP_ASSETS"
        )
    return found[0] if found else None


@pytest.fixture(scope="session")
def official():
    """The challenge's network and routes."""
    folder = assets()
    if folder is None:
        pytest.skip("needs the challenge's files: set LOCKSTEP_ASSETS")
    return folder


@pytest.fixture(scope="session")
def sim():
    """The project's own network on the engine that every machine has."""
    with lockstep.Simulator(engine="reference", model="own") as simulator:
        yield simulator


@pytest.fixture
def handles():
    """A function that counts the library's objects; those of earlier tests' garbage are gone.

    Where the garbage were collected in between, fewer would be left than there were before.
    """
    gc.collect()
    return lambda: lockstep._native.call("handles")


@pytest.fixture(scope="session")
def routes(sim):
    """Twenty generated routes."""
    return sim.load("own")


def write_route(path, rows, scale=1.0):
    """Write a route of some rows that no other is like."""
    lines = ["t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand"]
    for i in range(rows):
        target = scale * ((i * 37 % 101) / 101 - 0.5)
        lines.append(
            f"{i / 10},{20 + i % 7 / 3},{(i % 5 - 2) / 10},{(i % 11 - 5) / 300},"
            f"{target},{target / 4}"
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def short_routes(sim, tmp_path_factory):
    """Routes of 104 to 131 rows, all of different lengths, and so cheap."""
    folder = tmp_path_factory.mktemp("routes")
    for i, rows in enumerate([104, 131, 107, 119, 112]):
        write_route(folder / f"{i:05}.csv", rows, 1 + i / 3)
    return sim.load(folder, cache=False)


@pytest.fixture(scope="session")
def tiny_routes(sim, tmp_path_factory):
    """Routes of 2 to 9 steps that are driven, so that episodes end all the time."""
    folder = tmp_path_factory.mktemp("tiny")
    for i, rows in enumerate([102, 109, 103, 106, 104]):
        write_route(folder / f"{i:05}.csv", rows, 1 + i / 3)
    return sim.load(folder, cache=False)


def pytest_addoption(parser):
    parser.addoption(
        "--histories", type=int, default=15, help="how many of calls in any order; 1000: every pair"
    )


@pytest.fixture(scope="session")
def histories(request):
    """How many histories a machine of them makes."""
    return request.config.getoption("--histories")
