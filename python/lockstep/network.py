"""Networks as policies: an observation to a Beta distribution of the command's change."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _native
from lockstep.rollouts import REAL

__all__ = ["Network"]


def _array(x: Any) -> Any:
    """What NumPy takes: a parameter of torch.nn's is taken as it is now, wherever it lies."""
    return x.detach().cpu() if hasattr(x, "detach") else x


def _is_module(x: Any) -> bool:
    """Whether it is one of PyTorch, which need not be here."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.nn.Module)


def _taken_apart(model: Any) -> tuple[list[Any], list[Any], list[str]]:
    """Weights, biases and activations of a torch.nn.Sequential."""
    nn = sys.modules["torch"].nn
    if type(model) is not nn.Sequential:
        raise TypeError(f"{type(model).__name__}: want a torch.nn.Sequential")
    weights: list[Any] = []
    biases: list[Any] = []
    between: list[str] = []
    for i, layer in enumerate(model):
        kind = type(layer).__name__
        where = f"layer {i} of torch.nn.Sequential is {kind}"
        if type(layer) not in (nn.Linear, nn.Tanh, nn.ReLU, nn.Identity):
            raise TypeError(f"{where}: want Linear, Tanh, ReLU or Identity")
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise ValueError(f"{where} and has hooks, which would not run")
        if kind == "Linear":
            if len(between) < len(weights):
                raise ValueError(f"{where} and follows another without ReLU or Tanh between them")
            weights.append(layer.weight)
            bias = layer.bias
            biases.append([0.0] * len(layer.weight) if bias is None else bias)
        elif kind != "Identity":
            if len(between) == len(weights):
                raise ValueError(f"{where} and follows no Linear")
            between.append(kind.lower())
    if len(between) == len(weights):
        raise ValueError("torch.nn.Sequential: want a Linear last, and nothing behind it")
    return weights, biases, between


class Network(_native.Uncopied):
    """An actor: linear layers with ReLU or tanh between them.

    The action's distribution is Beta(1 + softplus(y[0]), 1 + softplus(y[1])) over (-1, 1), of which
    ``scale`` is the change of the steer command in one step. The arithmetic is float32 in one fixed
    order, the same on every engine, in the exported controller and in ONNX Runtime.

    Parameters
    ----------
    weights : sequence of array_like, or torch.nn.Sequential
        Per layer, shape (outputs, inputs), as ``torch.nn.Linear.weight`` has it. The first has as
        many inputs as the network sees, the last 2 outputs, and no layer more than 1024. A
        Sequential of Linear, ReLU, Tanh and Identity is all of weights, biases and activation.
    biases : sequence of array_like
        Per layer, shape (outputs,).
    scale : float
        The largest change of the steer command in one step.
    activation : str or sequence of str
        ``"relu"`` or ``"tanh"``, of all layers but the last, or one for each of these.
    sees : sequence of str, optional
        What the network observes in the place of the 256 numbers, a text for each, such as
        ``"target[0]-lataccel[-1]"``, ``"v[7]-20/15"``: a number of the present step (0), before
        (-80 to -1) or later in the plan (1 to 49), less another if it is given, less a number,
        divided by a number, and clipped to ±5. There are target, roll, v, a; lataccel and action,
        of the past alone; and observation[0] to [255], an element of the 256.

    Examples
    --------
    >>> import lockstep
    >>> sees = ["target[0]-lataccel[-1]", "action[-1]", *(f"target[{k}]/3" for k in range(1, 50))]
    >>> weights, biases = [[[0.5] * 51] * 8, [[1] * 8, [-1] * 8]], [[0] * 8, [0] * 2]
    >>> lockstep.Network(weights, biases, activation="tanh", sees=sees)
    <lockstep.Network network_...>
    """

    def __init__(
        self,
        weights: Any,
        biases: Sequence[npt.ArrayLike] | None = None,
        scale: float = 0.25,
        activation: str | Sequence[str] | None = None,
        sees: Sequence[str] | None = None,
    ) -> None:
        if _is_module(weights):
            if biases is not None or activation is not None:
                raise TypeError("a torch.nn.Sequential has biases and activations of its own")
            weights, biases, activation = _taken_apart(weights)
        elif biases is None:
            raise TypeError("biases: want one for each of the weights")
        activation = "relu" if activation is None else activation
        weights, biases = [_array(w) for w in weights], [_array(b) for b in biases]
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
        given = (
            [activation] * (len(matrices) - 1) if isinstance(activation, str) else list(activation)
        )
        if len(given) != len(matrices) - 1 or not set(given) <= {"relu", "tanh"}:
            raise ValueError(
                f'activation={activation!r:.60}: want "relu" or "tanh", '
                "or one for each layer but the last"
            )
        if sees is not None and (isinstance(sees, str) or not len(sees)):
            raise ValueError(f"sees={sees!r:.60}: want texts, one for each number")
        numbers = np.concatenate([x.ravel() for pair in zip(matrices, vectors) for x in pair])  # noqa: B905
        texts = [] if sees is None else [_native.text("sees", text) for text in sees]
        tanh = [name == "tanh" for name in given]
        answer = _native.call(
            "network", 0, numbers, sizes=sizes, scale=float(scale), tanh=tanh, sees=texts
        )
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
