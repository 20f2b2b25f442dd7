"""Routes that are in memory already: DataFrames, other mappings of columns, and Route objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COLUMNS", "columns", "named"]

COLUMNS = ("roll_lataccel", "v_ego", "a_ego", "target_lataccel", "steer_command")
IN_FILES = ("roll", "vEgo", "aEgo", "targetLateralAcceleration", "steerCommand")


def _is_route(value: Any) -> bool:
    return not hasattr(value, "columns") and all(hasattr(value, name) for name in COLUMNS)


def _is_frame(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(set(names) <= set(value) for names in (COLUMNS, IN_FILES))
    return _is_route(value) or (hasattr(value, "columns") and hasattr(value, "__getitem__"))


def named(given: Any) -> dict[str, Any] | None:
    """Tables by their names, or None where something else is given."""
    if _is_frame(given):
        given = [given]
        default = "frame"
    elif isinstance(given, Mapping):
        if len({str(name).removesuffix(".csv") for name in given}) < len(given):
            raise ValueError(f"routes of the same name: {', '.join(map(repr, given))}")
        return {str(name): frame for name, frame in given.items()}
    elif isinstance(given, Sequence) and len(given) and all(map(_is_frame, given)):
        default = "frame{}"
    else:
        return None
    tables = {
        frame.name if _is_route(frame) else default.format(i): frame
        for i, frame in enumerate(given)
    }
    if len(tables) < len(given):
        raise ValueError("routes of the same name: give a dict with a name of its own for each")
    return tables


def columns(name: str, frame: Any) -> tuple[npt.NDArray[np.float64], bool]:
    """The five columns of a table, shape (5, rows), and whether they are as files have them."""
    if not _is_frame(frame):
        raise TypeError(f"{name}: {type(frame).__name__}, want a DataFrame")
    if _is_route(frame):
        return np.stack([getattr(frame, column) for column in COLUMNS]), False
    there = set(frame) if isinstance(frame, Mapping) else set(frame.columns)
    raw = not set(COLUMNS) <= there
    for column in IN_FILES if raw else ():
        if column not in there:
            raise ValueError(
                f"{name}: no column {column!r}: want {', '.join(IN_FILES)} as files have them, "
                f"or {', '.join(COLUMNS)}"
            )
    values = []
    for column in IN_FILES if raw else COLUMNS:
        try:
            values.append(np.asarray(frame[column], dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {column}: {error}") from None
        if values[-1].ndim != 1 or len(values[-1]) != len(values[0]):
            shape = values[-1].shape
            raise ValueError(f"{name}: {column}: shape {shape}, want ({len(values[0])},)")
    return np.stack(values), raw
