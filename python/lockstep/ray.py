"""Many machines: the shards of a plan as tasks of Ray, and workers for training.

On a cluster whose machines see one folder::

    python -m lockstep.ray FOLDER --address auto

computes what is missing of the plan in FOLDER, which :func:`lockstep.shards.plan` of the same
wheel has made, shows how far it is, and prints the merged result. The driver, a worker or a
node may end at any moment: a shard is whole or not there, the same command goes on with those
that are missing, and one that was computed twice must be equal in every bit. Ray schedules and
repeats; nothing here does.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

import lockstep
from lockstep import shards

__all__ = ["evaluate", "rollout_workers"]


def _compute(folder: str, index: int, inputs: dict[str, Any], workers: int) -> str:
    return shards.run(folder, index, workers=workers, **inputs)


def evaluate(
    plan: str | os.PathLike[str] | shards.Plan,
    *,
    cpus: int = 1,
    retries: int = 3,
    model: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    progress: Callable[[int, int], object] | None = None,
) -> shards.Merged:
    """Compute what is missing of a plan, a task for each shard, and merge.

    Parameters
    ----------
    plan : path-like or Plan
        The plan's folder, which all machines see.
    cpus : int
        Cores of a task.
    retries : int
        How often Ray starts a task again whose worker or node ended. An error of the
        simulator's is final: a machine that would compute something else than planned stays
        one that does.
    model : path-like
        Where the network is on the machines, if not where it was planned.
    data : path-like or sequence of them
        Where the routes are, likewise.
    progress : callable, optional
        Called with how many shards are there, and of how many.

    Raises
    ------
    SimulationError
        If a machine refuses, for another profile, build, network or route.
    """
    folder = os.path.abspath(plan.folder if isinstance(plan, shards.Plan) else os.fspath(plan))
    before = shards.merge(folder)
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    inputs = {"model": model, "data": shards.elsewhere(data)}
    task = ray.remote(num_cpus=cpus, max_retries=retries)(_compute)
    waiting = [task.remote(folder, index, inputs, cpus) for index in before.missing]
    done = before.shards - len(waiting)
    try:
        while waiting:
            if progress is not None:
                progress(done, before.shards)
            ready, waiting = ray.wait(waiting)
            done += len(ready)
            ray.get(ready)
    except ray.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error from None
    finally:
        for other in waiting:
            ray.cancel(other, force=True)
    if progress is not None:
        progress(done, before.shards)
    return shards.merge(folder)


class _Worker:
    """A simulator with routes, in a process of its own."""

    def __init__(self, make: Callable[..., Any], number: int, of: int) -> None:
        self.call = make(number, of)

    def work(self, argument: Any) -> Any:
        return self.call(argument)


def rollout_workers(
    make: Callable[[int, int], Callable[[Any], Any]], workers: int, *, cpus: int = 1
) -> Callable[[Any], Iterator[Any]]:
    """Start workers for training, and return a function that gives all of them an argument.

    Parameters
    ----------
    make : callable
        Called once in each worker's process with its number and how many there are; returns
        what the worker does with an argument, such as a new policy file. It opens its own
        simulator and takes its own part of the routes, say ``routes[number::of]``.
    workers, cpus : int
        How many, and the cores of each.

    Returns
    -------
    callable
        Gives every worker the argument and yields their answers in the workers' order, whichever
        comes first: the same on every run.
    """
    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    actor = ray.remote(num_cpus=cpus, max_restarts=3, max_task_retries=3)(_Worker)
    actors = [actor.remote(make, number, workers) for number in range(workers)]

    def gather(argument: Any) -> Iterator[Any]:
        shared = ray.put(argument)
        answers = [a.work.remote(shared) for a in actors]
        return (ray.get(answer) for answer in answers)

    return gather


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m lockstep.ray", description=str(__doc__).split("\n")[0]
    )
    parser.add_argument("folder", help="the folder of a plan, which all machines see")
    parser.add_argument("--address", help="of a Ray cluster, or auto; without it Ray starts here")
    parser.add_argument("--cpus", type=int, default=1, help="cores of a shard")
    parser.add_argument("--model", help="where the network is on the machines")
    parser.add_argument(
        "--data", action="append", default=[], help="where the routes are on the machines"
    )
    options = parser.parse_args(arguments)

    def progress(done: int, of: int) -> None:
        print(f"lockstep: {done} of {of} shards", file=sys.stderr, flush=True)

    try:
        shards.merge(options.folder)  # is it a plan?
        if options.address:
            ray.init(address=options.address, log_to_driver=False)
        merged = evaluate(
            options.folder,
            cpus=options.cpus,
            model=options.model,
            data=options.data,
            progress=progress,
        )
        result = merged.result
    except (OSError, ValueError, RuntimeError) as error:
        print(f"lockstep: {error}", file=sys.stderr)
        return 1 if isinstance(error, lockstep.SimulationError) else 2
    for (k, n), failure in result.errors.items():
        print(f"lockstep: {result.routes[n]}, {result.controllers[k]}: {failure}", file=sys.stderr)
    for name, mean in zip(result.controllers, result.mean.tolist(), strict=False):
        print(f"{name}: lataccel_cost {mean[0]}, jerk_cost {mean[1]}, total_cost {mean[2]}")
    print("sha256", merged.sha256)
    return 0 if not result.errors else 2


if __name__ == "__main__":
    sys.exit(main())
