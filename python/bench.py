"""What Python costs, as ratios of one run: make bench-python.

Times of this run alone count: contestants take turns. A call is what is left of Rollouts.advance
when the time inside the engine is taken off: Python, ctypes, the way into Go and back, checks and
copies. The command line is the yardstick of whole rollouts, and runs beside each of the others,
first or second in turn.
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
p.add_argument(
    "--only",
    nargs="*",
    help="contestants, of whole, stepped, environments, collected; none: calls alone",
)
args = p.parse_args()

sim = lockstep.Simulator(engine=args.engine, model="own", workers=args.workers)
folder = tempfile.mkdtemp(prefix="lockstep-bench-")
lockstep.generate(folder, args.routes)
routes = sim.load(folder, cache=False)


def network():
    """Steps of all routes in which the network runs, one by one."""
    actions = np.zeros(args.routes)
    while True:
        with sim.reset(routes) as rollouts:
            while not rollouts.done:
                yield rollouts.advance(actions)


def call(n, behind):
    """Microseconds that a step of n rollouts takes beside the engine's own work: the median.

    Up to step 100 the network does not run, so that what is measured is the call, right after other
    calls or behind something else that had the caches.
    """
    own = []
    for _ in range(args.turns):
        with sim.reset(routes[:n], step=20) as rollouts:
            actions, out, spent = np.zeros(n), np.empty(n), 0
            for _ in range(80):
                behind()
                start = time.perf_counter()
                rollouts.advance(actions, out=out)
                took = time.perf_counter() - start
                before, spent = spent, rollouts._handle.call("why")["spent"]
                own.append(1e6 * (took - (spent - before)))
    return statistics.median(own)


def copies(behind):
    """Median microseconds in which NumPy copies 64 numbers twice, as every call does, too."""
    numbers, out, times = np.zeros(64), np.empty(64), []
    for _ in range(80):
        behind()
        start = time.perf_counter()
        out[...] = numbers
        out.copy()
        times.append(1e6 * (time.perf_counter() - start))
    return statistics.median(times)


def rollouts_per_second(seconds):
    return args.routes / seconds


def command():
    """Rollouts per second of the command line, as it says itself."""
    done = subprocess.run(
        [
            *(
                args.lockstep,
                "rollout",
                "--json",
                "--no-cache",
                "--controller",
                "pid",
                "--model_path",
                sim.model,
            ),
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
    weights = [
        rng.normal(0, k**-0.5, (n, k)).astype(np.float32) for k, n in itertools.pairwise(sizes)
    ]
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


steps = network()
for name, behind in [
    ("a step's call", lambda: None),
    ("the same behind a pass of the network", lambda: next(steps)),
]:
    one, many = call(1, behind), call(64, behind)
    print(
        f"{name}: {one:.1f} µs for one rollout (want 5), {(many - one) / 63:.3f} µs for each "
        "further (want 0.1); "
        f"two copies of 64 numbers there: {copies(behind):.2f} µs"
    )
print(f"import: {imported():.2f} s (want 0.2)")
wanted = {whole: 0.99, stepped: None, environments: 0.95, collected: 0.7}
for contestant, want in wanted.items():
    if args.only is not None and contestant.__name__ not in args.only:
        continue
    ratios = []
    for turn in range(args.turns):
        pair = [command, contestant] if turn % 2 == 0 else [contestant, command]
        rates = {c: c() for c in pair}
        ratios.append(rates[contestant] / rates[command])
    print(
        f"{contestant.__name__}: {statistics.median(ratios):.3f} of the command line's rate, "
        f"{min(ratios):.3f} to {max(ratios):.3f}{f' (want {want})' if want else ''}"
    )
shutil.rmtree(folder)
