#!/usr/bin/env python3
"""Predicts what the arm64 kernels' inner loops take on CPUs that are not here: llvm-mca
simulates each loop of the compiled kernels, with all data in the first-level cache.

    make predict-arm64    # MCA and OBJDUMP name LLVM's programs, of version 19 or newer
"""

import os
import re
import subprocess
import sys

# CPU: vector pipes that multiply and add, and the clock in GHz of a machine that has it.
CPUS = {"neoverse-n1": (2, 2.5), "neoverse-v2": (4, 2.8), "apple-m1": (4, 3.2)}

# Loop: the function, and how many elements a round computes; for products, multiply-adds.
LOOPS = {
    "product, 6 rows": ("matMul6x1NEON", 6 * 16 * 4),
    "product, 5 rows": ("matMul5x1NEON", 5 * 16 * 4),
    "product, 1 row": ("matMul1x4NEON", 64 * 4),
    "GELU": ("geluNEON", 16),
    "exponentials of softmax": ("exp256NEON", 16),
    "NumPy's exponentials": ("expNumPyNEON", 16),
    "NumPy's exponentials on arm64": ("expLibraryNEON", 8),
    "mean and squares of ARM's layer norm": ("layerNormARMNEON", 16 * 4),
}
# Loops of classic control, each for the two environments, or numbers, of a vector of float64.
CLASSIC = {
    "step of CartPole": "cartPoleNEON",
    "step of MountainCar": "mountainCarNEON",
    "step of Pendulum": "pendulumNEON",
    "sine and cosine": "sincosNEON",
    "NumPy's square": "squareNEON",
    "angle in its period": "normalNEON",
}
# What a pass of the network needs for one sequence: see RATIONALE.md.
PRODUCTS = 13.06e6
GELU = 3 * 20 * 512 + 512
PASSES = 480  # a rollout whose costs alone are wanted


def environment(name, *others):
    """The program that the environment names, or the first that is here."""
    found = [
        p
        for p in (os.environ.get(name), *others)
        if p and subprocess.run(["which", p], capture_output=True).returncode == 0
    ]
    if not found:
        sys.exit(f"no {others[-1]}: apt-get install llvm-19, or set {name}")
    return found[0]


def loop(objdump, program, package, function):
    """The longest of a function's loops that have no loop inside."""
    text = subprocess.run(
        [
            objdump,
            "-d",
            "--no-show-raw-insn",
            f"--disassemble-symbols=lockstep/{package}.{function}.abi0",
            program,
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = [
        (int(a, 16), " ".join(i.split()))
        for a, i in re.findall(r"^ *([0-9a-f]+):\s+(.*)$", text, re.M)
    ]
    loops = []
    for at, instruction in lines:
        jump = re.match(r"b(\.\w+)? 0x([0-9a-f]+)", instruction)
        if jump and int(jump[2], 16) < at:
            loops.append((int(jump[2], 16), at))
    inner = [
        (a, b)
        for a, b in loops
        if not any(a <= c and d <= b and (c, d) != (a, b) for c, d in loops)
    ]
    first, last = max(inner, key=lambda span: span[1] - span[0])
    return [
        re.sub(r"^b(\.\w+)? .*", "b.ne 0", i) if at == last else re.sub(r"0x[0-9a-f]+ <.*", "0", i)
        for at, i in lines
        if first <= at <= last
    ]


def cycles(mca, cpu, instructions):
    """How many cycles a round takes, when many follow each other."""
    out = subprocess.run(
        [mca, "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=100"],
        input="\n".join(instructions) + "\n",
        capture_output=True,
        text=True,
    )
    total = re.search(r"^Total Cycles:\s+(\d+)", out.stdout, re.M)
    if not total:
        sys.exit(f"{mca} for {cpu}: {out.stderr.strip() or out.stdout[:300]}")
    return int(total[1]) / 100


def main():
    mca = environment("MCA", "llvm-mca-19", "llvm-mca")
    objdump = environment("OBJDUMP", "llvm-objdump-19", "llvm-objdump")
    print(
        subprocess.run([mca, "--version"], capture_output=True, text=True)
        .stdout.split("\n")[0]
        .strip()
    )
    print("\n| loop |", " | ".join(CPUS), "|\n|---|" + "---|" * len(CPUS))
    rounds = {}
    for name, (function, each) in LOOPS.items():
        instructions = loop(objdump, sys.argv[1], "internal/f32", function)
        cells = []
        for cpu, (pipes, _) in CPUS.items():
            rounds[name, cpu] = cycles(mca, cpu, instructions) / each
            cell = f"{4 * rounds[name, cpu]:.2f} cycles a vector"
            if name.startswith("product"):
                cell = f"{25 / pipes / rounds[name, cpu]:.0f} % of {pipes} pipes"
            cells.append(cell)
        print(f"| {name} |", " | ".join(cells), "|")
    cells = []
    for cpu, (_, clock) in CPUS.items():
        taken = PRODUCTS * rounds["product, 6 rows", cpu] + GELU * rounds["GELU", cpu]
        cells.append(f"{clock * 1e9 / taken / PASSES:.1f} at {clock} GHz")
    print("| rollouts/s of `batched`, one core, at most |", " | ".join(cells), "|")
    for name, function in CLASSIC.items():
        instructions = loop(objdump, sys.argv[2], "batched/classic", function)
        taken = {cpu: cycles(mca, cpu, instructions) / 2 for cpu in CPUS}
        cells = [
            f"{taken[cpu]:.1f} cycles each, {1e3 * clock / taken[cpu]:.0f}·10⁶/s at {clock} GHz"
            for cpu, (_, clock) in CPUS.items()
        ]
        print(f"| {name}, {len(instructions)} instructions for 2 |", " | ".join(cells), "|")


main()
