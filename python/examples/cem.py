"""Tunes the gains of a PID controller with feed-forward by the cross-entropy method.

    python cem.py --routes data --limit 100
    python cem.py                          # twenty generated routes

Each generation is one sweep of all gains over all routes. The objective is the geometric mean of
the routes' costs, since the mean is ruled by the few routes that are hard. Needs NumPy alone.
"""

import argparse
import json

import lockstep
import numpy as np

NAMES = ["P", "I", "D", "ff0", "ff1", "ff2", "ff3", "ffv", "smooth", "leak"]
START = np.array([0.195, 0.1, -0.053, 0, 0, 0, 0, 0, 0, 0])
SPREAD = np.array([0.1, 0.05, 0.05, 0.1, 0.1, 0.1, 0.1, 0.3, 0.2, 0.02])
LOW = np.array([-np.inf] * 8 + [0, 0])
HIGH = np.array([np.inf] * 8 + [0.9, 0.5])


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--routes", default="own")
    p.add_argument("--limit", type=int, default=20)
    p.add_argument("--model", default=None)
    p.add_argument("--engine", default="auto")
    p.add_argument("--population", type=int, default=32)
    p.add_argument("--generations", type=int, default=20)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default="gains.json")
    args = p.parse_args()

    sim = lockstep.Simulator(engine=args.engine, model=args.model)
    routes = sim.load(args.routes, limit=args.limit)
    random = np.random.default_rng(args.seed)
    mean, spread = START.copy(), SPREAD.copy()

    def score(gains):
        total = sim.rollout(routes, {"pidff": gains}).costs[:, :, 2]
        return np.exp(np.log(np.where(np.isnan(total), 1e9, total)).mean(axis=1))

    best, lowest = START, score(START)[0]
    print(f"at first      {lowest:8.3f}")
    for generation in range(args.generations):
        population = np.clip(
            mean + spread * random.standard_normal((args.population, 10)), LOW, HIGH
        )
        population[0], population[1] = best, mean
        costs = score(population)
        elite = population[np.argsort(costs)[: args.population // 4]]
        mean, spread = elite.mean(axis=0), np.maximum(elite.std(axis=0), 0.02 * SPREAD)
        if costs.min() < lowest:
            best, lowest = population[costs.argmin()], costs.min()
        print(f"generation {generation:2d} {lowest:8.3f}", flush=True)
    with open(args.out, "w") as f:
        json.dump({"policy": "pidff", "gains": best.tolist()}, f)
    print(", ".join(f"{name} {gain:.4f}" for name, gain in zip(NAMES, best, strict=True)))
    print(
        f"mean cost {sim.rollout(routes, args.out).mean[0, 2]:.3f}, "
        f"{sim.rollout(routes, 'pid').mean[0, 2]:.3f} of pid"
    )


if __name__ == "__main__":
    main()
