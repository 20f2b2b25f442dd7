"""Networks as policies: 256 observations to a Beta distribution of the command's change."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _native
from lockstep.rollouts import REAL

__all__ = ["Network"]


class Network:
    """An actor: linear layers with ReLU between them.

    The action's distribution is Beta(1 + softplus(y[0]), 1 + softplus(y[1])) over (-1, 1), of which
    ``scale`` is the change of the steer command in one step. The arithmetic is float32 in one fixed
    order, the same on every engine, in the exported controller and in ONNX Runtime.

    Parameters
    ----------
    weights : sequence of array_like
        Per layer, shape (outputs, inputs), as ``torch.nn.Linear.weight`` has it. The first has 256
        inputs, the last 2 outputs, and no layer more than 256.
    biases : sequence of array_like
        Per layer, shape (outputs,).
    scale : float
        The largest change of the steer command in one step.
    """

    def __init__(
        self, weights: Sequence[npt.ArrayLike], biases: Sequence[npt.ArrayLike], scale: float = 0.25
    ) -> None:
        if any(np.asarray(x).dtype.kind not in REAL for x in (*weights, *biases)):
            raise TypeError("weights and biases: want real numbers")
        if not math.isfinite(scale):
            raise ValueError(f"scale={scale}: want a finite number")
        matrices = [np.asarray(w, dtype=np.float32) for w in weights]
        vectors = [np.asarray(b, dtype=np.float32) for b in biases]
        if len(matrices) != len(vectors) or not matrices:
            raise ValueError(
                f"{len(matrices)} weights and {len(vectors)} biases: want one of each for every "
                "layer"
            )
        sizes = [matrices[0].shape[-1] if matrices[0].ndim else 0]
        for i, (w, b) in enumerate(zip(matrices, vectors)):  # noqa: B905 their lengths are equal
            if w.ndim != 2 or b.shape != w.shape[:1] or w.shape[1] != sizes[-1]:
                raise ValueError(
                    f"layer {i}: weights {w.shape} and biases {b.shape} after {sizes[-1]} numbers"
                )
            sizes.append(w.shape[0])
        numbers = np.concatenate([x.ravel() for pair in zip(matrices, vectors) for x in pair])  # noqa: B905
        answer = _native.call("network", 0, numbers, sizes=sizes, scale=float(scale))
        self._handle = _native.Handle(answer["handle"], "network")
        self.name: str = answer["name"]

    def __repr__(self) -> str:
        return f"<lockstep.Network {self.name}>"

    def specify(self) -> dict[str, Any]:
        """Return what the library knows it by."""
        return {"kind": "object", "handle": self._handle.id}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to an ``.onnx`` file, which appears whole or not at all."""
        self._handle.call("save", file=os.path.abspath(os.fspath(path)))

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write a controller of the challenge: one Python file that needs NumPy and ONNX Runtime.

        In the challenge's own program it has the actions that it has here, bit for bit.
        """
        self._handle.call("export", file=os.path.abspath(os.fspath(path)))
