"""Lockstep: the simulator of comma.ai's controls challenge, the same as Python's in every bit.

>>> import lockstep
>>> sim = lockstep.Simulator()
>>> routes = sim.load("data/", limit=100)          # doctest: +SKIP
>>> sim.rollout(routes, "pid").mean                # doctest: +SKIP
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from lockstep._register import when_imported
from lockstep._version import __version__

if TYPE_CHECKING:
    from lockstep._device import DeviceArray
    from lockstep.controllers import BatchStep
    from lockstep.envs import Env, VectorEnv
    from lockstep.errors import ClosedError, RouteError, SimulationError
    from lockstep.network import Network
    from lockstep.parity import BatchedSimulator, Comparison, TraceWriter, compare, compare_traces
    from lockstep.rollouts import Candidates, Rollouts, Snapshot
    from lockstep.search import Tuned, fetch, plan, tune
    from lockstep.simulator import Result, Route, Routes, Simulator, generate
    from lockstep.tinyphysics import TinyPhysicsModel, TinyPhysicsSimulator, run_rollout
    from lockstep.training import Experience

__all__ = [
    "BatchStep",
    "BatchedSimulator",
    "Candidates",
    "ClosedError",
    "Comparison",
    "DeviceArray",
    "Env",
    "Experience",
    "Network",
    "Result",
    "Rollouts",
    "Route",
    "RouteError",
    "Routes",
    "SimulationError",
    "Simulator",
    "Snapshot",
    "TinyPhysicsModel",
    "TinyPhysicsSimulator",
    "TraceWriter",
    "Tuned",
    "VectorEnv",
    "__version__",
    "compare",
    "compare_traces",
    "fetch",
    "generate",
    "plan",
    "run_rollout",
    "tune",
]


# Modules are imported when they or what is in them is first asked for, so that NumPy is, and
# Gymnasium only for environments.
_MODULES = {
    "_device": ["DeviceArray"],
    "controllers": ["BatchStep"],
    "envs": ["Env", "VectorEnv"],
    "errors": ["ClosedError", "RouteError", "SimulationError"],
    "network": ["Network"],
    "parity": ["BatchedSimulator", "Comparison", "TraceWriter", "compare", "compare_traces"],
    "rollouts": ["Candidates", "Rollouts", "Snapshot"],
    "search": ["Tuned", "fetch", "plan", "tune"],
    "simulator": ["Result", "Route", "Routes", "Simulator", "generate"],
    "tinyphysics": ["TinyPhysicsModel", "TinyPhysicsSimulator", "run_rollout"],
    "training": ["Experience"],
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        if name.isidentifier() and importlib.util.find_spec(f"lockstep.{name}") is not None:
            return importlib.import_module(f"lockstep.{name}")
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"lockstep.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


when_imported()
