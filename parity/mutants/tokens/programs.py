"""Mutants of the Python programs that Go packages carry or write, which nobody chose.

Each is a file of a copy of the tree, and judged by the tests of a Go package, which need a Python
with the packages that `lockstep doctor` names.

    LOCKSTEP_PYTHON=build/python/bin/python python3 parity/mutants/tokens/programs.py --most 40
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import common
import package

# Which package's tests see a folder's programs.
TESTS = {
    "internal/installed": "./internal/installed",
    "internal/pycontroller": "./internal/pycontroller",
    "parity/trace": "./parity/trace",
    "policyfile": "./golden/policies",
}


def judge(o: argparse.Namespace, folder: str) -> None:
    files = [f for f in common.tracked(folder) if f.endswith(".py") and "testdata" not in f]
    files = [f for f in files if f != "parity/trace/writer.py"]  # of the package, too
    given = {f: (common.ROOT / f).read_text() for f in files}
    everything = {m: e for f, text in given.items() for m, e in package.mutants(f, text).items()}
    chosen = common.sample(list(everything), o.seed, o.most)
    if o.list:
        return common.show(chosen)
    tree = common.copy()

    def plant(_: int, m: common.Mutant | None) -> Mapping[str, str]:
        package.put(tree, given, m, everything)
        return {"LOCKSTEP_REQUIRE_PYTHON": "1"}

    def judges(_: common.Mutant | None) -> list[tuple[str, list[str]]]:
        return [("", ["go", "test", "-count=1", "-failfast", TESTS[folder]])]

    common.judge(o, folder, len(everything), chosen, tree, judges, plant)


def main() -> None:
    o = common.options(__doc__, most=40, folders=TESTS)
    for folder in o.folder or TESTS:
        judge(o, folder)


if __name__ == "__main__":
    main()
