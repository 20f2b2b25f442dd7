"""Mutants of the Python package that nobody chose, judged by the tests of the module.

Each is a file of a copy of the package, which stands before the one that is installed. Of the tests
those judge that execute its line, as a first run of all has recorded, the quickest first.

    build/python/bin/python parity/mutants/tokens/package.py --most 40 --enter
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import common

PACKAGE = "python/lockstep"
OURS = Path(__file__).parent

# Which tests see a module, the quickest first. Those that only draw, print or need a GPU are left.
TESTS = {
    "classic.py": ["classic_history", "classic"],
    "envs.py": ["env_history", "envs", "keywords"],
    "simulator.py": ["history", "rollout", "step", "keywords", "process"],
    "rollouts.py": ["history", "step", "rollout", "keywords"],
    "controllers.py": ["history", "rollout", "keywords"],
    "network.py": ["wide", "training", "history"],
    "training.py": ["training", "history", "keywords"],
    "search.py": ["search", "keywords"],
    "shards.py": ["shards", "keywords"],
    "parity.py": ["parity", "keywords"],
    "tinyphysics.py": ["tinyphysics"],
    "_frames.py": ["step", "rollout"],
    "_memory.py": ["rollout", "envs"],
    "_native.py": ["history", "process"],
    "_register.py": ["envs", "classic", "process"],
    "_trace.py": ["parity", "rollout"],
}

# What wants a GPU or PyTorch, which these tests have not: functions by their names, and where an
# object of the GPU is there. test_device and test_examples hold them.
ELSEWHERE = re.compile(r"\w+_there|_taken_apart")
IS_THERE = re.compile(r"(self\._)?place is not None")

# Their tests have other processes execute the package, of which nothing is recorded.
UNSEEN = ["process"]

BINARY = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"}
BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
NEGATION = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip


# Bytes of a file, from the first to that behind the last, and what stands there instead.
Edit = tuple[int, int, str]


def changes(tree: ast.AST, text: str) -> Iterator[tuple[ast.AST, str, str]]:
    """Each node that an operator fits, with the operator's name and what the node becomes."""

    def of(node: ast.AST) -> str:
        return ast.get_source_segment(text, node) or ""

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ELSEWHERE.fullmatch(node.name):
            node.body = []
        if isinstance(node, ast.If) and IS_THERE.fullmatch(of(node.test)):
            node.body = []
        if isinstance(node, (ast.AnnAssign, ast.arg)):
            node.annotation = None  # types are no code
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.decorator_list = []
            if isinstance(node, ast.FunctionDef):
                node.returns = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right, kind = of(node.left), of(node.comparators[0]), type(node.ops[0])
            if kind in BOUNDARY:
                yield node, "CONDITIONALS_BOUNDARY", f"{left} {BOUNDARY[kind]} {right}"
            yield node, "CONDITIONALS_NEGATION", f"{left} {NEGATION[kind]} {right}"
        elif isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            left, right = of(node.left), of(node.right)
            yield node, "ARITHMETIC_BASE", f"({left}) {BINARY[type(node.op)]} ({right})"
            if isinstance(node.op, (ast.Sub, ast.Div, ast.FloorDiv)):
                sign = {ast.Sub: "-", ast.Div: "/", ast.FloorDiv: "//"}[type(node.op)]
                yield node, "SWAPPED_OPERANDS", f"({right}) {sign} ({left})"
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield node, "INVERT_LOGICAL", word.join(f"({of(v)})" for v in node.values)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, "INVERT_NEGATIVES", of(node.operand)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, "CONSTANT_PLUS", f"({of(node)} + 1)"
            yield node, "CONSTANT_MINUS", f"({of(node)} - 1)"
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield node, "CONSTANT_NOT", str(not node.value)
        elif (isinstance(node, (ast.Assign, ast.AugAssign)) and "__all__" not in of(node)) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        ):
            yield node, "DROPPED_STATEMENT", "pass"
        elif isinstance(node, ast.If):
            yield node.test, "CONDITION", f"not ({of(node.test)})"
        elif isinstance(node, ast.For):
            yield node.iter, "SHORTEN_RANGE", f"list({of(node.iter)})[:-1]"
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name):
            yield node.slice, "FIRST_FOR_EACH", "0"
        if isinstance(node, ast.Call):
            yield from calls(node, of)


def calls(node: ast.Call, of: Callable[[ast.AST], str]) -> Iterator[tuple[ast.AST, str, str]]:
    """What a call is taken for: one that leaves out what it is told by name, or makes no copy."""
    name, given = of(node.func), [of(a) for a in node.args]
    named = [f"{k.arg}={of(k.value)}" if k.arg else f"**{of(k.value)}" for k in node.keywords]
    for i, k in enumerate(node.keywords):
        if k.arg:
            rest = ", ".join([*given, *named[:i], *named[i + 1 :]])
            yield node, "REMOVE_FIELD", f"{name}({rest})"
    if name.endswith(".copy") and not given:
        yield node, "SHARE_COPY", name.removesuffix(".copy")
    elif name == "np.array":
        yield node, "SHARE_COPY", f"np.asarray({', '.join([*given, *named])})"
    elif name in ("list", "dict") and len(given) == 1 and not named:
        yield node, "SHARE_COPY", given[0]


def mutants(file: str, text: str) -> dict[common.Mutant, Edit]:
    """What the operators make of a file: each mutant, and what it has in place of some bytes."""
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line.encode()))
    data, found = text.encode(), {}
    for node, operator, new in changes(ast.parse(text), text):
        start = begins[node.lineno - 1] + node.col_offset
        end = begins[node.end_lineno - 1] + node.end_col_offset
        whole = (data[:start] + new.encode() + data[end:]).decode()
        try:
            compile(whole, file, "exec")
        except SyntaxError:
            continue
        short = f"… {' '.join(new.split())} …"
        m = common.Mutant(file, node.lineno, node.col_offset + 1, operator, short)
        found[m] = start, end, new
    return found


def put(
    tree: Path, given: Mapping[str, str], m: common.Mutant | None, edits: dict[common.Mutant, Edit]
) -> None:
    """Write the files into a tree: as they are, but for a mutant."""
    for file, text in given.items():
        (tree / file).write_text(text)
    if m is not None:
        data, (start, end, new) = given[m.file].encode(), edits[m]
        (tree / m.file).write_bytes(data[:start] + new.encode() + data[end:])


def statement(tree: ast.AST, line: int) -> range:
    """The lines of the statement that a line is of, without those of the statements in it."""
    least = range(line, line + 1)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or line):
            body = getattr(node, "body", None)
            end = body[0].lineno - 1 if body else node.end_lineno
            if line <= (end or line):
                least = range(node.lineno, max(line, end or line) + 1)
    return least


def digest(files: list[Path]) -> str:
    """What tells one state of some files from another."""
    whole = hashlib.sha256()
    for file in sorted(files):
        if file.is_file():
            whole.update(f"{file.name} {file.stat().st_size}\n".encode() + file.read_bytes())
    return whole.hexdigest()[:16]


class Recorded:
    """Which lines tests execute, and how long they take: in a folder, until something changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._runs: dict[str, dict[str, Any]] = {}
        tests = common.ROOT / "python/tests"
        self._states = {  # now: somebody may work on them meanwhile
            name: digest([tests / f"test_{name}.py"]) for names in TESTS.values() for name in names
        }
        folder.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        """Where a file of tests records, until it changes."""
        return self.folder / f"{name}-{self._states[name]}.json"

    def mutants(self) -> dict[common.Mutant, Edit]:
        """All mutants of the package."""
        file = self.folder / f"mutants-{digest([Path(__file__)])}.json"
        if not file.exists():
            all_of: dict[common.Mutant, Edit] = {}
            for name in TESTS:
                all_of |= mutants(f"{PACKAGE}/{name}", (common.ROOT / PACKAGE / name).read_text())
            file.write_text(json.dumps([(dataclasses.astuple(m), e) for m, e in all_of.items()]))
        return {common.Mutant(*m): tuple(e) for m, e in json.loads(file.read_text())}

    def runs(self, names: list[str]) -> Iterator[dict[str, Any]]:
        """What files of tests have recorded."""
        for name in names:
            if name not in self._runs:
                self._runs[name] = json.loads(self.file(name).read_text())
            yield self._runs[name]

    def judges(self, file: str, lines: range, names: list[str]) -> dict[str, float]:
        """The tests of some files that execute one of a file's lines, and their seconds."""
        found: dict[str, float] = {}
        for name, run in zip(names, self.runs(names), strict=True):
            common_to_all = any(f == file and n in lines for f, n in run["all"])
            for test, told in run["tests"].items():
                own = any(f == file and n in lines for f, n in told["lines"])
                if common_to_all or own or name in UNSEEN:
                    found[test] = told["seconds"]
        return dict(sorted(found.items(), key=lambda one: one[1]))


def main() -> None:
    o = common.options(__doc__, most=40)
    installed = importlib.util.find_spec("lockstep")
    if installed is None or installed.origin is None:
        raise SystemExit("lockstep is not installed beside this Python: make test-python")
    library = next(Path(installed.origin).parent.glob("liblockstep.*"))
    shared = [f for f in (common.ROOT / "python/tests").iterdir() if not f.match("test_*.py")]
    here = [*(common.ROOT / PACKAGE).glob("*.py"), *shared, library, OURS / "lines.py"]
    recorded = Recorded(common.ROOT / "build/lines" / digest(here))
    everything = recorded.mutants()
    chosen = common.sample(list(everything), o.seed, o.most)
    if o.list:
        return common.show(chosen)
    tree = common.copy()
    (tree / PACKAGE / library.name).symlink_to(library)

    trees = {f"{PACKAGE}/{n}": ast.parse((tree / PACKAGE / n).read_text()) for n in TESTS}
    given = {file: (tree / file).read_text() for file in trees}

    def plant(_: int, m: common.Mutant | None) -> Mapping[str, str]:
        put(tree, given, m, everything)
        found = f"{tree}/python{os.pathsep}{tree}/parity/mutants/tokens"
        more = {"PYTHONPATH": found, "PYTHONDONTWRITEBYTECODE": "1"}
        if m is not None:
            return more
        return more | {"LINES_OF": str(tree / PACKAGE)}

    pytest = [sys.executable, "-m", "pytest", "-xq", "-pno:cacheprovider", "-punshrunk"]
    files = {Path(m.file).name for m in chosen}
    took: dict[str, float] = {}

    def judges(m: common.Mutant | None) -> list[tuple[str, list[str]]]:
        if m is None:
            names = dict.fromkeys(n for name in TESTS if name in files for n in TESTS[name])
            how = [*pytest, "-p", "lines", "--lines"]
            return [
                ("", [*how, str(recorded.file(n)), f"python/tests/test_{n}.py"])
                for n in names
                if not recorded.file(n).exists()
            ]
        name = Path(m.file).name
        found = recorded.judges(name, statement(trees[m.file], m.line), TESTS[name])
        commands = []
        for some in (  # the quick ones in one process, whatever file they are of
            [test for test, seconds in found.items() if seconds < 1],
            [test for test, seconds in found.items() if seconds >= 1],
        ):
            command = [*pytest, *some]
            took[" ".join(command)] = sum(found[test] for test in some)
            commands += [("", command)] if some else []
        return commands

    common.judge(o, "python/lockstep", len(everything), chosen, tree, judges, plant, took)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
