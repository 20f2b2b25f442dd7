"""Lockstep: the simulator of comma.ai's controls challenge, the same as Python's in every bit.

>>> import lockstep
>>> sim = lockstep.Simulator()
>>> routes = sim.load("data/", limit=100)          # doctest: +SKIP
>>> sim.rollout(routes, "pid").mean                # doctest: +SKIP
"""

from __future__ import annotations

from lockstep._version import __version__
from lockstep.controllers import BatchStep
from lockstep.errors import ClosedError, RouteError, SimulationError
from lockstep.rollouts import Candidates, Rollouts, Snapshot
from lockstep.simulator import Result, Route, Routes, Simulator

__all__ = [
    "BatchStep",
    "Candidates",
    "ClosedError",
    "Result",
    "Rollouts",
    "Route",
    "RouteError",
    "Routes",
    "SimulationError",
    "Simulator",
    "Snapshot",
    "__version__",
]
