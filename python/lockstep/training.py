"""What rollouts with a network leave for training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _native
from lockstep.rollouts import CONTROL_START_IDX, COST_END_IDX, FEATURES

__all__ = ["Experience"]

STEPS = COST_END_IDX - CONTROL_START_IDX


class Experience:
    """Rollouts driven by a network. Made by :meth:`lockstep.Simulator.collect`.

    All arrays begin with (R, 400): R rollouts, and the steps from 100 on; 0 where a rollout had no
    such step or failed. Rollout k·N + i is sample k of route i.

    Attributes
    ----------
    raw : numpy.ndarray
        The Beta variate in (0, 1), float32, shape (R, 400).
    softplus : numpy.ndarray
        The Beta's parameters less 1, float32, shape (R, 400, 2).
    reward : numpy.ndarray
        float32, shape (R, 400); the sum over a rollout is minus its total cost.
    lataccel : numpy.ndarray
        m/s² after the step, float64, shape (R, 400).
    action : numpy.ndarray
        Steer commands after clipping, float64, shape (R, 400).
    costs : numpy.ndarray
        ``lataccel_cost, jerk_cost, total_cost``, float64, shape (R, 3); NaN where a rollout failed.
    steps : numpy.ndarray
        How many steps each rollout has, shape (R,); 0 if it failed.
    errors : dict
        Why rollouts failed.
    """

    def __init__(self, handle: _native.Handle, answer: dict[str, Any]) -> None:
        self._handle = handle
        self.steps = np.asarray(answer["steps"], dtype=np.intp)
        self.errors = {int(i): _native.error(failure) for i, failure in answer["errors"].items()}
        n = len(self.steps)
        buffer = np.empty(8 * n * (2 * STEPS + 3) + 4 * n * 4 * STEPS, dtype=np.uint8)
        handle.call("gather", buffer)
        wide = buffer[: 8 * n * (2 * STEPS + 3)].view(np.float64)
        narrow = buffer[8 * n * (2 * STEPS + 3) :].view(np.float32)
        m = n * STEPS
        self.lataccel = wide[:m].reshape(n, STEPS)
        self.action = wide[m : 2 * m].reshape(n, STEPS)
        self.costs = wide[2 * m :].reshape(n, 3)
        self.raw = narrow[:m].reshape(n, STEPS)
        self.softplus = narrow[m : 3 * m].reshape(n, STEPS, 2)
        self.reward = narrow[3 * m :].reshape(n, STEPS)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """All places that rollouts reached, as numbers 400·rollout + step."""
        return np.flatnonzero(np.arange(STEPS) < self.steps[:, np.newaxis]).astype(np.int64)

    def observe(self, places: npt.ArrayLike | None = None) -> npt.NDArray[np.float32]:
        """Compute what the network saw, for all places or for a minibatch: the same bits.

        Parameters
        ----------
        places : array_like of int, optional
            Numbers 400·rollout + step, shape (B,); by default all.

        Returns
        -------
        numpy.ndarray
            float32, shape (B, 256).
        """
        numbers = self.places if places is None else np.ascontiguousarray(places, dtype=np.int64)
        if numbers.ndim != 1:
            raise ValueError(f"places: shape {numbers.shape}, want (B,)")
        n = len(numbers)
        buffer = np.empty(n * (8 + 4 * FEATURES), dtype=np.uint8)
        buffer[: 8 * n].view(np.int64)[...] = numbers
        if n:
            self._handle.long_call("observe", buffer, places=n)
        return buffer[8 * n :].view(np.float32).reshape(n, FEATURES)

    def close(self) -> None:
        """Free what the library holds; the arrays stay."""
        self._handle.close()
