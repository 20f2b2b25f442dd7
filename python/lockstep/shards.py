"""Runs in parts, each computed anywhere: the shards of the command line, from Python.

A plan is a folder that all machines see. It says what is to be computed down to the
contents (hashes of network, routes and controllers, profile, engine and its build), so
that a machine that would compute something else refuses. A shard is computed into a file
that appears whole or not at all, named by its content. Merging knows which are missing
and which were computed differently twice, and its hash does not depend on where, in
which order or in how many parts they were computed.

>>> import lockstep, tempfile
>>> from lockstep import shards
>>> folder = tempfile.mkdtemp()
>>> shards.plan(folder, data="own", limit=4, model="own", engine="reference", shards=2).rollouts
4
>>> _ = [shards.run(folder, i) for i in range(2)]
>>> shards.merge(folder).result.costs.shape
(1, 4, 3)
"""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lockstep import _native
from lockstep._progress import Progress, told
from lockstep.controllers import Controllers, specify
from lockstep.errors import SimulationError
from lockstep.simulator import Result, check_limit, check_model, check_paths, count_workers

__all__ = ["Merged", "Plan", "merge", "plan", "run"]


@dataclass(frozen=True)
class Plan:
    """A plan of a run in parts.

    Attributes
    ----------
    folder : str
        Its folder.
    key : str
        The SHA-256 of all that the results follow from.
    rollouts, shards : int
        How many rollouts, in how many parts.
    """

    folder: str
    key: str
    rollouts: int
    shards: int


@dataclass(frozen=True)
class Merged:
    """What the shards of a plan come to.

    Attributes
    ----------
    shards : int
        How many there are.
    missing : list of int
        Those without a file.
    wrong : list of str
        What is wrong, each with its files: damaged ones, those of another plan, and those that
        were computed with different results, so that a machine is broken.
    sha256 : str
        Of the plan and all results; empty where shards are missing or wrong.
    """

    shards: int
    missing: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    sha256: str = ""
    _result: Result | None = None

    @property
    def result(self) -> Result:
        """All results, K controllers on N routes.

        Raises
        ------
        SimulationError
            If shards are missing or wrong.
        """
        if self._result is None:
            problems = list(self.wrong)
            if self.missing:
                problems.append(
                    f"{len(self.missing)} of {self.shards} shards are missing: {self.missing}"
                )
            raise SimulationError("; ".join(problems))
        return self._result


def plan(
    folder: str | os.PathLike[str],
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    controllers: Controllers = "pid",
    shards: int = 1,
    *,
    engine: str = "auto",
    model: str | os.PathLike[str] | None = None,
    profile: str = "host",
    limit: int | None = None,
    seed_prefix: str = "data",
    workers: int | None = None,
) -> Plan:
    """Plan a run in parts. A folder that holds the same plan is left as it is.

    Parameters
    ----------
    folder : path-like
        A folder that all machines see; made if it is not there.
    data : path-like or sequence of them
        Route files and folders of them; ``"own"`` are the project's.
    controllers : str, path-like, array, mapping, or a sequence of these
        Names such as ``"pid"`` and ``"pid_0.3_0.05_-0.1"``, policy files, Python files, gains.
    shards : int
        In how many parts.
    engine, model, profile, workers
        As in :class:`lockstep.Simulator`.
    limit, seed_prefix
        As in :meth:`lockstep.Simulator.load`.

    Raises
    ------
    ValueError
        If the folder holds another plan.
    """
    answer = _native.long_call(
        "plan_shards",
        0,
        out=os.fspath(folder),
        shards=operator.index(shards),
        data=check_paths("data", data),
        controllers=[_name(spec) for spec in specify(controllers, 0)],
        engine=engine,
        model=check_model(model),
        profile=profile,
        limit=check_limit(limit),
        seed_prefix=seed_prefix,
        workers=count_workers(workers),
        python=_native.interpreter(),
        program=os.fspath(_native.file()),
    )
    for notice in answer["notices"] or []:
        warnings.warn(notice, stacklevel=2)
    return Plan(os.fspath(folder), answer["key"], answer["rollouts"], operator.index(shards))


def _name(spec: dict[str, Any]) -> str:
    """What a plan knows a controller by."""
    if "gains" in spec:
        return "_".join([spec["kind"], *map(repr, spec["gains"])])
    if "handle" in spec or "tables" in spec:
        raise TypeError(
            "controllers: a plan has names, files and gains: save the network into a file"
        )
    name: str = spec.get("file", spec["kind"])
    return name


def run(
    folder: str | os.PathLike[str],
    index: int,
    *,
    model: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    workers: int | None = None,
    progress: Progress = None,
) -> str:
    """Compute one part and return its file. One that is there is not computed again.

    Parameters
    ----------
    folder : path-like
        The plan's.
    index : int
        Which part, from 0 on.
    model : path-like
        Where the network is on this machine, if not where it was planned.
    data : path-like or sequence of them
        Where the routes are, likewise.
    workers : int, optional
        Cores to use; by default what OMP_NUM_THREADS says, else what the process may use.
    progress : True, tqdm or callable, optional
        As in :meth:`lockstep.Simulator.rollout`; called with how many of its rollouts have ended.

    Raises
    ------
    SimulationError
        If this machine would compute something else than planned.
    """
    path: str = _native.long_call(
        "run_shard",
        0,
        progress=told(progress),
        out=os.fspath(folder),
        index=index,
        model=check_model(model),
        data=elsewhere(data),
        workers=count_workers(workers),
        python=_native.interpreter(),
        program=os.fspath(_native.file()),
    )
    return path


def elsewhere(data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Where routes are on this machine; none, where they were planned."""
    return [] if data in ((), []) else check_paths("data", data)


def merge(folder: str | os.PathLike[str]) -> Merged:
    """Put the parts of a plan together.

    Parameters
    ----------
    folder : path-like
        The plan's.
    """
    answer = _native.call("merge_shards", out=os.fspath(folder))
    merged = {
        "shards": answer["shards"],
        "missing": answer["missing"] or [],
        "wrong": answer["wrong"] or [],
    }
    if not answer["sha256"]:
        return Merged(**merged)
    k, n = len(answer["controllers"]), len(answer["routes"])
    bits = np.array([int(x, 16) for x in answer["costs"]], dtype=np.uint64)
    result = Result(
        controllers=answer["controllers"],
        routes=answer["routes"],
        costs=bits.view(np.float64).reshape(k, n, 3),
        errors={divmod(int(i), n): SimulationError(text) for i, text in answer["errors"].items()},
    )
    return Merged(**merged, sha256=answer["sha256"], _result=result)
