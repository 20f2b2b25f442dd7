"""Mutants of the assembly that nobody chose, judged by tests that hold it to the plain loops.

The operators work on single instructions of what the generators have written, where a loop is
unrolled each of its turns: a fault of a generator is many of these at once, and easier to see.

    python3 parity/mutants/tokens/assembly.py --most 40 --enter
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping

import common

# Which tests see a folder's assembly, the quickest first, with which flags (what is found need not
# be shrunk), and the bytes of one of its numbers.
RAPID = ["-rapid.nofailfile", "-rapid.shrinktime=0s"]
TESTS: dict[str, list[tuple[str, str, list[str]]]] = {
    "internal/f32": [("internal/f32", ".", RAPID)],
    "batched/classic": [
        ("batched/classic", ".", []),
        ("parity/gymnasium", "^Test(Hard|Engines|Bounds|Wall|Recorded)$", []),
    ],
}
BYTES = {"internal/f32": 4, "batched/classic": 8}

# The probe measures a core's peak: what it computes is nobody's.
FILES = re.compile(r"/(?!probe)\w+_amd64\.s$")

# How an instruction's name begins, and how it then does.
RENAMED = {
    "ARITHMETIC_BASE": {
        "VADD": "VSUB", "VSUB": "VADD", "VMUL": "VDIV", "VDIV": "VMUL", "VPADD": "VPSUB",
        "VPSUB": "VPADD", "ADD": "SUB", "SUB": "ADD", "INC": "DEC", "DEC": "INC",
        "VFMADD": "VFNMADD", "VFNMADD": "VFMADD", "VFMSUB": "VFMADD",
    },
    "INVERT_BITWISE": {
        "VAND": "VOR", "VOR": "VAND", "VPAND": "VPOR", "AND": "OR", "KAND": "KOR", "KOR": "KAND",
        "SHL": "SHR", "SHR": "SHL", "VPSLL": "VPSRL", "VPSRL": "VPSLL",
    },
    "CONDITIONALS_NEGATION": {
        "JL": "JGE", "JGE": "JL", "JG": "JLE", "JLE": "JG", "JZ": "JNZ", "JNZ": "JZ", "JE": "JNE",
        "JNE": "JE", "VMAX": "VMIN", "VMIN": "VMAX",
    },
    "CONDITIONALS_BOUNDARY": {"JL": "JLE", "JLE": "JL", "JG": "JGE", "JGE": "JG"},
}  # fmt: skip
# Two operands of these in the other order are another result: of numbers, of zeros or of NaN.
ORDERED = ("VSUB", "VDIV", "VMAX", "VMIN", "VFMADD213", "VBLEND")
# What changes no number, by its definition, and what says where to go on.
IDLE = re.compile(r"\t(VZEROUPPER|PREFETCH|RET|JMP|VMOVUP[SD] +([XYZ]\d+), \2$)")


def changes(line: str, size: int) -> Iterator[tuple[int, int, str, str]]:
    """Of an instruction: from where to where it is changed, by which operator, and into what."""
    name = re.match(r"\t([A-Z]\w*)", line)
    if constant := re.match(r"DATA .*, \$0x([0-9a-f]+)$", line):
        # In its middle: the last digit of what a small term is times shows in no sample.
        middle = constant.start(1) + len(constant[1]) // 2
        yield middle, middle + 1, "CONSTANT_DIGIT", f"{int(line[middle], 16) ^ 1:x}"
    if not name or IDLE.match(line):
        return
    for operator, parts in RENAMED.items():
        for part, other in parts.items():
            if re.match(rf"{part}(?=[QLBWPS123]|$)", name[1]):
                yield name.start(1), name.start(1) + len(part), operator, other
    operands = list(re.finditer(r"(?<= )[^ ,]+", line))
    pair = re.search(r"(?<= )([XYZ]\d+), ([XYZ]\d+)(?=, )", line)
    if pair and pair[1] != pair[2] and name[1].startswith(ORDERED):
        yield *pair.span(), "SWAPPED_OPERANDS", f"{pair[2]}, {pair[1]}"
    for i, operand in enumerate(operands):
        if constant := re.fullmatch(r"\$0x([0-9a-f]+)", operand[0]):
            value, place = int(constant[1], 16), (operand.start() + 1, operand.end())
            yield *place, "CONSTANT_PLUS", f"{value + 1:#x}"
            if value:
                yield *place, "CONSTANT_MINUS", f"{value - 1:#x}"
        if address := re.fullmatch(r"(-?\d+)?(\((?!FP|SB).*)", operand[0]):
            yield *operand.span(), "INDEX_SHIFT", f"{int(address[1] or 0) + size}{address[2]}"
        if (register := re.fullmatch(r"([XYZ])(\d+)", operand[0])) and i < len(operands) - 1:
            of = 32 if register[1] == "Z" else 16
            yield *operand.span(), "INDEX_SHIFT", f"{register[1]}{(int(register[2]) + 1) % of}"
    if not name[1].startswith("J"):
        yield name.start(1), len(line), "DROPPED_STATEMENT", ""


def mutants(file: str, text: str) -> list[common.Mutant]:
    """What the operators make of a file, a line at a time."""
    size = BYTES[file.rpartition("/")[0]]
    return [
        common.Mutant(file, number, start + 1, operator, line[:start] + new + line[end:])
        for number, line in enumerate(text.splitlines(), 1)
        for start, end, operator, new in changes(line, size)
    ]


def judge(o: argparse.Namespace, folder: str, tests: list[tuple[str, str, list[str]]]) -> None:
    """Have a folder's tests judge a sample of its assembly's mutants, or list it."""
    files = [f for f in common.tracked(folder) if FILES.search(f)]
    plain = {f: (common.ROOT / f).read_text() for f in files}
    everything = [m for f in files for m in mutants(f, plain[f])]
    chosen = common.sample(everything, o.seed, o.most)
    if o.list:
        return common.show(chosen)
    tree = common.copy()

    def plant(_: int, m: common.Mutant | None) -> Mapping[str, str]:
        for file, text in plain.items():
            lines = text.splitlines()
            if m is not None and m.file == file:
                lines[m.line - 1] = m.new
            (tree / file).write_text("\n".join(lines) + "\n")
        return {}

    include = subprocess.check_output(["go", "env", "GOROOT"], text=True).strip() + "/pkg/include"

    def assembled(m: common.Mutant) -> bool:
        """Whether it is assembly: what is none would be red, and no test have seen it."""
        plant(0, m)
        command = ["go", "tool", "asm", "-I", include, "-p", "x", "-o", os.devnull, m.file]
        done = subprocess.run(command, cwd=tree, capture_output=True, check=False)
        if done.returncode:
            print(f"{m}: no assembly", file=sys.stderr)
        return done.returncode == 0

    judges = [
        (where, ["go", "test", "-count=1", "-vet=off", "-failfast", "-run", names, ".", *flags])
        for where, names, flags in tests
    ]
    common.judge(
        o,
        f"{folder}/_generate",
        len(everything),
        [m for m in chosen if assembled(m)],
        tree,
        lambda _: judges,
        plant,
    )


def main() -> None:
    o = common.options(__doc__, most=40, folders=TESTS)
    for folder in o.folder or TESTS:
        judge(o, folder, TESTS[folder])


if __name__ == "__main__":
    main()
