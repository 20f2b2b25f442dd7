"""Mutants of the kernels that nobody chose, judged by tests that execute them on the CPU.

The operators work on tokens, in a copy of the tree. A sample of them is in one program, in which
the variable LOCKSTEP_MUTANT chooses one, so that nothing is compiled for a single mutant: what
stands for an operator is an object between its operands, which has the operator's precedence.

    python3 parity/mutants/tokens/kernels.py --most 40 --enter
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import common

KERNELS = "gpu/internal/kernels"

# What stands in the shim of CUDA, which all kernels include on the CPU.
SHIM = """
#include <stdlib.h>
#include <type_traits>
inline const long lockstep_mutant = [] {
  const char *m = getenv("LOCKSTEP_MUTANT");
  return m ? atol(m) : 0L;
}();
#define MUTANT(k) (lockstep_mutant == (k))
namespace mutants {
template <int K, int To> struct Op {};
template <class A, int K, int To> struct Left { A a; };
template <class T> constexpr bool number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class A, class B, class R> R other(A a, B b, R same, int to) {
  if constexpr (number<A> && number<B>) {
    switch (to) {
      case '+': return a + b;
      case '-': return a - b;
      case '*': return a * b;
      case '/': return a / b;
      case 's': return b - a;
      case 'q': return b / a;
    }
  } else if constexpr (std::is_pointer_v<A> && number<B> && std::is_pointer_v<R>) {
    return to == '-' ? a - b : a + b;
  }
  return same;
}
template <class A, class B> bool compare(A a, B b, int to) {
  if constexpr (!std::is_null_pointer_v<B>) {
    switch (to) {
      case '<': return a < b;
      case 'l': return a <= b;
      case '>': return a > b;
      case 'g': return a >= b;
    }
  }
  return to == '=' ? a == b : a != b;
}
#define LOCKSTEP_ARITHMETIC(op) \\
  template <class A, int K, int To> Left<A, K, To> operator op(A a, Op<K, To>) { return {a}; } \\
  template <class A, int K, int To, class B> auto operator op(Left<A, K, To> l, B b) \\
      -> decltype(l.a op b) { \\
    if (MUTANT(K)) return other<A, B, decltype(l.a op b)>(l.a, b, l.a op b, To); \\
    return l.a op b; \\
  }
#define LOCKSTEP_COMPARISON(op) \\
  template <class A, int K, int To> Left<A, K, To> operator op(A a, Op<K, To>) { return {a}; } \\
  template <class A, int K, int To, class B> bool operator op(Left<A, K, To> l, B b) { \\
    return MUTANT(K) ? compare(l.a, b, To) : l.a op b; \\
  }
LOCKSTEP_ARITHMETIC(+) LOCKSTEP_ARITHMETIC(-) LOCKSTEP_ARITHMETIC(*) LOCKSTEP_ARITHMETIC(/)
LOCKSTEP_COMPARISON(<) LOCKSTEP_COMPARISON(<=) LOCKSTEP_COMPARISON(>) LOCKSTEP_COMPARISON(>=)
LOCKSTEP_COMPARISON(==) LOCKSTEP_COMPARISON(!=)
}  // namespace mutants
"""

# An operator's token, and what each of its mutants makes of it.
BINARY = {
    "+": {"ARITHMETIC_BASE": "-"},
    "-": {"ARITHMETIC_BASE": "+", "SWAPPED_OPERANDS": "s"},
    "*": {"ARITHMETIC_BASE": "/"},
    "/": {"ARITHMETIC_BASE": "*", "SWAPPED_OPERANDS": "q"},
    "<": {"CONDITIONALS_BOUNDARY": "l", "CONDITIONALS_NEGATION": "g"},
    "<=": {"CONDITIONALS_BOUNDARY": "<", "CONDITIONALS_NEGATION": ">"},
    ">": {"CONDITIONALS_BOUNDARY": "g", "CONDITIONALS_NEGATION": "l"},
    ">=": {"CONDITIONALS_BOUNDARY": ">", "CONDITIONALS_NEGATION": "<"},
    "==": {"CONDITIONALS_NEGATION": "!"},
    "!=": {"CONDITIONALS_NEGATION": "="},
}
# Of the compiler that is asked what is no C++.
FLAGS = ["-std=c++17", "-fsyntax-only", "-Wno-unknown-pragmas", "-march=x86-64-v3", "-x", "c++"]
ENGINE = "Short|EveryKind|SampledSides"
# What is observed, kept and taken up again, and what fails.
REST = (
    "CollectOnDevice|DeclaredOnDevice|RollLedger|ObserveOnDevice|ObserveOnDeviceAtEnds|"
    "ObserveParts|ObserveNaN|NotObserved|RolledFailure|Taught|Tables|Faults"
)
FAULTS = "^(controller_panics|NaN_.*)$"
OTHERS = "Fork|SeenAlone|PoliciesAtEdges|CollectSizes"  # of all engines
FAST = ["-test.failfast", "-test.run"]
# The tests that judge, the quickest first.
UNITS = (
    "Elementary|LayerNorm|AttentionSoftmax|Softmax|Choose|ChooseNear|Scores|MatmulFewRows|"
    "Tokenizer|Clip|Draws|Costs|PID|Tile|Vectors|PythonPolicy"
)
# Of whole rollouts, in blocks of several sizes, of routes that end apart.
WHOLE = "Failures|GivenDraws|Cuts"
ASSIGNED = {"+": "-", "-": "+", "*": "/", "/": "*"}

TYPES = (
    r"(?:const |unsigned |extern |static |inline |struct |auto |void |bool |char |int |float |"
    r"double |\w+_t |\w+4 |Tile|Copy)"
)
# What a compiler wants to know beforehand, enumerators among it, and what is no code.
UNFIT = re.compile(
    r"^\s*(#|//|template|using|struct|case|static_assert|namespace|k[A-Z]\w* = )|\benum\b|constexpr"
    r"|asm|__shared__|\\$"
)


def mutants(file: str, text: str) -> list[common.Mutant]:
    """What the operators make of a file, a line at a time."""
    found: list[common.Mutant] = []

    def add(line: int, column: int, operator: str, new: str) -> None:
        found.append(common.Mutant(file, line, column + 1, operator, new))

    for number, whole in enumerate(text.splitlines(), 1):
        line = whole.split("//")[0].rstrip()
        if UNFIT.search(line) or not line.strip():
            continue
        # Template arguments must be constants.
        hidden = re.sub(r"(?<=\w)<[^<>;()]*>(?=[\s(:{])", lambda m: "\0" * len(m[0]), line)
        for m in re.finditer(r"(?<=[\w)\]]) (\+|-|\*|/|<=|>=|<|>|==|!=) (?=[\w(*&-])", hidden):
            for operator, to in BINARY[m[1]].items():
                site = f" {m[1]} mutants::Op<KTH, '{to}'>{{}} {m[1]} "
                add(number, m.start(1), operator, line[: m.start()] + site + line[m.end() :])
        for m in re.finditer(r"(?<![\w.])(\d+(?:\.\d+)?f?)(?![\w.])", hidden):
            if re.match(rf"\s*{TYPES}[^=]*$", line):
                continue  # the size of an array
            for operator, sign in (("CONSTANT_PLUS", "+"), ("CONSTANT_MINUS", "-")):
                # not 0.0 - MUTANT(KTH), of which g++ 12 makes -0 where the mutant is not chosen
                new = f"(MUTANT(KTH) ? {m[1]} {sign} 1 : {m[1]})"
                add(number, m.start(), operator, line[: m.start()] + new + line[m.end() :])
        for m in re.finditer(r"(?<=\w)\[([^\[\]]+)\]", hidden):
            if not re.match(rf"\s*{TYPES}[^=]*$", line):
                new = f"[({line[m.start(1) : m.end(1)]}) + MUTANT(KTH)]"
                add(number, m.start(), "INDEX_SHIFT", line[: m.start()] + new + line[m.end() :])
        statement = re.match(
            r"(\s*)(\*?[\w.\[\]():>*+-]+?(?:\[[^\]]*\])?) ([-+*/|&]?)= (.*);$", line
        )
        called = re.match(r"\s*[\w:.]+(?:<[^;]*>)?\(.*\);$", line)
        if statement and statement[2] not in ("return", "for", "if"):
            add(
                number,
                len(statement[1]),
                "DROPPED_STATEMENT",
                f"{{ if (!MUTANT(KTH)) {{ {line} }} }}",
            )
            if statement[3] in ASSIGNED:
                new = f"{statement[2]} {ASSIGNED[statement[3]]}= {statement[4]};"
                add(
                    number,
                    len(statement[1]),
                    "INVERT_ASSIGNMENTS",
                    f"{{ if (MUTANT(KTH)) {{ {new} }} else {{ {line} }} }}",
                )
        elif called and not re.match(r"\s*(return|if|for|while|else|do)\b", line):
            operator = "REMOVED_BARRIER" if "__sync" in line else "DROPPED_STATEMENT"
            add(
                number,
                len(line) - len(line.lstrip()),
                operator,
                f"{{ if (!MUTANT(KTH)) {{ {line} }} }}",
            )
    return found


def compiled(tree: Path, chosen: list[common.Mutant]) -> list[common.Mutant]:
    """Write the mutants into the copy; those that are no C++ are left out and said."""
    shim = tree / KERNELS / "cpu" / "cuda.h"
    plain = shim.read_text()
    shim.write_text(plain.replace("#include <string.h>\n", "#include <string.h>\n" + SHIM, 1))
    originals = {m.file: (tree / m.file).read_text() for m in chosen}
    while True:
        for file, text in originals.items():
            lines = text.splitlines()
            for k, m in enumerate(chosen, 1):
                if m.file == file:
                    lines[m.line - 1] = re.sub(r"\bKTH\b", str(k), m.new)
            (tree / file).write_text("\n".join(lines) + "\n")
        wrong: set[tuple[str, int]] = set()
        for unit in ("rollout.cu", "layout.cu", "observe.cu"):
            done = subprocess.run(
                ["g++", *FLAGS, unit],
                cwd=tree / KERNELS,
                capture_output=True,
                text=True,
                check=False,
            )
            for m in re.finditer(r"([\w./]+):(\d+):\d+:(?: +required from| error)", done.stderr):
                wrong.add((f"{KERNELS}/{m[1]}", int(m[2])))
            if done.returncode and not wrong:
                raise SystemExit(done.stderr)
        if not wrong:
            return chosen
        left = [m for m in chosen if (m.file, m.line) not in wrong]
        if len(left) == len(chosen):  # a statement of several lines is named by one of them
            named = {(file, line + k) for file, line in wrong for k in range(-3, 4)}
            left = [m for m in chosen if (m.file, m.line) not in named]
        if len(left) == len(chosen):
            raise SystemExit(f"the compiler names lines without a mutant: {sorted(wrong)}")
        for m in chosen:
            if m not in left:
                print(f"{m}: no C++", file=sys.stderr)
        chosen = left


def tests(folder: str, names: str) -> str:
    """The pattern of a package's tests of these names: one that was renamed would judge no more."""
    text = "".join(file.read_text() for file in (common.ROOT / folder).glob("*_test.go"))
    missing = [name for name in names.split("|") if f"func Test{name}(" not in text]
    if missing:
        raise SystemExit(f"{folder} has no test of these names, which should judge: {missing}")
    return f"^Test({names})$"


def main() -> None:
    o = common.options(__doc__, most=40)
    units, whole, races = tests(KERNELS, UNITS), tests(KERNELS, WHOLE), tests("gpu", "Races")
    engine, rest, others = tests("gpu", ENGINE), tests("gpu", REST), tests("engines", OTHERS)
    files = [
        f
        for f in common.tracked(KERNELS)
        if f.endswith((".cu", ".cuh")) and "/classic/" not in f and "/testdata/" not in f
    ]
    everything = [m for f in files for m in mutants(f, (common.ROOT / f).read_text())]
    chosen, lines = [], set()
    for m in common.sample(everything, o.seed, len(everything)):
        if (m.file, m.line) not in lines and len(chosen) < o.most:  # one to a line
            chosen.append(m)
            lines.add((m.file, m.line))
    if o.list:
        return common.show(chosen)
    tree = common.copy()
    chosen = compiled(tree, chosen)
    judges = []
    for package, flags in (
        (KERNELS, [*FAST, units]),
        ("gpu", [*FAST, races]),
        (KERNELS, [*FAST, f"{whole}/^one_launch$"]),
        ("gpu", [*FAST, f"{engine}/blocks_of_1"]),
        ("gpu", [*FAST, f"{rest}/{FAULTS}"]),
        ("gpu", [*FAST, f"{engine}/blocks_of_6"]),
        ("engines", [*FAST, f"{others}/^emulated$"]),
    ):
        program = f"build/{package.replace('/', '_')}.test"
        subprocess.run(["go", "test", "-c", "-o", program, f"./{package}"], cwd=tree, check=True)
        judges.append((package, [str(tree / program), *flags]))
    common.judge(
        o,
        "gpu/internal/kernels",
        len(everything),
        chosen,
        tree,
        lambda _: judges,
        lambda k, _: {"LOCKSTEP_MUTANT": str(k)},
    )


if __name__ == "__main__":
    main()
