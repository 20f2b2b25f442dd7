"""Hold any simulator to the challenge's: are they equal, and if not, where is the first difference.

A simulator of your own is driven and recorded by :func:`compare`; what was recorded is held to an
engine, stage by stage and step by step. Two forms are understood:

* a *batched* one, an object with the methods of :class:`BatchedSimulator`;
* one with the *challenge's interface*: a function of a route's path and a controller that makes
  an object
  with the attributes of ``TinyPhysicsSimulator``, such as ``functools.partial(TinyPhysicsSimulator,
  model)``.

Or give the path of a trace, which a :class:`TraceWriter` writes from any program. Two traces are
held to each other by :func:`compare_traces`, of whatever simulator they are: no engine takes part.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from lockstep import _native, _trace
from lockstep.rollouts import CONTEXT_LENGTH, CONTROL_START_IDX, COST_END_IDX, STEER_MAX, STEER_MIN
from lockstep.simulator import Routes, Simulator, specify_routes

__all__ = ["BatchedSimulator", "Comparison", "TraceWriter", "compare", "compare_traces"]

TraceWriter = _trace.Writer

FloatArray = npt.NDArray[np.float64]

DEFAULT_GAINS = (0.195, 0.100, -0.053)

# Steer from end to end, so that on every route that comes along, the clips of lataccel and of
# the command are active to both sides. With the challenge's gains none is, on the default routes.
SATURATING_GAINS = (3.0, 0.0, 0.0)
STAGES = ("tokens", "states", "logits", "probs", "cdf", "draw", "sample", "prediction", "lataccel")


class BatchedSimulator(Protocol):
    """What :func:`compare` needs of a simulator of many routes at once."""

    def reset(self, routes: Routes) -> object:
        """Begin rollouts of N routes at step 20.

        A route has its columns as arrays, and ``routes.files`` are the paths; the text
        ``data/<file name>`` seeds the draws.
        """

    def step(self, actions: FloatArray) -> Mapping[str, npt.ArrayLike]:
        """Compute the next step of all routes.

        Parameters
        ----------
        actions : numpy.ndarray
            The clipped steer commands of this step, shape (N,), before step 100 the recorded ones.
            A route that has ended is given 0, and what is returned for it is ignored.

        Returns
        -------
        mapping
            ``"lataccel"``, shape (N,), after this step, and whichever of these it has, the more the
            better: ``tokens`` (N, 20) and ``states`` (N, 20, 4) that the network sees, ``logits``
            and ``probs`` (N, 1024) of the last position, ``cdf`` (N, 1024), ``draw``, ``sample``
            and ``prediction`` (N,). Types must be those of the challenge's program: float32 for
            states, logits and probs, float64 for the others, integers for tokens and sample.
        """


class Comparison:
    """What a comparison found.

    Attributes
    ----------
    equal : bool
        Whether every bit that was compared is equal (or, where inexact, explained).
    outcome : str
        ``"equal"``, ``"different"`` or ``"failed"``.
    title, why : str
        What was compared; and the first difference: stage, step, bit patterns, margins, and what
        the differences did to rollouts.
    extent, effects : str
        How much was compared; and what differences that are excused did to rollouts.
    exercised : str
        How many of the specification's branches the rollouts went through, which they never did,
        and how near a draw came to another token. What is equal says nothing of the others.
    json : dict
        The same as the command line's ``--json`` prints.
    """

    def __init__(self, answer: dict[str, Any]) -> None:
        self._handle = _native.Handle(answer["handle"], "comparison")
        self.outcome: str = answer["outcome"]
        self.equal = self.outcome == "equal"
        self.title: str = answer["title"]
        self.why: str = answer["why"]
        self.extent: str = answer["extent"]
        self.effects: str = answer["effects"]
        self.exercised: str = answer["exercised"]
        self.json: dict[str, Any] = answer["json"]

    @property
    def text(self) -> str:
        """The report as text."""
        title = f"{self.outcome}  {self.title}" + (f": {self.extent}" if self.extent else "")
        return "\n".join(part for part in (title, self.why, self.effects, self.exercised) if part)

    def __repr__(self) -> str:
        return self.text

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report, one file that opens offline."""
        self._handle.long_call("page", file=os.path.abspath(os.fspath(path)))


Mine = Union[BatchedSimulator, Callable[[str, Any], Any], str, "os.PathLike[str]"]


def compare(
    mine: Mine,
    routes: Routes | None = None,
    inexact: bool = False,
    budget: int = 0,
    gains: npt.ArrayLike | None = None,
    name: str = "mine",
) -> Comparison:
    """Hold a simulator, or a trace of one, to an engine.

    Parameters
    ----------
    mine : BatchedSimulator, callable or path-like
        The simulator; see the module.
    routes : Routes, optional
        The routes; their simulator is what is held to. By default three generated ones, the
        project's own network, and the reference.
    inexact : bool
        For a simulator that does not claim the same bits: logits, probabilities and CDF may differ,
        and tokens where that explains it.
    budget : int
        How many explained tokens an inexact comparison excuses.
    gains : array_like, optional
        P, I, D of the PID controller that drives, shape (3,), or of several, (K, 3). By default the
        challenge's, and some that reach every bound of the simulator, both ways. A trace was driven
        by those that it names, and each that is given must be one of them.
    name : str
        What it is called in the report.

    Returns
    -------
    Comparison
        With the first stage whose inputs are equal and whose output is not.
    """
    _check_budget(budget, inexact)
    if routes is None:
        routes = Simulator(engine="reference", model="own").load("own", limit=3)
    specify_routes(routes)
    simulator = routes.simulator
    chosen = gains is not None
    gains = (DEFAULT_GAINS, SATURATING_GAINS) if gains is None else gains
    drivers = np.atleast_2d(np.asarray(gains, dtype=np.float64))
    if (
        drivers.ndim != 2
        or drivers.shape[1] != 3
        or not len(drivers)
        or not np.isfinite(drivers).all()
    ):
        raise ValueError(
            f"gains: {np.asarray(gains).tolist()}, want three finite numbers, or some rows of three"
        )
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        if isinstance(mine, (str, os.PathLike)):
            trace = os.fspath(mine)
        else:
            trace = os.path.join(folder, "mine.trace")
            writer: Any = _trace.Writer(  # type: ignore[no-untyped-call]
                trace,
                _native.call("schema"),
                engine=name,
                profile=simulator.profile,
                shortcuts=["stop_at_cost_end"],
            )
            with writer:
                for driver in drivers:
                    drive = _Drive(writer, routes, driver)
                    if hasattr(mine, "reset") and hasattr(mine, "step"):
                        drive.batched(mine)
                    elif callable(mine):
                        drive.single(mine)
                    else:
                        raise TypeError(
                            f"mine: {type(mine).__name__}, want reset and step, a function, or a "
                            "trace's path"
                        )
        answer = simulator._handle.long_call(
            "compare",
            trace=trace,
            mine=name,
            **specify_routes(routes),
            controllers=[{"kind": "pid", "gains": driver} for driver in drivers.tolist()],
            chosen=chosen and isinstance(mine, (str, os.PathLike)),
            inexact=inexact,
            budget=budget,
        )
    return Comparison(answer)


def compare_traces(
    want: str | os.PathLike[str],
    got: str | os.PathLike[str],
    inexact: bool = False,
    budget: int = 0,
) -> Comparison:
    """Hold one trace to another, both of one simulator, whichever that is.

    Parameters
    ----------
    want, got : path-like
        The yardstick, and what is held to it. What their stages are they say themselves.
    inexact, budget
        As of :func:`compare`.

    Returns
    -------
    Comparison
        With the first stage whose inputs are equal and whose output is not.
    """
    _check_budget(budget, inexact)
    answer = _native.long_call(
        "compare_traces",
        0,
        want=os.fspath(want),
        got=os.fspath(got),
        inexact=inexact,
        budget=budget,
    )
    return Comparison(answer)


def _check_budget(budget: int, inexact: bool) -> None:
    if budget < 0 or (budget and not inexact):
        raise ValueError(f"budget={budget}: want 0 or more, and inexact=True with it")


class _PID:
    """The challenge's controller, for one route or many."""

    def __init__(self, gains: FloatArray) -> None:
        self.p, self.i, self.d = gains
        self.integral: Any = 0.0
        self.before: Any = 0.0

    def update(
        self, target_lataccel: Any, current_lataccel: Any, state: Any, future_plan: Any
    ) -> Any:
        e = target_lataccel - current_lataccel
        self.integral = self.integral + e
        d, self.before = e - self.before, e
        return self.p * e + self.i * self.integral + self.d * d


def _word(x: float) -> str:
    """A gain as the library writes it in a controller's name."""
    if x == 0 or 1e-4 <= abs(x) < 1e6:
        return repr(x).removesuffix(".0")
    return np.format_float_scientific(x, trim="-", exp_digits=2)


class _Drive:
    """Drives a simulator and records it."""

    def __init__(self, writer: Any, routes: Routes, gains: FloatArray) -> None:
        self.writer, self.routes, self.gains = writer, routes, gains
        words = ["pid"] if tuple(gains) == DEFAULT_GAINS else ["pid", *map(_word, gains.tolist())]
        self.controller = "_".join(words)
        self.ends = np.minimum(routes.rows, COST_END_IDX)

    def batched(self, mine: Any) -> None:
        """Drive all routes in step."""
        n, controller = len(self.routes), _PID(self.gains)
        rollouts = [self.writer.begin([name, self.controller]) for name in self.routes.names]
        all_routes = list(self.routes)
        current = np.array([r.target_lataccel[CONTEXT_LENGTH - 1] for r in all_routes])
        lataccels = [r.target_lataccel[:CONTEXT_LENGTH].tolist() for r in all_routes]
        mine.reset(self.routes)
        for step in range(CONTEXT_LENGTH, int(self.ends.max(initial=0))):
            running = step < self.ends
            target = np.array([r.target_lataccel[min(step, len(r) - 1)] for r in all_routes])
            action = controller.update(target, current, None, None)
            if step < CONTROL_START_IDX:
                action = np.array([r.steer_command[step] for r in all_routes])
            action = np.where(running, np.clip(action, STEER_MIN, STEER_MAX), 0.0)
            got = dict(mine.step(action.copy()))
            unknown = set(got) - set(STAGES)
            if unknown or "lataccel" not in got:
                raise ValueError(
                    f"step {step}: stages {sorted(got)}: want lataccel, and others of "
                    f"{', '.join(STAGES)}"
                )
            arrays = {key: np.asarray(value) for key, value in got.items()}
            for key, array in arrays.items():
                if len(array) != n:
                    raise ValueError(f"step {step}: {key} has shape {array.shape}, want ({n}, …)")
            current = arrays["lataccel"].astype(np.float64)
            for i in map(int, np.flatnonzero(running)):
                row = {key: array[i] for key, array in arrays.items()}
                self.writer.step(rollouts[i], step, action=action[i], **row)
                lataccels[i].append(current[i])
        for i, rollout in enumerate(rollouts):
            self.writer.end(
                rollout, _costs(all_routes[i].target_lataccel, lataccels[i], int(self.ends[i]))
            )

    def single(self, mine: Callable[[str, Any], Any]) -> None:
        """Drive one route after the other through the challenge's interface."""
        for name, file, end in zip(self.routes.names, self.routes.files, self.ends):  # noqa: B905 equal lengths
            with _as_data(file) as path:
                simulator = mine(path, _PID(self.gains))
                rollout = self.writer.begin([name, self.controller])
                recorder = _Recorder(simulator.sim_model)
                try:
                    for step in range(CONTEXT_LENGTH, int(end)):
                        recorder.row = {}
                        simulator.step()
                        self.writer.step(
                            rollout,
                            step,
                            action=simulator.action_history[-1],
                            lataccel=simulator.current_lataccel_history[-1],
                            **recorder.row,
                        )
                    costs = simulator.compute_cost()
                finally:
                    recorder.remove()
            self.writer.end(
                rollout, [float(costs[k]) for k in ("lataccel_cost", "jerk_cost", "total_cost")]
            )


class _Recorder:
    """Looks over the shoulder of a model with the challenge's interface, as far as it has it."""

    def __init__(self, model: Any) -> None:
        self.row: dict[str, Any] = {}
        self._model = model
        self._before: dict[str, Any] = {}  # methods that the model has of its own
        for method, seen in [
            ("predict", self._predict),
            ("softmax", self._softmax),
            ("get_current_lataccel", self._lataccel),
        ]:
            if callable(getattr(model, method, None)):
                if method in vars(model):
                    self._before[method] = vars(model)[method]
                setattr(model, method, seen(getattr(model, method)))

    def remove(self) -> None:
        for method in ("predict", "softmax", "get_current_lataccel"):
            vars(self._model).pop(method, None)
        vars(self._model).update(self._before)

    def _predict(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def predict(input_data: Any, *args: Any, **kwargs: Any) -> Any:
            self.row["states"], self.row["tokens"] = (
                input_data["states"][0],
                input_data["tokens"][0],
            )
            # NumPy's global generator, before and after: the draw, if there was one
            generator = np.random.RandomState()
            generator.set_state(np.random.get_state())  # noqa: NPY002
            sample = original(input_data, *args, **kwargs)
            draw = generator.random_sample()
            if _same_state(generator.get_state(), np.random.get_state()):  # noqa: NPY002
                self.row["draw"] = draw
            self.row["sample"] = int(sample)
            return sample

        return predict

    def _softmax(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def softmax(x: Any, *args: Any, **kwargs: Any) -> Any:
            probs = original(x, *args, **kwargs)
            self.row["probs"] = np.asarray(probs)[0, -1]
            return probs

        return softmax

    def _lataccel(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_current_lataccel(*args: Any, **kwargs: Any) -> Any:
            prediction = original(*args, **kwargs)
            self.row["prediction"] = prediction
            return prediction

        return get_current_lataccel


def _same_state(a: Any, b: Any) -> bool:
    return bool((a[1] == b[1]).all() and a[2] == b[2])


def _costs(target: FloatArray, lataccels: list[float], end: int) -> list[float]:
    """The three costs, as the challenge's program computes them."""
    t, p = target[CONTROL_START_IDX:end], np.array(lataccels[CONTROL_START_IDX:end])
    lataccel, jerk = np.mean((t - p) ** 2) * 100, np.mean((np.diff(p) / 0.1) ** 2) * 100
    return [float(lataccel), float(jerk), float(lataccel * 50.0 + jerk)]


@contextmanager
def _as_data(file: str) -> Iterator[str]:
    """The path data/<file name> in the working folder, since that text seeds the draws."""
    file = os.path.abspath(file)
    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        os.symlink(os.path.dirname(file), os.path.join(folder, "data"))
        os.chdir(folder)
        try:
            yield "data/" + os.path.basename(file)
        finally:
            os.chdir(before)
