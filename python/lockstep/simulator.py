"""Simulators, routes, and results of whole rollouts."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import operator
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from lockstep import _frames, _memory, _native
from lockstep._device import DeviceArray, Place
from lockstep._equality import Bitwise
from lockstep._frames import COLUMNS
from lockstep._progress import Progress, told
from lockstep.controllers import Controllers, distinct, specify, steer
from lockstep.network import Network
from lockstep.rollouts import (
    CONTEXT_LENGTH,
    CONTROL_START_IDX,
    COST_END_IDX,
    REAL,
    ROLLOUT_BYTES,
    Rollouts,
)
from lockstep.training import ARRAY_BYTES, Experience

__all__ = ["Result", "Route", "Routes", "Simulator"]

FloatArray = npt.NDArray[np.float64]
COSTS = ("lataccel_cost", "jerk_cost", "total_cost")

# What the library keeps of a rollout that is asked for, at least.
JOB_BYTES = 256


@dataclass(frozen=True, eq=False)
class Route(Bitwise):
    """One drive: columns of equal length, one value for every step of 0.1 s.

    The arrays are read-only views. ``==`` compares them by their bits.

    Attributes
    ----------
    name : str
        The file's name without its extension.
    roll_lataccel : numpy.ndarray
        Lateral acceleration due to the road's roll, m/s², shape (rows,).
    v_ego, a_ego : numpy.ndarray
        Speed in m/s and acceleration in m/s², shape (rows,).
    target_lataccel : numpy.ndarray
        The lateral acceleration to follow, m/s², shape (rows,).
    steer_command : numpy.ndarray
        The recorded command, positive to the right; NaN where none is recorded, shape (rows,).
    """

    name: str
    roll_lataccel: FloatArray
    v_ego: FloatArray
    a_ego: FloatArray
    target_lataccel: FloatArray
    steer_command: FloatArray

    def __len__(self) -> int:
        return len(self.target_lataccel)


class Routes(_native.Uncopied, Sequence[Route]):
    """Routes that a simulator has loaded. Made by :meth:`Simulator.load`.

    ``routes[3]`` is a :class:`Route`; ``routes[10:20]`` and ``routes[[3, 3, 5]]`` are
    routes again, without a copy.

    Attributes
    ----------
    simulator : Simulator
        Who loaded them.
    """

    def __init__(
        self,
        simulator: Simulator,
        handle: _native.Handle,
        names: list[str],
        files: list[str],
        rows: npt.NDArray[np.intp],
        index: npt.NDArray[np.intp],
    ) -> None:
        self.simulator = simulator
        self._handle = handle
        self._all_names = names
        self._all_files = files
        self._all_rows = rows
        self._index = index
        self._columns: list[
            FloatArray
        ] = []  # of all that are loaded, once they are asked for; shared

    @property
    def names(self) -> list[str]:
        """The routes' names."""
        return [self._all_names[i] for i in self._index]

    @property
    def files(self) -> list[str]:
        """The routes' files."""
        return [self._all_files[i] for i in self._index]

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The number of steps of each route, shape (N,)."""
        return self._all_rows[self._index]

    @property
    def positions(self) -> list[int]:
        """Where the routes are among those that were loaded together."""
        return list(map(int, self._index))

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, key: int) -> Route: ...
    @overload
    def __getitem__(self, key: slice | Sequence[int] | npt.NDArray[Any]) -> Routes: ...
    def __getitem__(self, key: Any) -> Route | Routes:
        if isinstance(key, np.ndarray) and not key.ndim:
            key = key.item()
        if isinstance(key, (slice, list, tuple, np.ndarray)):
            if isinstance(key, (list, tuple)):  # an empty one is no array of integers
                key = np.asarray(key) if key else np.zeros(0, np.intp)
            index = np.arange(len(self), dtype=np.intp)[key]
            if index.ndim != 1:
                raise IndexError(f"routes: an array of shape {index.shape}, want one dimension")
            part = Routes(
                self.simulator,
                self._handle,
                self._all_names,
                self._all_files,
                self._all_rows,
                self._index[index],
            )
            part._columns = self._columns
            return part
        i = int(self._index[operator.index(key)])
        return Route(self._all_names[i], *self._load()[i])

    def __iter__(self) -> Iterator[Route]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<{len(self)} routes: {', '.join(self.names[:3])}{', …' if len(self) > 3 else ''}>"

    def _load(self) -> list[FloatArray]:
        if not self._columns:
            flat = np.empty(len(COLUMNS) * int(self._all_rows.sum()))
            self._handle.call("columns", flat)
            flat.flags.writeable = False
            ends = np.cumsum(len(COLUMNS) * self._all_rows)
            self._columns += [part.reshape(len(COLUMNS), -1) for part in np.split(flat, ends[:-1])]
        return self._columns


@dataclass(frozen=True, eq=False, repr=False)
class Result(Bitwise):
    """What K controllers on N routes gave. ``==`` compares all of it by its bits.

    Attributes
    ----------
    controllers : list of str
        The controllers' names, K of them.
    routes : list of str
        The routes' names, N of them.
    costs : numpy.ndarray
        ``lataccel_cost, jerk_cost, total_cost``, shape (K, N, 3); NaN where the rollout failed.
    errors : dict
        Why a rollout failed, by ``(controller, route)``.
    lataccel, action : numpy.ndarray or None
        The rollouts' histories, shape (K, N, T), NaN behind the end of a shorter route;
        m/s², and steer commands after clipping. None unless asked for.
    """

    controllers: list[str]
    routes: list[str]
    costs: FloatArray
    errors: dict[tuple[int, int], Exception] = field(default_factory=dict)
    lataccel: FloatArray | None = None
    action: FloatArray | None = None

    @property
    def mean(self) -> FloatArray:
        """Mean costs of each controller over the routes that did not fail, shape (K, 3)."""
        with np.errstate(invalid="ignore"):
            ok = ~np.isnan(self.costs)
            # NumPy's sum has another order, and other bits, where numbers are not side by side.
            columns = np.ascontiguousarray(np.where(ok, self.costs, 0.0).swapaxes(1, 2))
            mean: FloatArray = columns.sum(axis=2) / ok.sum(axis=1)
            return mean

    @property
    def sha256(self) -> str:
        """A hash of all costs as bits: equal exactly if every cost is."""
        return hashlib.sha256(np.ascontiguousarray(self.costs, dtype="<f8").tobytes()).hexdigest()

    def __repr__(self) -> str:
        means = ", ".join(
            f"{name:.40} {total:.6g}"
            for name, total in zip(self.controllers[:3], self.mean[:, 2], strict=False)
        )
        more = ", …" if len(self.controllers) > 3 else ""
        failed = f"; {len(self.errors)} failed" if self.errors else ""
        return f"<{len(self.routes)} routes, mean total cost: {means}{more}{failed}>"

    def _table(self) -> dict[str, list[Any]]:
        """Columns with a row for each rollout, controller after controller."""
        k, n = self.costs.shape[:2]
        table: dict[str, list[Any]] = {
            "controller": [name for name in self.controllers for _ in range(n)],
            "route": self.routes * k,
        }
        table |= {name: self.costs[:, :, i].ravel().tolist() for i, name in enumerate(COSTS)}
        table["error"] = [
            str(self.errors[i, j]) if (i, j) in self.errors else None
            for i in range(k)
            for j in range(n)
        ]
        return table

    def to_pandas(self) -> Any:
        """A DataFrame with a row for each rollout. Needs the package pandas."""
        import pandas as pd

        return pd.DataFrame(self._table())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a table with a row for each rollout; costs have all digits, failures none.

        Parameters
        ----------
        path : str or path-like
            The file, which appears whole or not at all.
        """
        table = self._table()
        with whole(path) as part, open(part, "w", newline="", encoding="utf-8") as f:
            rows = csv.writer(f)
            rows.writerow(table)
            rows.writerows(  # a cost may be nan where nothing failed: 101 rows have no jerk
                row if row[-1] is None else [*row[:2], *[""] * len(COSTS), row[-1]]
                for row in zip(*table.values(), strict=True)
            )

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the table of :meth:`to_pandas`. Needs the package pyarrow.

        Parameters
        ----------
        path : str or path-like
            The file, which appears whole or not at all.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        with whole(path) as part:
            pq.write_table(pa.table(self._table()), part)

    def plot(self) -> Any:
        """Draw each controller's total costs in ascending order, and return matplotlib's Figure.

        A line below another is better on that share of the routes. Needs the package matplotlib.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 4), layout="constrained")
        axes = figure.subplots()
        for name, totals in zip(self.controllers, self.costs[:, :, 2], strict=True):
            ok = np.sort(totals[~np.isnan(totals)])
            share = 100 * np.arange(1, len(ok) + 1) / max(len(ok), 1)
            axes.plot(share, ok, marker="." if len(ok) < 50 else None, label=f"{name:.40}")
        axes.set(xlabel="% of the routes", ylabel="total cost, at most", yscale="log")
        axes.legend()
        return figure


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[str]:
    """A name to write to, of what becomes the file when it is whole.

    What is there keeps its mode, a link leads to what is replaced, and a device or a pipe is
    written to as it is.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        yield os.fspath(path)
        return
    path = os.path.realpath(path)
    part = f"{path}.{os.getpid()}.part"
    try:
        yield part
        if os.path.exists(path):
            shutil.copymode(path, part)
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def check_paths(
    what: str, paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
) -> list[str]:
    """The names of files and folders of routes, of one or of several."""
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    names = [_native.text(what, os.fspath(p)) for p in several]
    if not names or "" in names:
        raise ValueError(
            f'{what}: {"an empty name" if names else "none"}: want files, folders, or "own"'
        )
    return names


def check_model(model: str | os.PathLike[str] | None) -> str:
    """The name of a network's file, for the library: empty for that of the challenge."""
    if model is not None and not os.fspath(model):
        raise ValueError('model: an empty name: want a file, "own", or None')
    return "" if model is None else os.fspath(model)


def check_limit(limit: int | None) -> int:
    """How many routes of a folder are taken at most, for the library: -1 for all."""
    if limit is None:
        return -1
    if operator.index(limit) < 1:
        raise ValueError(f"limit={limit}: want 1 or more")
    return operator.index(limit)


def count_workers(asked: int | None) -> int:
    """Workers: as asked for, else OMP_NUM_THREADS, else the cores the process may use."""
    if asked is not None:
        if operator.index(asked) < 1:
            raise ValueError(f"workers={asked}: want 1 or more")
        return operator.index(asked)
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if text.isdigit() and int(text) > 0:
        return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Simulator(_native.Uncopied):
    """An engine with a network.

    Parameters
    ----------
    engine : str
        ``"auto"``, which is the fastest that can run here, or an engine's name. All give the
        same bits.
    model : path-like, optional
        The network, an ONNX file; ``"own"`` is the project's own. By default the challenge's, or
        the project's own where that is not at hand, with a warning; a file of the challenge's
        name that is another network is warned of, too.
    profile : str
        The arithmetic, such as ``"ort1.30-avx512-expU-sinfma-csv2"``; ``"host"`` is that of this
        Python's NumPy, pandas and ONNX Runtime, which are asked in a process of their own, and
        ``"pins"`` that of the challenge's pinned packages on this CPU. ``Simulator.arithmetic``
        is what they answered, None if they were not asked.
    workers : int, optional
        Cores to use. By default what OMP_NUM_THREADS says, else what the process may use.
    stream : int
        The CUDA stream on which the GPU's work goes, in order with the caller's own, such as
        ``torch.cuda.current_stream().cuda_stream``; 0, as there, is the default one. It is in
        the GPU's primary context, which is PyTorch's.

    Examples
    --------
    >>> import lockstep
    >>> sim = lockstep.Simulator(model="own")
    >>> routes = sim.load("own", limit=4)
    >>> sim.rollout(routes, "pid").costs.shape
    (1, 4, 3)
    """

    def __init__(
        self,
        engine: str = "auto",
        model: str | os.PathLike[str] | None = None,
        profile: str = "host",
        workers: int | None = None,
        stream: int = 0,
    ) -> None:
        self.workers = count_workers(workers)
        if operator.index(stream) < 0:
            raise ValueError(f"stream={stream}: want a CUDA stream's number")
        answer = _native.long_call(
            "open",
            0,
            engine=_native.text("engine", engine),
            model=check_model(model),
            profile=_native.text("profile", profile),
            python=_native.interpreter(),
            workers=self.workers,
            stream=operator.index(stream),
        )
        self._handle = _native.Handle(answer["handle"], "simulator")
        self.engine: str = answer["engine"]
        self.profile: str = answer["profile"]
        self.model: str = answer["model"]
        self.arithmetic: dict[str, Any] | None = answer["arithmetic"]
        self.arithmetic_source: str = answer["source"]
        self.notices: list[str] = answer["notices"] or []
        for notice in self.notices:
            warnings.warn(notice, stacklevel=2)
        self._place = (
            None if answer["gpu"] is None else Place(answer["gpu"], operator.index(stream))
        )

    def __repr__(self) -> str:
        closed = ", closed" if self._handle.closed else ""
        return f"<lockstep.Simulator {self.engine}, {self.profile}{closed}>"

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def stats(self) -> dict[str, Any]:
        """What it has done so far, on any engine, and the seconds of the clock that this took.

        ``set_up_seconds``; ``load_seconds`` of ``routes``; ``rollout_seconds`` of ``rollouts`` and
        of ``steps``, of those in step mode, too, with ``us_per_step``; what of it was spent in the
        network, by all threads together, ``network_seconds``; and ``device``, what has passed to
        the GPU, with ``device_idle_seconds``. The last three are None where there is none, or
        nobody takes the time.
        """
        answer: dict[str, Any] = self._handle.call("stats")
        return answer

    def close(self) -> None:
        """Free the engine. Closing twice does no harm."""
        self._handle.close()

    def load(
        self,
        paths: str | os.PathLike[str] | Sequence[Any] | Any,
        limit: int | None = None,
        seed_prefix: str = "data",
        strict: bool = True,
        cache: bool = True,
    ) -> Routes:
        """Load routes from CSV files as the challenge's program does, or take those in memory.

        Parameters
        ----------
        paths : path-like, DataFrame or Route; or a sequence of one kind; or a dict
            Files, and folders, whose ``.csv`` files are taken in the order of their names;
            ``"own"`` are twenty generated routes that come with the package. A DataFrame has
            the columns of such a file, or those of :class:`Route`, of which every bit is taken.
            A dict has DataFrames by the routes' names, which seed the draws as files of these
            names do; without a name it is ``frame``, or ``frame0`` and so on.
        limit : int, optional
            At most this many routes of a folder, 1 or more.
        seed_prefix : str
            The folder in the path that seeds a route's random draws, ``<seed_prefix>/<file name>``.
        strict : bool
            Whether a file that is no route is an error; else it is left out. A DataFrame that is
            none always is an error.
        cache : bool
            Keep what was parsed in the user's cache folder. Where that cannot be, a warning says
            why, and nothing else is different.

        Raises
        ------
        RouteError
            With file, line and column.
        FileNotFoundError
            If a path does not exist.
        """
        most = check_limit(limit)
        frames = _frames.named(paths)
        if frames is not None:
            if not strict:
                raise ValueError("strict=False: it goes with files, and these are in memory")
            return self._made(dict(list(frames.items())[:limit]), seed_prefix)
        names = check_paths("paths", paths)
        answer = self._handle.long_call(
            "load",
            paths=names,
            limit=most,
            seedPrefix=_native.text("seed_prefix", seed_prefix),
            cache=bool(cache),
            workers=self.workers,
        )
        for notice in answer["notices"] or []:
            warnings.warn(notice, stacklevel=2)
        return self._routes(answer, strict)

    def _made(self, frames: dict[str, Any], seed_prefix: str) -> Routes:
        if not frames:
            raise ValueError('paths: none: want files, folders, DataFrames, or "own"')
        tables = [_frames.columns(name, frame) for name, frame in frames.items()]
        answer = self._handle.call(
            "make",
            np.concatenate([table.reshape(-1) for table, _ in tables]),
            names=[name if name.endswith(".csv") else f"{name}.csv" for name in frames],
            rows=[table.shape[1] for table, _ in tables],
            raw=[raw for _, raw in tables],
            seedPrefix=_native.text("seed_prefix", seed_prefix),
        )
        return self._routes(answer, True)

    def _routes(self, answer: dict[str, Any], strict: bool) -> Routes:
        handle = _native.Handle(answer["handle"], "routes")
        if strict and answer["failed"]:
            raise _native.error(answer["failed"][0])
        rows = np.asarray(answer["rows"], dtype=np.intp)
        return Routes(
            self,
            handle,
            answer["names"],
            answer["files"],
            rows,
            np.arange(len(rows), dtype=np.intp),
        )

    def rollout(
        self,
        routes: Routes,
        controllers: Controllers = "pid",
        trajectory: bool = False,
        progress: Progress = None,
    ) -> Result:
        """Roll every route out with every controller.

        Parameters
        ----------
        routes : Routes
            N routes of this simulator's.
        controllers : str, path-like, array, mapping, callable, or a sequence of these
            See :mod:`lockstep.controllers`. A callable goes alone.
        trajectory : bool
            Ask for the histories, too; rollouts then go on to the routes' ends.
        progress : True, tqdm or callable, optional
            A bar of tqdm's, its class, or True for the one that fits; or a function, called with
            how many rollouts have ended, and of how many.

        Returns
        -------
        Result
            Costs of shape (K, N, 3). A rollout that fails leaves the others alone.
        """
        tell, n = told(progress), _count(routes)
        if callable(controllers):
            return self._steered(routes, controllers, trajectory, tell)
        specs = specify(controllers, n)
        k = len(specs)
        rows = int(routes.rows.max(initial=0)) if trajectory else 0
        _memory.check(f"{k * n:,} rollouts", k * n * (JOB_BYTES + 8 * (3 + 2 * rows)))
        flat = np.full(k * n * (3 + 2 * rows), np.nan)
        report = None if tell is None else lambda done: tell(done, k * n)
        answer = self._handle.long_call(
            "rollout",
            flat,
            progress=report,
            **specify_routes(routes),
            controllers=specs,
            rows=rows,
        )
        if tell is not None:
            tell(k * n, k * n)
        histories = flat[3 * k * n :].reshape(k, n, 2, rows) if trajectory else None
        return Result(
            controllers=distinct(answer["names"], specs),
            routes=routes.names,
            costs=flat[: 3 * k * n].reshape(k, n, 3),
            errors={
                divmod(int(job), n): _native.error(failure)
                for job, failure in answer["errors"].items()
            },
            lataccel=None if histories is None else histories[:, :, 0],
            action=None if histories is None else histories[:, :, 1],
        )

    def _steered(
        self,
        routes: Routes,
        controller: Callable[[Any], npt.ArrayLike],
        trajectory: bool,
        tell: Callable[..., object] | None,
    ) -> Result:
        """Roll out with a function of Python's."""
        with self._begin(routes, CONTEXT_LENGTH, whole=trajectory) as rollouts:
            lataccel, action = steer(rollouts, routes, controller)
            costs = rollouts.costs()[np.newaxis]
            errors = {(0, i): error for i, error in rollouts.errors.items()}
        if tell is not None:
            tell(len(routes), len(routes))
        return Result(
            controllers=[getattr(controller, "__name__", type(controller).__name__)],
            routes=routes.names,
            costs=costs,
            errors=errors,
            lataccel=lataccel[np.newaxis] if trajectory else None,
            action=action[np.newaxis] if trajectory else None,
        )

    def reset(
        self, routes: Routes, step: int = CONTROL_START_IDX, draws: npt.ArrayLike | None = None
    ) -> Rollouts:
        """Begin rollouts that are steered from outside, one step at a time.

        Parameters
        ----------
        routes : Routes
            N routes of this simulator's.
        step : int
            The first step that is steered from outside, 20 to 100; up to it the recorded
            commands steer. Commands count from step 100 on only.
        draws : array_like, optional
            The uniform variates in [0, 1) of the simulation's noise in place of the routes' own,
            for steps from 20 on, shape (N, T) with T at least the number of steps to be simulated.

        Returns
        -------
        Rollouts
            To be advanced.
        """
        return self._begin(routes, step, draws)

    def _begin(
        self,
        routes: Routes,
        step: int,
        draws: npt.ArrayLike | None = None,
        whole: bool = False,
    ) -> Rollouts:
        """Begin rollouts that go on to where costs end, or to the routes' ends."""
        step, n = operator.index(step), some(routes)
        if not CONTEXT_LENGTH <= step <= CONTROL_START_IDX:
            raise ValueError(f"step={step}: want {CONTEXT_LENGTH} to {CONTROL_START_IDX}")
        _memory.check(f"{n} rollouts", n * ROLLOUT_BYTES)
        array = None
        if draws is not None:
            if np.asarray(draws).dtype.kind not in REAL:
                raise TypeError(f"draws: {np.asarray(draws).dtype}, want float64")
            array = np.ascontiguousarray(draws, dtype=np.float64)
            if (
                array.ndim != 2
                or len(array) != len(routes)
                or not ((array >= 0) & (array < 1)).all()
            ):
                raise ValueError(
                    f"draws: shape {array.shape}, want ({len(routes)}, T) of numbers in [0, 1)"
                )
        answer = self._handle.long_call(
            "reset",
            array,
            **specify_routes(routes),
            step=step,
            draws=0 if array is None else array.shape[1],
            whole=whole,
        )
        handle = _native.Handle(answer["handle"], "rollouts")
        there = None
        if self._place is not None:
            there = DeviceArray(self._place, answer["lataccels"], (len(routes),), handle)
        ends = routes.rows if whole else np.minimum(routes.rows, COST_END_IDX)
        return Rollouts(handle, routes.names, ends, step, there)

    def collect(
        self,
        policy: str | os.PathLike[str] | Network,
        routes: Routes,
        samples: int = 0,
        seed: int | None = None,
        progress: Progress = None,
        device: bool = False,
    ) -> Experience:
        """Roll out with a network and keep what training needs.

        Parameters
        ----------
        policy : Network or path-like
            The network, or its file, ``.onnx``: observations [n, 256] to [n, 2].
        routes : Routes
            N routes of this simulator's.
        samples : int
            Rollouts of each route with sampled actions; 0 is one with the mean action, as in every
            evaluation. All rollouts are held in memory at once.
        seed : int, optional
            Of the sampled actions, such as the epoch, by default 0. A draw depends on seed, rollout
            and step alone.
        progress : True, tqdm or callable, optional
            A bar of tqdm's, its class, or True for the one that fits; or a function, called with
            how many rollouts have ended, and of how many.
        device : bool
            Whether to leave the arrays in the GPU's memory, as :class:`lockstep.DeviceArray`. Only
            with ``engine="gpu"``.

        Returns
        -------
        Experience
            Of R = N·max(samples, 1) rollouts.
        """
        tell = told(progress)
        total = _count(routes) * max(operator.index(samples), 1)
        if seed is not None and not samples:
            raise ValueError(f"seed={seed}: it goes with samples, and there is none")
        seed = 0 if seed is None else operator.index(seed)
        if samples < 0 or not 0 <= seed < 2**64:
            raise ValueError(f"samples={samples}, seed={seed}: want 0 or more, and 0 to 2**64-1")
        arrays = 0 if device else 2 * ARRAY_BYTES  # the library's, and those that are returned
        _memory.check(f"samples={samples}: {total:,} rollouts", total * (JOB_BYTES + arrays))
        if device and self._place is None:
            raise ValueError(
                f'device=True: the {self.engine} engine has no arrays on a GPU: use engine="gpu"'
            )
        spec = specify(policy, len(routes))
        if len(spec) != 1:
            raise ValueError(f"policy: {len(spec)} of them, want one")
        answer = self._handle.long_call(
            "collect",
            progress=None if tell is None else lambda done: tell(done, total),
            **specify_routes(routes),
            policy=spec[0],
            samples=samples,
            seed=seed,
            device=bool(device),
        )
        if tell is not None:
            tell(total, total)
        return Experience(
            _native.Handle(answer["handle"], "experience"), answer, self._place if device else None
        )


def generate(path: str | os.PathLike[str], num_routes: int, seed: int = 1) -> None:
    """Write generated routes into a folder, in the format of the challenge's.

    Parameters
    ----------
    path : path-like
        The folder, which is made if needed. Routes of the same seed that are there stay.
    num_routes : int
        1 to 100,000. Route k does not depend on how many there are.
    seed : int
        Equal seeds give equal bytes everywhere.
    """
    folder = os.path.abspath(os.fspath(path))
    _native.long_call(
        "generate", 0, folder=folder, routes=operator.index(num_routes), seed=operator.index(seed)
    )


def _count(routes: Routes) -> int:
    """How many routes there are: what no machine can hold is refused before each is named."""
    if not isinstance(routes, Routes):
        raise TypeError(f"routes: {type(routes).__name__}, want what Simulator.load returns")
    return len(routes)


def some(routes: Routes) -> int:
    """How many routes there are: one at least."""
    if not _count(routes):
        raise ValueError("routes: there is none")
    return len(routes)


def specify_routes(routes: Routes) -> dict[str, Any]:
    """The routes as the library is told of them."""
    _count(routes)
    return {"routes": routes._handle.id, "positions": routes.positions}
