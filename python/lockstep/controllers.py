"""What may steer a rollout.

========================  =====================================================================
``"zero"``, ``"pid"``     the challenge's own controllers
array (3,) or (K, 3)      gains P, I, D of PID controllers
path ending in ``.py``    a controller of the challenge's, as it is, in processes of its own
sequence of these         one after the other
========================  =====================================================================
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt

__all__ = ["Controllers", "specify"]

Controllers = Union[str, "os.PathLike[str]", npt.ArrayLike, Sequence[Any]]

NAMES = ("zero", "pid")


def specify(controllers: Controllers) -> list[dict[str, Any]]:
    """The controllers as the library is told of them."""
    if isinstance(controllers, (str, os.PathLike)):
        return [_named(os.fspath(controllers))]
    if isinstance(controllers, Sequence) and any(isinstance(c, (str, os.PathLike, np.ndarray)) for c in controllers):
        return [spec for c in controllers for spec in specify(c)]
    return _gains(controllers)


def _named(name: str) -> dict[str, Any]:
    if name in NAMES:
        return {"kind": name}
    if name.endswith(".py"):
        if not os.path.isfile(name):
            raise FileNotFoundError(f"{name}: no such controller")
        return {"kind": "python", "file": os.path.abspath(name), "python": sys.executable}
    raise ValueError(f"controller {name!r:.60}: want one of {', '.join(NAMES)}, or a file ending in .py")


def _gains(controllers: Any) -> list[dict[str, Any]]:
    try:
        if controllers is None or callable(controllers):
            raise TypeError
        gains = np.asarray(controllers, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"controllers: {type(controllers).__name__}, want a name, a path, or an array of gains"
        ) from None
    if gains.ndim == 1:
        gains = gains[np.newaxis]
    if gains.ndim != 2 or gains.shape[1] != 3 or not len(gains):
        raise ValueError(f"controllers: an array of shape {np.shape(controllers)}, want (K, 3) for PID")
    if not np.isfinite(gains).all():
        row = int(np.argmin(np.isfinite(gains).all(axis=1)))
        raise ValueError(f"controllers[{row}]: gains {gains[row].tolist()}, want finite numbers")
    return [{"kind": "pid", "params": row} for row in gains.tolist()]
