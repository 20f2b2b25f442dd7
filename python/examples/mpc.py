"""Plans at every step: forks candidates, rolls them on, takes the best one's first action.

    python mpc.py --noise expected    # does not know the draws: an honest controller
    python mpc.py --noise route       # knows the draws of the route: an oracle, and says so

The candidates are PID's plan with smooth random bends. Needs NumPy alone.
"""

import argparse

import lockstep
import numpy as np


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--routes", default="own")
    p.add_argument("--limit", type=int, default=2)
    p.add_argument("--model", default=None)
    p.add_argument("--engine", default="auto")
    p.add_argument("--noise", default="expected", choices=["route", "seeded", "expected"])
    p.add_argument("--candidates", type=int, default=16)
    p.add_argument("--horizon", type=int, default=10)
    p.add_argument("--replan", type=int, default=2, help="steps that are taken of each plan")
    p.add_argument("--spread", type=float, default=0.1)
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()

    sim = lockstep.Simulator(engine=args.engine, model=args.model)
    routes = sim.load(args.routes, limit=args.limit)
    n, m, h = len(routes), args.candidates, args.horizon
    random = np.random.default_rng(args.seed)
    index = np.repeat(np.arange(n), m)
    bends = np.array([np.ones(h), np.linspace(0, 1, h), np.sin(np.linspace(0, np.pi, h))])
    plan = np.zeros((h, n))
    with sim.reset(routes) as rollouts:
        while not rollouts.done and rollouts.step < 100 + args.steps:
            noise = args.spread * np.einsum("kh,knm->hnm", bends, random.standard_normal((3, n, m)))
            noise[:, :, 0] = 0  # the plan itself
            actions = np.clip(plan[:, :, np.newaxis] + noise, -2, 2)
            seeds = random.integers(2**32, size=n * m) if args.noise == "seeded" else None
            with rollouts.snapshot().fork(index, args.noise, seeds) as candidates:
                left = min(h, int(rollouts._end) - rollouts.step)
                costs = candidates.roll(actions[:left].reshape(left, n * m)).reshape(n, m)
            best = np.nanargmin(costs, axis=1)
            plan = actions[:, np.arange(n), best]
            for k in range(min(args.replan, left)):
                rollouts.advance(plan[k])
            plan = np.concatenate([plan[args.replan :], np.repeat(plan[-1:], args.replan, axis=0)])
        if not rollouts.done:
            print(f"stopped at step {rollouts.step}")
            return
        costs = rollouts.costs()
    print(
        f"planned with the {args.noise} "
        f"noise{', which knows the draws: an oracle' if args.noise == 'route' else ''}"
    )
    for name, planned, pid in zip(
        routes.names, costs[:, 2], sim.rollout(routes, "pid").costs[0, :, 2], strict=True
    ):
        print(f"{name}  planned {planned:9.3f}  pid {pid:9.3f}")


if __name__ == "__main__":
    main()
