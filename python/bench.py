"""What Python costs, as ratios of one run: make bench-python.

Times of this run alone count: contestants take turns, and a call is what is left of a step when the
time inside the engine is taken off. The command line is the yardstick of whole rollouts.
"""

import argparse
import itertools
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import lockstep
import numpy as np

p = argparse.ArgumentParser(description=__doc__)
p.add_argument("--lockstep", default="bin/lockstep", help="the command")
p.add_argument("--engine", default="batched")
p.add_argument("--workers", type=int, default=1)
p.add_argument("--routes", type=int, default=64)
p.add_argument("--turns", type=int, default=2)
args = p.parse_args()

sim = lockstep.Simulator(engine=args.engine, model="own", workers=args.workers)
folder = tempfile.mkdtemp(prefix="lockstep-bench-")
lockstep.generate(folder, args.routes)
routes = sim.load(folder, limit=-1, cache=False)


def call(n, steps=200):
    """Microseconds of a step of n rollouts that are not the engine's: the median step's."""
    own = []
    with sim.reset(routes[:n]) as rollouts:
        actions, out = np.zeros(n), np.empty(n)
        before = rollouts._handle.call("why")["spent"]
        for _ in range(steps):
            start = time.perf_counter()
            rollouts.advance(actions, out=out)
            took = time.perf_counter() - start
            spent = rollouts._handle.call("why")["spent"]
            own.append(1e6 * (took - (spent - before)))
            before = spent
    return statistics.median(own)


def rollouts_per_second(seconds):
    return args.routes / seconds


def command():
    """Rollouts per second of the command line, as it says itself."""
    done = subprocess.run(
        [
            *(args.lockstep, "rollout", "--json", "--no-cache", "--controller", "pid", "--model_path", sim.model),
            *("--data_path", folder, "--num_segs", str(args.routes)),
            *("--engine", args.engine, "--workers", str(args.workers)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return rollouts_per_second(json.loads(done.stdout.splitlines()[-1])["seconds"])


def whole():
    start = time.perf_counter()
    sim.rollout(routes, "pid")
    return rollouts_per_second(time.perf_counter() - start)


def stepped():
    """The engine's step mode, and the share of it that is the engine's."""
    with sim.reset(routes) as rollouts:
        actions, start = np.zeros(args.routes), time.perf_counter()
        while not rollouts.done:
            rollouts.advance(actions)
        return rollouts_per_second(time.perf_counter() - start)


def environments():
    envs = lockstep.VectorEnv(args.routes, routes, autoreset_mode="Disabled")
    envs.reset(seed=1)
    actions, start = np.zeros((args.routes, 1), np.float32), time.perf_counter()
    ended = np.zeros(args.routes, bool)
    while not ended.all():
        ended = envs.step(actions)[2]
    took = time.perf_counter() - start
    envs.close()
    return rollouts_per_second(took)


def collected():
    rng = np.random.default_rng(1)
    sizes = [256, 256, 256, 256, 256, 2]
    weights = [rng.normal(0, k**-0.5, (n, k)).astype(np.float32) for k, n in itertools.pairwise(sizes)]
    policy = lockstep.Network(weights, [np.zeros(n, np.float32) for n in sizes[1:]])
    start = time.perf_counter()
    sim.collect(policy, routes, samples=1, seed=1)
    return rollouts_per_second(time.perf_counter() - start)


def imported():
    """Seconds that import lockstep takes, beyond Python's own start."""

    def run(code):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    return min(run("import lockstep") for _ in range(5)) - min(run("pass") for _ in range(5))


one, many = call(1), call(64)
print(f"a step's call: {one:.1f} µs (want 5), and {max(many - one, 0) / 63:.3f} µs for each further rollout (want 0.1)")
print(f"import: {imported():.2f} s (want 0.2)")
rates: dict[str, list[float]] = {}
for _ in range(args.turns):
    for contestant in (command, whole, stepped, environments, collected):
        rates.setdefault(contestant.__name__, []).append(contestant())
for name, want in [("whole", 0.99), ("stepped", 0.0), ("environments", 0.95), ("collected", 0.7)]:
    ratios = [a / b for a, b in zip(rates[name], rates["command"], strict=True)]
    wanted = f" (want {want})" if want else ""
    middle, least, most = statistics.median(ratios), min(ratios), max(ratios)
    print(f"{name}: {middle:.3f} of the command line's rate, {least:.3f} to {most:.3f}{wanted}")
shutil.rmtree(folder)
