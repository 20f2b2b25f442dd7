"""Mutants of the Python programs that Go packages carry or write, which nobody chose.

Each is a file of a copy of the tree, and judged by the tests of the packages that use it, which
need a Python with the packages that `lockstep doctor` names.

    LOCKSTEP_PYTHON=build/python/bin/python python3 parity/mutants/tokens/programs.py --most 40
"""

from __future__ import annotations

from collections.abc import Mapping

import common
import package

# Which tests see a program, the quickest first.
TESTS = {
    "policyfile/network.py": [["./golden/policies"]],
    "policyfile/pid.py": [["./golden/policies"]],
    "policyfile/pidff.py": [["./golden/policies"]],
    "parity/trace/reader.py": [["./parity/trace"]],
    "parity/trace/writer.py": [["./parity/trace"]],
    "internal/installed/probe.py": [["./internal/installed"]],
    "internal/upstream/upstream.py": [["./internal/upstream"]],
    "internal/pycontroller/watch.py": [["./internal/pycontroller"], ["./cmd/lockstep"]],
    "internal/pycontroller/worker.py": [["./internal/pycontroller"], ["./cmd/lockstep"]],
}


def main() -> None:
    o = common.options(__doc__, most=40, folders=TESTS)
    given = {f: (common.ROOT / f).read_text() for f in o.folder or TESTS}
    everything = {m: e for f, text in given.items() for m, e in package.mutants(f, text).items()}
    chosen = common.sample(list(everything), o.seed, o.most)
    if o.list:
        for m in chosen:
            print(m, m.new, sep="\t")
        return
    tree = common.copy()

    def plant(_: int, m: common.Mutant | None) -> Mapping[str, str]:
        for file, text in given.items():
            (tree / file).write_text(text)
        if m is not None:
            data, (start, end, new) = given[m.file].encode(), everything[m]
            (tree / m.file).write_bytes(data[:start] + new.encode() + data[end:])
        return {"LOCKSTEP_REQUIRE_PYTHON": "1"}

    def judges(m: common.Mutant | None) -> list[tuple[str, list[str]]]:
        of = [m.file] if m else dict.fromkeys(m.file for m in chosen)
        commands = {tuple(packages): None for file in of for packages in TESTS[file]}
        return [("", ["go", "test", "-count=1", "-failfast", *some]) for some in commands]

    common.judge(o, "programs of Python", len(everything), chosen, tree, judges, plant)


if __name__ == "__main__":
    main()
