"""Lockstep: the simulator of comma.ai's controls challenge, the same as Python's in every bit.

>>> import lockstep
>>> sim = lockstep.Simulator()
>>> routes = sim.load("data/", limit=100)          # doctest: +SKIP
>>> sim.rollout(routes, "pid").mean                # doctest: +SKIP
"""

from __future__ import annotations

from lockstep._version import __version__
from lockstep.errors import ClosedError, RouteError, SimulationError
from lockstep.simulator import Result, Route, Routes, Simulator

__all__ = [
    "ClosedError",
    "Result",
    "Route",
    "RouteError",
    "Routes",
    "SimulationError",
    "Simulator",
    "__version__",
]
