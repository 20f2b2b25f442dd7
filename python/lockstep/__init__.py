"""Lockstep: the simulator of comma.ai's controls challenge, the same as Python's in every bit.

>>> import lockstep
>>> sim = lockstep.Simulator()
>>> routes = sim.load("data/", limit=100)          # doctest: +SKIP
>>> sim.rollout(routes, "pid").mean                # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep._device import DeviceArray
from lockstep._register import when_imported
from lockstep._version import __version__
from lockstep.controllers import BatchStep
from lockstep.errors import ClosedError, RouteError, SimulationError
from lockstep.network import Network
from lockstep.parity import BatchedSimulator, Comparison, compare
from lockstep.rollouts import Candidates, Rollouts, Snapshot
from lockstep.simulator import Result, Route, Routes, Simulator, generate
from lockstep.tinyphysics import TinyPhysicsModel, TinyPhysicsSimulator, run_rollout
from lockstep.training import Experience

if TYPE_CHECKING:
    from lockstep.envs import Env, VectorEnv

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
    "VectorEnv",
    "__version__",
    "compare",
    "generate",
    "run_rollout",
]


def __getattr__(name: str) -> Any:
    if name in ("Env", "VectorEnv"):  # which need Gymnasium
        from lockstep import envs

        return getattr(envs, name)
    raise AttributeError(f"module 'lockstep' has no attribute {name!r}")


when_imported()
