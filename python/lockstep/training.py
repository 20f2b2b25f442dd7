"""What rollouts with a network leave for training."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _native
from lockstep._device import DeviceArray, Place
from lockstep.rollouts import CONTROL_START_IDX, COST_END_IDX

__all__ = ["Experience"]

STEPS = COST_END_IDX - CONTROL_START_IDX

# What the arrays of a rollout take: two numbers of float64 and four of float32 a step, and costs.
ARRAY_BYTES = STEPS * (2 * 8 + 4 * 4) + 3 * 8


class Experience(_native.Uncopied):
    """Rollouts driven by a network. Made by :meth:`lockstep.Simulator.collect`.

    All arrays begin with (R, 400): R rollouts, and the steps from 100 on; 0 where a rollout had no
    such step or failed. Rollout k·N + i is sample k of route i. What was collected with
    ``device=True`` is in the GPU's memory, but for ``costs`` and ``steps``: each array is a
    :class:`lockstep.DeviceArray`.

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

    raw: Any
    softplus: Any
    reward: Any
    lataccel: Any
    action: Any

    def __init__(
        self, handle: _native.Handle, answer: dict[str, Any], place: Place | None = None
    ) -> None:
        self._handle = handle
        self._place = place
        self._inputs: int = answer["inputs"]
        self.steps = np.asarray(answer["steps"], dtype=np.intp)
        self.errors = {int(i): _native.error(failure) for i, failure in answer["errors"].items()}
        n = len(self.steps)
        if place is not None:
            of = [("raw", "float32"), ("softplus", "float32"), ("reward", "float32")]
            of += [("lataccel", "float64"), ("action", "float64")]
            for (name, dtype), address in zip(of, answer["arrays"], strict=True):
                shape = (n, STEPS, 2) if name == "softplus" else (n, STEPS)
                setattr(self, name, DeviceArray(place, address, shape, handle, dtype))
            self.costs = np.empty((n, 3))
            handle.call("device_costs", self.costs)
            return
        buffer = np.empty(n * ARRAY_BYTES, dtype=np.uint8)
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

    def observe(self, places: npt.ArrayLike | None = None, out: Any = None) -> Any:
        """Compute what the network saw, for all places or for a minibatch: the same bits.

        Parameters
        ----------
        places : array_like of int, optional
            Numbers 400·rollout + step, shape (B,); by default all. They are on the host.
        out : array on the GPU, optional
            Where what was collected is there: receives what is returned, contiguous, float32, shape
            (B, D), any object with ``__dlpack__`` or ``__cuda_array_interface__``, such as a
            tensor of PyTorch's.

        Returns
        -------
        numpy.ndarray
            float32, shape (B, D); D is 256, or as many as the network's ``sees``.
        """
        given = self.places if places is None else np.asarray(places)
        if given.ndim != 1:
            raise ValueError(f"places: shape {given.shape}, want (B,)")
        if given.dtype.kind not in "iu" and len(given):
            raise TypeError(f"places: {given.dtype}, want integers")
        numbers = np.ascontiguousarray(given, dtype=np.int64)
        n = len(numbers)
        if (out is None) != (self._place is None):
            what = (
                "on the host: it needs no out"
                if self._place is None
                else "on the GPU: give an array there as out"
            )
            raise TypeError(f"observe: what was collected is {what}")
        if self._place is not None:
            address, _kept = self._place.address(
                out, "out", (n, self._inputs), self._handle, True, "float32"
            )
            if n:
                self._handle.long_call("device_observe", numbers, into=address)
            return out
        buffer = np.empty(n * (8 + 4 * self._inputs), dtype=np.uint8)
        buffer[: 8 * n].view(np.int64)[...] = numbers
        if n:
            self._handle.long_call("observe", buffer, places=n)
        return buffer[8 * n :].view(np.float32).reshape(n, self._inputs)

    def close(self) -> None:
        """Free what the library holds; arrays on the host stay."""
        self._handle.close()
