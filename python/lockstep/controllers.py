"""What may steer a rollout.

=============================  ================================================================
``"zero"``, ``"pid"``          the challenge's own controllers
``"pid_0.3_0.05_-0.1"``        a kind and its gains, as in reports
``"mine"``                     ``controllers/mine.py``, if no kind is called so
``{"pid": array}``             gains of a kind: one controller, or a row for each
``{"pidff": array}``           the same of PID with feed-forward, (10,) or (K, 10)
array (3,) or (K, 3)           gains P, I, D: short for ``{"pid": array}``
``{"table": array}``           (N, 400), an action for each route and step from 100 on
path to ``.json``, ``.onnx``   a policy file: gains, tables, networks
:class:`Network`               a network, without a file
path to ``.py``                a controller of the challenge's, as it is, in processes of its own
callable                       a function of a :class:`BatchStep`, which steers all routes at once
sequence of these              one after the other, without callables
=============================  ================================================================
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from lockstep._equality import Bitwise
from lockstep._frames import COLUMNS
from lockstep._kinds import GAINS
from lockstep.network import Network
from lockstep.rollouts import (
    CONTEXT_LENGTH,
    CONTROL_START_IDX,
    COST_END_IDX,
    STEER_MAX,
    STEER_MIN,
    Rollouts,
    spread,
)

__all__ = ["BatchStep", "Controllers"]

FloatArray = npt.NDArray[np.float64]

TABLE_STEPS = COST_END_IDX - CONTROL_START_IDX


@dataclass(eq=False)
class BatchStep(Bitwise):
    """What a controller that is a function sees: one step of N routes.

    It is called for every step from 20 on, in order; its answers count from step 100 on.

    Attributes
    ----------
    index : int
        The step.
    target, current : numpy.ndarray
        Target lataccel, and lataccel after the previous step, m/s², shape (N,).
    roll_lataccel, v_ego, a_ego : numpy.ndarray
        The state, in m/s², m/s, m/s², shape (N,).
    plan : list of numpy.ndarray
        Per route what it holds for the next steps, at most 49: ``roll_lataccel, v_ego, a_ego,
        target``, shape (4, rows).
    running : numpy.ndarray
        False for a route that has ended or failed; its other elements mean nothing, shape (N,).
    """

    index: int
    target: FloatArray
    current: FloatArray
    roll_lataccel: FloatArray
    v_ego: FloatArray
    a_ego: FloatArray
    plan: list[FloatArray]
    running: npt.NDArray[np.bool_]


Controllers = Union[
    str,
    "os.PathLike[str]",
    npt.ArrayLike,
    Mapping[str, npt.ArrayLike],
    Sequence[Any],
    Callable[[BatchStep], npt.ArrayLike],
]


def specify(controllers: Any, routes: int) -> list[dict[str, Any]]:
    """The controllers as the library is told of them."""
    if isinstance(controllers, (str, os.PathLike)):
        return [_named(os.fspath(controllers))]
    if isinstance(controllers, Network):
        return [controllers.specify()]
    if isinstance(controllers, Mapping):
        return [
            spec for kind, values in controllers.items() for spec in _kind(kind, values, routes)
        ]
    if isinstance(controllers, Sequence) and any(
        isinstance(c, (str, os.PathLike, np.ndarray, Network, Mapping)) for c in controllers
    ):
        return [spec for c in controllers for spec in specify(c, routes)]
    return _pid(controllers)


def _named(name: str) -> dict[str, Any]:
    there = os.path.join("controllers", f"{name}.py")  # as in the challenge's folder
    if os.path.basename(name) == name and not _has_gains(name) and os.path.isfile(there):
        name = there
    extension = os.path.splitext(name)[1]
    if extension in (".py", ".json", ".onnx"):
        if not os.path.isfile(name):
            raise FileNotFoundError(f"{name}: no such controller")
        kind = "python" if extension == ".py" else "file"
        return {"kind": kind, "file": os.path.abspath(name), "python": sys.executable}
    return {"kind": name}


def _has_gains(name: str) -> bool:
    """Whether a name is that of a kind, with gains or without: then no file is meant."""
    kind, *gains = name.split("_")
    try:
        numbers = [float(gain) for gain in gains]
    except ValueError:
        return False
    return kind in (*GAINS, "zero") and len(numbers) in (0, len(GAINS.get(kind, ())))


def _pid(gains: Any) -> list[dict[str, Any]]:
    """Controllers of an array alone, which has the gains of PID or is refused."""
    try:
        if gains is None or callable(gains):
            raise TypeError
        array = np.asarray(gains, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"controllers: {type(gains).__name__}, want a name, a path, a function, a network, "
            'an array of the gains P, I, D, or a kind with its array, {"pidff": array}'
        ) from None
    width = array.shape[-1] if array.ndim else 0
    if width != len(GAINS["pid"]):
        widths = {kind: len(names) for kind, names in GAINS.items()} | {"table": TABLE_STEPS}
        kinds = [kind for kind in widths if widths[kind] == width] or list(widths)
        known = " or ".join(f'{{"{kind}": array}}' for kind in kinds)
        raise ValueError(
            f"controllers: an array of shape {array.shape} does not say of which kind it is: "
            f"write {known}"
        )
    return _kind("pid", array, 0)


def _kind(kind: Any, values: Any, routes: int) -> list[dict[str, Any]]:
    """One controller for each row of gains of a kind, or one of a table of actions."""
    array = np.asarray(values, dtype=np.float64)
    if kind == "table":
        array = _rows(array, TABLE_STEPS)
        if len(array) != routes:
            raise ValueError(f"controllers: actions for {len(array)} routes, want {routes}")
        return [{"kind": kind, "tables": array.tolist()}]
    if kind not in GAINS:
        raise ValueError(f"controllers: kind {kind!r:.60}, want one of {', '.join(GAINS)}, table")
    rows = _rows(array, len(GAINS[kind]))
    return [{"kind": kind, "gains": row} for row in rows.tolist()]


def _rows(array: FloatArray, width: int) -> FloatArray:
    """Rows of so many finite numbers."""
    rows = array[np.newaxis] if array.ndim == 1 else array
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != width:
        raise ValueError(f"controllers: an array of shape {array.shape}, want (K, {width})")
    if not np.isfinite(rows).all():
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise ValueError(f"controllers[{row}, {column}]: {rows[row, column]}, want a finite number")
    return rows


def distinct(names: list[str], specs: list[dict[str, Any]]) -> list[str]:
    """Make names unique: where two are equal, a file gets its path, any other a number."""
    times = Counter(names)
    full = [
        spec.get("file", name) if times[name] > 1 else name
        for name, spec in zip(names, specs, strict=True)
    ]
    taken, seen = set(full), Counter[str]()
    for i, name in enumerate(full):
        seen[name] += 1
        while seen[name] > 1 and f"{name} ({seen[name]})" in taken:
            seen[name] += 1
        if seen[name] > 1:
            full[i] = f"{name} ({seen[name]})"
            taken.add(full[i])
    return full


def steer(
    rollouts: Rollouts,
    routes: Sequence[object],
    controller: Callable[[BatchStep], npt.ArrayLike],
) -> tuple[FloatArray, FloatArray]:
    """Steer rollouts by a function to their ends, and return histories of lataccel and action.

    The routes are those that they roll out, with the columns of :class:`Route`.
    """
    columns = [np.stack([getattr(route, name) for name in COLUMNS]) for route in routes]
    n, rows = len(columns), max((column.shape[1] for column in columns), default=0)
    padded = np.full((len(COLUMNS), n, rows + 1), np.nan)
    for i, column in enumerate(columns):
        padded[:, i, : column.shape[1]] = column
    lataccel, action = padded[3, :, :rows].copy(), padded[4, :, :rows].copy()
    lataccel[:, CONTEXT_LENGTH:] = np.nan
    action[:, CONTROL_START_IDX:] = np.nan
    np.clip(action[:, CONTEXT_LENGTH:], STEER_MIN, STEER_MAX, out=action[:, CONTEXT_LENGTH:])
    current = lataccel[:, CONTEXT_LENGTH - 1].copy()
    while not rollouts.done:
        i = rollouts.step
        running = rollouts.running
        step = BatchStep(
            index=i,
            target=padded[3, :, i].copy(),
            current=current,
            roll_lataccel=padded[0, :, i].copy(),
            v_ego=padded[1, :, i].copy(),
            a_ego=padded[2, :, i].copy(),
            plan=[column[:4, i + 1 : i + 50].copy() for column in columns],
            running=running.copy(),
        )
        commands = spread(
            np.asarray(controller(step), dtype=np.float64), (n,), "what the controller returned"
        )
        current = rollouts.advance(commands)
        lataccel[running, i] = current[running]
        if i >= CONTROL_START_IDX:
            action[running, i] = np.clip(commands[running], STEER_MIN, STEER_MAX)
    return lataccel, action
