"""What the runners share: samples, copies of the tree, and judging."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import functools
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
EQUIVALENT = ROOT / "parity/mutants/equivalent.tsv"

# A mutant is late that takes so many times what the tests take without one, and some seconds. It
# is killed then if the same tests without it are in time: a busy machine is late with either.
LATE, GRACE = 3, 20.0


@dataclass(frozen=True)
class Mutant:
    """A line that is another."""

    file: str
    line: int
    column: int
    operator: str
    new: str

    def __str__(self) -> str:
        text = (ROOT / self.file).read_text().splitlines()[self.line - 1].strip()
        return f"{self.file}:{self.line}:{self.column}\t{self.operator}\t{text}"


def options(what: str | None, most: int, folders: Collection[str] = ()) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(what or "").splitlines()[0])
    if folders:
        parser.add_argument(
            "--folder", action="append", choices=list(folders), help="of these alone"
        )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--most", type=int, default=most, help="mutants that are judged")
    parser.add_argument("--budget", type=float, default=0, help="seconds after which no other is")
    parser.add_argument("--enter", action="store_true", help="the score into MUTATION.md")
    parser.add_argument(
        "--verdicts",
        type=Path,
        help="a file that keeps them: a run of the same sources goes on behind those in it",
    )
    parser.add_argument("--list", action="store_true", help="the sample, and judge nothing")
    return parser.parse_args()


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def tracked(folder: str) -> list[str]:
    return git("ls-files", folder).splitlines()


def sample(everything: list[Mutant], seed: int, most: int) -> list[Mutant]:
    return random.Random(seed).sample(everything, min(most, len(everything)))


def show(chosen: list[Mutant]) -> None:
    """Print what would be judged."""
    for m in chosen:
        print(m, m.new.strip(), sep="\t")


def copy() -> Path:
    """A copy of what git knows of the tree, as it is now."""
    tree = Path(tempfile.mkdtemp(prefix="lockstep-mutants-"))
    atexit.register(shutil.rmtree, tree, ignore_errors=True)
    for file in git("ls-files").splitlines():
        if (ROOT / file).is_file():
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, tree / file)
    return tree


def passes(
    command: list[str], folder: Path, more: Mapping[str, str], patience: float
) -> bool | None:
    """Whether a command ends well; None if it does not end in time, of the CPU and the clock."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | more,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(patience) == 0
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):  # and what it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def seen(ends: bool | None, without: Callable[[], bool | None]) -> str:
    """How tests see a mutant, if they do, by how they end: one that hangs is late, and is killed.

    The machine is busy if they are not in time without it, either.
    """
    if ends is None and not without():
        return "busy"
    return {True: "", None: "late", False: "killed"}[ends]


def judge(
    o: argparse.Namespace,
    name: str,
    total: int,
    chosen: list[Mutant],
    tree: Path,
    judges: Callable[[Mutant | None], list[tuple[str, list[str]]]],
    plant: Callable[[int, Mutant | None], Mapping[str, str]],
    known: dict[str, float] | None = None,
) -> None:
    """Have commands judge each mutant, of those that judge any, and enter the score.

    What the commands of a mutant take is what the same commands take without one, or is known of
    each when they are named.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # what runs is not left running
    begun = time.monotonic()
    took: dict[str, float] = {} if known is None else known
    for folder, command in judges(None):
        for _ in range(2 if known is None else 1):  # the first compiles what is kept
            start = time.monotonic()
            if passes(command, tree / folder, plant(0, None), 1e4) is not True:
                raise SystemExit(f"without a mutant these fail: {command}")
            took[" ".join(command)] = time.monotonic() - start
        print(f"without a mutant {took[' '.join(command)]:.0f} s: {command}", file=sys.stderr)
    rows = {tuple(row.split("\t")[:4]) for row in EQUIVALENT.read_text().splitlines()[1:]}
    said = {}
    if o.verdicts and o.verdicts.exists():
        said = {v: how for how, _, v in (x.partition("\t") for x in o.verdicts.open())}
    judged = killed = equivalent = late = 0
    for k, m in enumerate(chosen, 1):
        if o.budget and time.monotonic() - begun > o.budget:
            break
        what = f"{m}\t{m.new.strip()}\n"
        how = said.get(what, "")
        for folder, command in [] if how else judges(m):
            patience = LATE * took[" ".join(command)] + GRACE
            run = functools.partial(passes, command, tree / folder, patience=patience)
            how = seen(run(more=plant(k, m)), lambda run=run: run(more=plant(0, None)))
            if how:
                break
        how = how or "lived"
        if how == "busy":  # counted for nothing
            print(f"{how}\t{what}", end="", flush=True)
            continue
        if o.verdicts and what not in said:
            with o.verdicts.open("a") as kept:
                kept.write(f"{how}\t{what}")
        if (m.file, str(m.column), m.operator, str(m).split("\t")[2]) in rows and how == "lived":
            how = "equivalent"
        judged += 1
        killed += how in ("killed", "late")
        late += how == "late"
        equivalent += how == "equivalent"
        print(f"{how}\t{what}", end="", flush=True)
    score = killed / max(1, judged - equivalent)
    among = interval(score, judged - equivalent, judged == total)
    print(
        f"{name}: {total} mutants, {judged} judged, {killed} killed ({late} late), "
        f"{equivalent} equivalent: {100 * score:.0f} %, {among}; "
        f"seed {o.seed}"
    )
    if o.enter:
        counted = f"{name},tokens,{o.seed},{total},{judged},{killed},{equivalent}"
        enter = ["go", "run", "./parity/mutants/mutation", "--row", counted]
        subprocess.run(enter, cwd=ROOT, check=True)


def interval(p: float, n: int, whole: bool) -> str:
    """Wilson's, of 95 %, as parity/mutants/mutation has it."""
    if whole or not n:
        return "all"
    z = 1.959964
    middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = ((middle + s * half) / (1 + z * z / n) for s in (-1, 1))
    return f"{100 * low:.0f}–{100 * high:.0f} %"
