"""Search gains for all routes (``tune``) and actions for each route (``plan``)."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _native
from lockstep._equality import Bitwise
from lockstep._progress import Progress, told
from lockstep.controllers import TABLE_STEPS, specify
from lockstep.simulator import Routes, some, specify_routes

__all__ = ["Tuned", "fetch", "plan", "tune"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tuned(Bitwise):
    """What a search for gains has come to. ``==`` compares the arrays by their bits.

    Attributes
    ----------
    controller : str
        The best controller's name, which :meth:`Simulator.rollout <lockstep.Simulator.rollout>`
        takes.
    gains : numpy.ndarray
        Its gains.
    history : numpy.ndarray
        Of each generation the best, mean and median objective, shape (G, 3): geometric means of
        the routes' total costs.
    """

    controller: str
    gains: FloatArray
    history: FloatArray


def tune(
    routes: Routes,
    kind: str = "pidff",
    population: int = 24,
    generations: int = 60,
    budget: float = 600.0,
    seed: int = 1,
    progress: Progress = None,
) -> Tuned:
    """Search for the gains of a controller on all routes.

    Parameters
    ----------
    routes : Routes
        The routes; their simulator computes.
    kind : str
        ``"pid"`` or ``"pidff"``.
    population, generations : int
        How many sets of gains are tried together, and how often.
    budget : float
        Seconds. No generation begins that would not end within them, as long as the last one took.
    seed : int
        Of what is drawn.
    progress : True, tqdm or callable, optional
        As in :meth:`lockstep.Simulator.rollout`.
    """
    tell, n = told(progress), some(routes)
    total = operator.index(population) * operator.index(generations) * n
    answer = routes.simulator._handle.long_call(
        "tune",
        progress=None if tell is None else lambda done: tell(done, total),
        **specify_routes(routes),
        kind=_native.text("kind", kind),
        population=population,
        generations=generations,
        budget=float(budget),
        seed=operator.index(seed),
    )
    if tell is not None:  # fewer where the budget has ended it
        done = len(answer["history"]) * operator.index(population) * n
        tell(done, done)
    return Tuned(answer["name"], np.array(answer["gains"]), np.array(answer["history"]))


def plan(
    routes: Routes,
    start: Any = "pid",
    noise: str = "route",
    rounds: int | None = None,
    window: int | None = None,
    horizon: int | None = None,
    seeds: int | None = None,
    seed: int | None = None,
    progress: Progress = None,
) -> FloatArray:
    """Search for the actions of each route.

    Parameters
    ----------
    routes : Routes
        N routes of different names; their simulator computes.
    start : str, path-like, array, mapping or Network
        The controller whose actions the plan begins with.
    noise : {"route", "seeded", "expected"}
        What is tried under. With ``"route"`` the actions know the route's draws, which must be said
        where their costs are reported.
    rounds : int, optional
        With the route's noise of each window, by default 2, else of the whole route, 3.
    window, horizon : int, optional
        With the route's noise alone: steps after which is planned again, by default 5, and that a
        candidate is rolled on, 24.
    seeds : int, optional
        With seeded noise alone: how many a round has, by default 24.
    seed : int, optional
        With seeded noise alone: of what is drawn, by default 1.
    progress : True, tqdm or callable, optional
        As in :meth:`lockstep.Simulator.rollout`.

    Returns
    -------
    numpy.ndarray
        Shape (N, 400), which :meth:`lockstep.Simulator.rollout` takes as ``{"table": actions}``.
    """
    n = some(routes)
    spec = specify(start, n)
    if len(spec) != 1:
        raise ValueError(f"start: {len(spec)} controllers, want one")
    request: dict[str, Any] = {
        "noise": _native.text("noise", noise),
        "rounds": rounds,
        "window": window,
        "horizon": horizon,
        "seeds": seeds,
        "seed": None if seed is None else operator.index(seed),
    }
    total = n * int(_native.call("plan_size", **request))
    tell = told(progress)
    actions = np.zeros((n, TABLE_STEPS))
    routes.simulator._handle.long_call(
        "plan_actions",
        actions,
        progress=None if tell is None else lambda done: tell(done, total),
        **specify_routes(routes),
        **{"from": spec[0]},
        **request,
    )
    if tell is not None:
        tell(total, total)
    return actions


def fetch(what: str, revision: str = "", out: str = "", progress: Progress = None) -> str:
    """Download the challenge's network or routes, and return their path. Nothing is loaded twice.

    Parameters
    ----------
    what : {"model", "data"}
        The network, 4 MB, or the routes, 0.6 GB and 1.2 GB unpacked.
    revision : str
        Of the routes: a commit of their repository, or ``"main"``; by default the one that was
        loaded into the folder before, else ``"main"``.
    out : str
        The folder; by default the user's cache folder, where all look.
    progress : True, tqdm or callable, optional
        As in :meth:`lockstep.Simulator.rollout`, in MB; of how many is not known.
    """
    if what not in ("model", "data"):
        raise ValueError(f'what={what!r:.60}: want "model" or "data"')
    path: str = _native.long_call(
        "fetch", 0, progress=told(progress), what=what, revision=revision, out=out
    )["path"]
    return path
