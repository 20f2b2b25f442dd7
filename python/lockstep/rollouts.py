"""Rollouts that are steered from outside, snapshots of them, and candidates that start there."""

from __future__ import annotations

import ctypes
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep import _memory, _native
from lockstep._device import DeviceArray, on_device

__all__ = ["Candidates", "Rollouts", "Snapshot"]

FloatArray = npt.NDArray[np.float64]

CONTEXT_LENGTH = 20
CONTROL_START_IDX = 100
COST_END_IDX = 500
STEER_MIN, STEER_MAX = -2.0, 2.0
FEATURES = 256
FLOAT64 = np.dtype(np.float64)
REAL = "fiub"  # kinds of what is a real number

# What the library keeps of a rollout that is stepped, at least: histories, tokens, states and
# draws.
ROLLOUT_BYTES = 25_000

# The most rollouts whose step is one call of the library. A step of more may take so
# long that it is waited for in turns.
INLINE = 256


def spread(values: Any, shape: tuple[int, ...], what: str) -> npt.NDArray[Any]:
    """An array of a shape, of which one number stands for all."""
    array = np.asarray(values)
    if array.shape not in (shape, (), (1,)):
        raise ValueError(f"{what}: shape {array.shape}, want {shape}")
    return np.broadcast_to(array, shape)


class Rollouts(_native.Uncopied):
    """N rollouts in step. Made by :meth:`lockstep.Simulator.reset`.

    A rollout ends at step 500, or at its route's end if that comes first. One that fails leaves the
    others alone.
    """

    def __init__(
        self,
        handle: _native.Handle,
        names: list[str],
        ends: npt.NDArray[np.intp],
        step: int,
        there: DeviceArray | None = None,
    ) -> None:
        self._handle = handle
        self._ends = ends
        self._end = int(self._ends.max(initial=0))
        self._step = step
        self._n = len(names)
        # What a step is called with is made once: it takes as long as a call.
        self._buffer = np.zeros((2, self._n))
        self._commands, self._lataccel = self._buffer
        self._arguments = (
            ctypes.c_int64(handle.id),
            ctypes.c_void_p(self._commands.ctypes.data),
            ctypes.c_void_p(self._lataccel.ctypes.data),
            ctypes.c_int64(self._n),
        )
        self._turn = _native.Turn("rollouts")  # of who uses these
        self._out: Any = None  # the array that lataccels went to, once it was looked at
        self._native_step = _native.library().lockstep_step
        self._own = there  # lataccels on the GPU
        self._there: Any = None  # those of the last step, if it was one there
        self._given: Any = None  # and what must live until that step is done
        self._observed: Any = None  # until the last observation is
        self._learn()

    def __len__(self) -> int:
        return self._n

    def __enter__(self) -> Rollouts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<{self._n} rollouts at step {self._step}{', closed' if self._handle.closed else ''}>"
        )

    def close(self) -> None:
        """Free them. Closing twice does no harm."""
        self._handle.close()

    @property
    def step(self) -> int:
        """The step that :meth:`advance` computes next."""
        return self._step

    @property
    def done(self) -> bool:
        """Whether no rollout runs any more."""
        return self._step >= self._end or not self.running.any()

    @property
    def running(self) -> npt.NDArray[np.bool_]:
        """Which rollouts have neither ended nor failed, shape (N,)."""
        return (self._step < self._ends) & ~np.isnan(self._lataccel)

    @property
    def lataccel(self) -> Any:
        """Lateral accelerations after the last step, m/s², shape (N,); NaN where a rollout failed.

        An array on the GPU if the last step was given one.
        """
        return self._lataccel.copy() if self._there is None else self._there

    @property
    def errors(self) -> dict[int, Exception]:
        """Why rollouts failed."""
        self._sync()
        why = self._handle.call("why")
        return {int(i): _native.error(failure) for i, failure in why["errors"].items()}

    def advance(self, actions: Any, out: Any = None) -> Any:
        """Compute one step.

        On a GPU actions may be there, such as a tensor of PyTorch's: any object with ``__dlpack__``
        or ``__cuda_array_interface__``, contiguous and float64. The lateral accelerations are then
        there, too. The call returns before the step is done; nothing passes through the host, so
        that :attr:`running` and :attr:`done` know of failures only after :attr:`errors` or
        :meth:`costs` asked for them.

        Parameters
        ----------
        actions : array_like
            Steer commands, shape (N,); clipped to ±2. One that is NaN fails its own rollout, and
            those of rollouts that do not run are ignored.
        out : numpy.ndarray, optional
            Receives what is returned, shape (N,), float64; on the GPU if the actions are. It is
            written in the order of the simulator's stream.

        Returns
        -------
        numpy.ndarray
            Lateral accelerations after the step, m/s², shape (N,). On the GPU a
            :class:`DeviceArray`, which the next step overwrites.
        """
        if type(actions) is not np.ndarray and on_device(actions):
            return self._advance_there(actions, out)
        commands = self._commands
        if (
            type(actions) is not np.ndarray
            or actions.dtype is not FLOAT64
            or actions.shape != commands.shape
        ):
            actions = self._check(actions)
        if out is not None and out is not self._out:
            self._check_out(out)
        with self._turn:
            commands[...] = actions
            self._take(self._native_step, self._arguments, "step", self._buffer)
            if out is None:
                return self._lataccel.copy()
            out[...] = self._lataccel
            return out

    def _advance_episodes(self, memory: npt.NDArray[np.intp]) -> None:
        """Compute one step with what ``episodes`` in cmd/internal/native/episodes.go has."""
        function = _native.library().lockstep_episodes_step
        arguments = (self._arguments[0], memory.ctypes.data)
        self._take(function, arguments, "episodes_step", memory)

    def _take(self, function: Any, arguments: tuple[Any, ...], name: str, memory: Any) -> None:
        """Compute one step: of few rollouts by a function, of many by a call that can be ended."""
        self._there = None
        self._handle.check_fork()
        try:
            if self._n <= INLINE:
                if function(*arguments):  # also where it has been closed
                    self._raise()
            else:
                self._handle.long_call(name, memory)
            self._step += 1
        except BaseException:
            self._ask()
            raise

    def _advance_there(self, actions: Any, out: Any) -> Any:
        """Compute one step on the GPU."""
        if self._own is None:
            raise TypeError('actions: they are on a GPU and the rollouts are not: use engine="gpu"')
        handle = self._handle.id
        place = self._own.place
        commands, given = place.address(actions, "actions", (self._n,), self._handle)
        if out is None:
            lataccels, kept, out = 0, None, self._own
        else:
            lataccels, kept = place.address(out, "out", (self._n,), self._handle, written=True)
        self._handle.check_fork()
        if _native.library().lockstep_step_on_device(handle, commands, lataccels):
            self._raise()
        self._there, self._given = out, (given, kept)
        self._step += 1
        return out

    def _sync(self) -> None:
        """Learn what steps on the GPU have come to."""
        if self._there is not None:
            self._learn()

    def _learn(self) -> None:
        """Enter what the last step has come to."""
        self._handle.long_call("synchronize", self._lataccel)

    def _ask(self) -> None:
        """Enter where the library is: what Ctrl-C breaks off may be done there all the same."""
        if not self._handle.closed:
            self._step = self._handle.call("why")["step"]

    def _check(self, actions: npt.ArrayLike) -> npt.NDArray[Any]:
        array = np.asarray(actions)
        if array.dtype.kind not in REAL:
            raise TypeError(f"actions: {array.dtype}, want float64")
        if array.shape != (self._n,):
            raise ValueError(f"actions: shape {array.shape}, want ({self._n},)")
        return array

    def _check_out(self, out: FloatArray) -> None:
        """Refuse, before the step, what cannot receive lataccels; remember what was accepted."""
        if not isinstance(out, np.ndarray) or out.dtype != FLOAT64:
            raise TypeError(
                f"out: {getattr(out, 'dtype', type(out).__name__)}, want an array of float64"
            )
        if out.shape != (self._n,):
            raise ValueError(f"out: shape {out.shape}, want ({self._n},)")
        if not out.flags.writeable:
            raise ValueError("out: the array is read-only")
        self._out = out

    def _raise(self) -> None:
        why = self._handle.call("why")
        if why["error"] is None:
            raise RuntimeError("the library did not take the step")
        raise _native.error(why["error"])

    def features(self, out: Any = None) -> Any:
        """Observe every rollout as the challenge's published networks do.

        Parameters
        ----------
        out : numpy.ndarray, optional
            Receives what is returned; contiguous, float32. On a GPU it may be there, as what
            :meth:`advance` takes; nothing passes through the host then.

        Returns
        -------
        numpy.ndarray
            Shape (N, 256), clipped to ±5; 0 for rollouts that do not run. The numbers are those of
            the published controllers: target, lataccel, their errors and rates, 20 past actions
            and lataccels, and a preview of 50 rows of target, roll, speed and acceleration. A
            :class:`DeviceArray`, which the next observation overwrites, if ``out`` is on a GPU or,
            without one, the last step's actions were.
        """
        if (
            self._there is not None
            if out is None
            else type(out) is not np.ndarray and on_device(out)
        ):
            return self._features_there(out)
        if out is None:
            out = np.empty((self._n, FEATURES), dtype=np.float32)
        elif not isinstance(out, np.ndarray):
            raise TypeError(f"out: {type(out).__name__}, want an array of float32")
        elif (
            out.shape != (self._n, FEATURES)
            or out.dtype != np.float32
            or not out.flags.c_contiguous
        ):
            raise ValueError(
                f"out: shape {out.shape} of {out.dtype}, want contiguous ({self._n}, {FEATURES}) "
                "of float32"
            )
        if not out.flags.writeable:
            raise ValueError("out: the array is read-only")
        self._handle.call("features", out)
        return out

    def _features_there(self, out: Any) -> Any:
        """Observe on the GPU."""
        if self._own is None:
            raise TypeError('out: it is on a GPU and the rollouts are not: use engine="gpu"')
        place, shape, into = self._own.place, (self._n, FEATURES), 0
        if out is not None:
            into, self._observed = place.address(
                out, "out", shape, self._handle, written=True, dtype="float32"
            )
        address = self._handle.call("device_features", into=into)["address"]
        return DeviceArray(place, address, shape, self._handle, "float32") if out is None else out

    def costs(self) -> FloatArray:
        """The costs of rollouts that have ended.

        Returns
        -------
        numpy.ndarray
            ``lataccel_cost, jerk_cost, total_cost``, shape (N, 3); NaN for the others.
        """
        out = np.empty((self._n, 3))
        self._sync()
        self._handle.call("costs", out)
        return out

    def snapshot(self) -> Snapshot:
        """Copy the rollouts' state. It is data: histories up to the next step."""
        self._sync()
        answer = self._handle.long_call("snapshot")
        return Snapshot(_native.Handle(answer["handle"], "snapshot"), answer, self)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot of these rollouts, or of others of the same routes and network."""
        if not isinstance(snapshot, Snapshot):
            raise TypeError(
                f"snapshot: {type(snapshot).__name__}, want what snapshot() or Snapshot.from_bytes "
                "returns"
            )
        with self._turn:
            try:
                self._handle.long_call("restore", snapshot=snapshot._handle.id)
                self._step = snapshot.step
            except BaseException:
                self._ask()
                self._learn()
                raise
            self._there = None
            self._learn()


class Snapshot(_native.Uncopied):
    """The state of rollouts between two steps.

    Attributes
    ----------
    step : int
        The next step.
    routes : list of str
        The rollouts' routes.
    nbytes : int
        Its size when it is written down.
    """

    def __init__(self, handle: _native.Handle, answer: dict[str, Any], of: Rollouts | None) -> None:
        self._handle = handle
        self._of = of
        self.step: int = answer["step"]
        self.routes: list[str] = answer["routes"]
        self.nbytes: int = answer["bytes"]

    def __repr__(self) -> str:
        return f"<snapshot of {len(self.routes)} rollouts at step {self.step}>"

    def to_bytes(self) -> bytes:
        """Write it down; all bits are kept."""
        out = np.empty(self.nbytes, dtype=np.uint8)
        self._handle.call("bytes", out)
        return out.tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, of: Rollouts | None = None) -> Snapshot:
        """Read what :meth:`to_bytes` wrote, here or on another machine.

        Parameters
        ----------
        data : bytes
            The bytes.
        of : Rollouts, optional
            Rollouts of the same routes and network, from which candidates can then be forked.
        """
        if not isinstance(of, (Rollouts, type(None))):
            raise TypeError(f"of: {type(of).__name__}, want rollouts")
        array = np.frombuffer(data, dtype=np.uint8)
        answer = _native.call("read", 0, array)
        return cls(_native.Handle(answer["handle"], "snapshot"), answer, of)

    def fork(
        self, index: npt.ArrayLike, noise: str, seeds: npt.ArrayLike | None = None
    ) -> Candidates:
        """Begin candidates.

        Parameters
        ----------
        index : array_like of int
            The rollout that each candidate continues, shape (M,); repeats are allowed.
        noise : {"route", "seeded", "expected"}
            Which draws candidates see. With ``"route"`` they see the route's: what is found so
            knows the future, and must be said where it is reported. ``"seeded"`` are those of
            ``seeds``, ``"expected"`` is none: each prediction is its distribution's mean.
        seeds : array_like of int, optional
            For ``"seeded"``, shape (M,), 0 to 2³²-1.

        Returns
        -------
        Candidates
            Which share nothing with the rollouts.
        """
        if self._of is None:
            raise ValueError(
                "this snapshot was read from bytes: name the rollouts in Snapshot.from_bytes(data, "
                "of=…)"
            )
        candidates = np.atleast_1d(np.asarray(index))
        if candidates.ndim != 1 or candidates.dtype.kind not in "iu":
            raise ValueError(
                f"index: shape {candidates.shape} of {candidates.dtype}, want (M,) of integers"
            )
        numbers = None if seeds is None else spread(seeds, candidates.shape, "seeds")
        if numbers is not None and (
            numbers.dtype.kind not in "iu" or (numbers < 0).any() or (numbers >= 2**32).any()
        ):
            raise ValueError("seeds: want integers from 0 to 2**32-1")
        _memory.check(f"{len(candidates):,} candidates", len(candidates) * ROLLOUT_BYTES)
        answer = self._of._handle.long_call(
            "fork",
            snapshot=self._handle.id,
            index=candidates.tolist(),
            noise=_native.text("noise", noise),
            seeds=None if numbers is None else numbers.tolist(),
        )
        return Candidates(
            _native.Handle(answer["handle"], "candidates"), len(candidates), self.step, noise
        )

    def gradient(self, actions: npt.ArrayLike, nudge: float = 0.1) -> tuple[FloatArray, FloatArray]:
        """How the next lateral acceleration depends on the action, by finite differences.

        Expected values are compared, of which each bit is the engine's: no draw is used. The
        network sees past lateral accelerations as tokens, of which nothing has a derivative.

        Parameters
        ----------
        actions : array_like
            Steer commands, shape (N,).
        nudge : float
            By how much an action is raised and lowered; where that leaves ±2, only as far.

        Returns
        -------
        lataccel : numpy.ndarray
            Expected values after the step, m/s², shape (N,); at most 0.5 from those before it.
        slope : numpy.ndarray
            Their change for a unit of the action, m/s², shape (N,); 0 where that bound holds them.
        """
        u = np.asarray(actions)
        n = len(self.routes)
        if u.dtype.kind not in REAL or u.shape != (n,):
            raise ValueError(f"actions: shape {u.shape} of {u.dtype}, want ({n},) of float64")
        if not nudge > 0 or not np.isfinite(nudge):
            raise ValueError(f"nudge={nudge}: want a number above 0")
        tried = np.clip([u, u - nudge, u + nudge], -2.0, 2.0)
        wide = tried[2] - tried[1]
        if not (wide > 0).all():
            raise ValueError(
                f"actions[{int(np.argmin(wide > 0))}]: nudged by {nudge} it stays one number: "
                "want an action within ±2, and a larger nudge"
            )
        with self.fork(np.tile(np.arange(n), 3), "expected") as candidates:
            _, lataccel = candidates.roll(tried.reshape(1, 3 * n), trajectory=True)
        here, low, high = lataccel.reshape(3, n)
        return here.copy(), (high - low) / wide

    def jacobian(
        self, actions: npt.ArrayLike, nudge: float | dict[str, float] | None = None
    ) -> dict[str, FloatArray]:
        """How the next lateral acceleration depends on all that it is computed from.

        As :meth:`gradient` does it: expected values that the engine computes are compared, with one
        number raised and lowered at a time. The network sees lateral accelerations as tokens,
        0.0098 m/s² wide, so that smaller nudges may change nothing.

        Parameters
        ----------
        actions : array_like
            Steer commands within ±2, shape (N,).
        nudge : float or dict, optional
            By how much numbers are raised and lowered: one for all, or some of ``action``,
            ``roll``, ``v``, ``a``, ``lataccel``; by default 0.1, and 0.5 of ``v``.

        Returns
        -------
        dict
            ``expected``, after the step, and its changes for a unit of each number: ``action``,
            ``roll``, ``v``, ``a``, of this step, shape (N,); ``lataccels``, shape (N, 20), and
            ``actions``, (N, 19), of the steps before, the last one last.
        """
        if self._of is None:
            raise ValueError(
                "this snapshot was read from bytes: name the rollouts in "
                "Snapshot.from_bytes(data, of=…)"
            )
        u, n = np.asarray(actions), len(self.routes)
        if u.dtype.kind not in REAL or u.shape != (n,):
            raise ValueError(f"actions: shape {u.shape} of {u.dtype}, want ({n},) of float64")
        nudges = {"action": 0.1, "roll": 0.1, "v": 0.5, "a": 0.1, "lataccel": 0.1}
        given = (
            nudge
            if isinstance(nudge, dict)
            else {}
            if nudge is None
            else dict.fromkeys(nudges, nudge)
        )
        if given.keys() - nudges:
            raise ValueError(f"nudge={nudge}: want some of {', '.join(nudges)}")
        nudges |= given
        if not all(0 < x < np.inf for x in nudges.values()):
            raise ValueError(f"nudge={nudge}: want numbers above 0")
        words = ["Action", "Roll", "Speed", "Acceleration", "Lataccel"]
        flat = np.zeros(45 * n)
        flat[:n] = u
        self._of._handle.long_call(
            "slopes",
            flat,
            snapshot=self._handle.id,
            nudges=dict(zip(words, map(float, nudges.values()), strict=True)),
        )
        by = flat[2 * n :].reshape(n, 43)
        one = {name: by[:, k].copy() for k, name in enumerate(["action", "roll", "v", "a"])}
        past = {"lataccels": by[:, 4:24].copy(), "actions": by[:, 24:].copy()}
        return {"expected": flat[n : 2 * n].copy()} | one | past


class Candidates(_native.Uncopied):
    """M continuations of rollouts. Made by :meth:`Snapshot.fork`.

    Attributes
    ----------
    noise : str
        Which draws they see.
    step : int
        The next step.
    """

    def __init__(self, handle: _native.Handle, n: int, step: int, noise: str) -> None:
        self._handle = handle
        self._n = n
        self.step = step
        self.noise = noise

    def __len__(self) -> int:
        return self._n

    def __enter__(self) -> Candidates:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free them. Closing twice does no harm."""
        self._handle.close()

    def roll(self, actions: npt.ArrayLike, trajectory: bool = False) -> Any:
        """Go on with a command for each candidate and step.

        Parameters
        ----------
        actions : array_like
            Steer commands, shape (H, M).
        trajectory : bool
            Ask for the lateral accelerations, too.

        Returns
        -------
        costs : numpy.ndarray
            What these steps cost, shape (M,): their part of the total cost; NaN for one that
            failed.
        lataccel : numpy.ndarray
            m/s², shape (H, M); only with ``trajectory``.
        """
        commands = np.asarray(actions)
        if commands.dtype.kind not in REAL:
            raise TypeError(f"actions: {commands.dtype}, want float64")
        if commands.ndim != 2 or commands.shape[1] != self._n:
            raise ValueError(f"actions: shape {commands.shape}, want (H, {self._n})")
        steps = operator.index(commands.shape[0])
        flat = np.zeros((2 if trajectory else 1) * commands.size + self._n)
        flat[: commands.size] = commands.ravel()
        try:
            self._handle.long_call("roll", flat, steps=steps, trajectory=trajectory)
            self.step += steps
        except BaseException:  # some of the steps may be done
            if not self._handle.closed:
                self.step = self._handle.call("at")
            raise
        costs = flat[commands.size : commands.size + self._n].copy()
        if not trajectory:
            return costs
        return costs, flat[commands.size + self._n :].reshape(commands.shape)
