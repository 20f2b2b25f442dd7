"""Time classic control in Python: reads a contestant and a number of steps, prints seconds.

Begins with the contestants, and what is missing for the others. Actions are drawn before the clock
starts.
"""

import importlib
import json
import os
import sys
import time

name, num, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
HELD = 16  # steps whose actions are drawn


def single(make):
    env = make()
    env.reset(seed=0)
    actions = [env.action_space.sample() for _ in range(256)]

    def run(steps):
        for t in range(steps):
            _, _, terminated, truncated, _ = env.step(actions[t % 256])
            if terminated or truncated:
                env.reset()
        return steps

    return run


def vector(envs, actions=None):
    envs.reset(seed=0) if actions is None else envs.reset()
    actions = [envs.action_space.sample() for _ in range(HELD)] if actions is None else actions

    def run(steps):
        turns = max(1, steps // len(actions[0]))
        for t in range(turns):
            envs.step(actions[t % HELD])
        return turns * len(actions[0])

    return run


def gymnasium_single():
    import gymnasium

    return single(lambda: gymnasium.make(name))


def gymnasium_sync():
    import gymnasium

    few = min(num, 64)  # it takes no more a second with more
    return vector(gymnasium.make_vec(name, num_envs=few, vectorization_mode="sync"))


def gymnasium_class():
    import gymnasium

    if name != "CartPole-v1":
        raise ImportError("Gymnasium has a vector class for CartPole-v1 alone")
    return vector(gymnasium.make_vec(name, num_envs=num, vectorization_mode="vector_entry_point"))


def envpool():
    import envpool
    import numpy as np

    envs = envpool.make(name, env_type="gymnasium", num_envs=num, num_threads=workers, seed=0)
    sampled = [envs.action_space.sample() for _ in range(num)]
    actions = np.array(sampled, dtype=envs.action_space.dtype)
    return vector(envs, [np.roll(actions, t, 0) for t in range(HELD)])


def pufferlib():
    import pufferlib.vector
    from pufferlib.environments import classic_control

    envs = pufferlib.vector.make(classic_control.env_creator(name), num_envs=min(num, 64))
    return vector(envs)


def lockstep():
    import gymnasium

    importlib.import_module("lockstep")  # which registers it
    return vector(gymnasium.make_vec(f"lockstep/{name}", num_envs=num, workers=workers))


ENTRANTS = {
    "Gymnasium, one environment": gymnasium_single,
    "Gymnasium, SyncVectorEnv": gymnasium_sync,
    "Gymnasium, vector class": gymnasium_class,
    "EnvPool": envpool,
    "PufferLib": pufferlib,
    "Lockstep, VectorEnv": lockstep,
}
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # what packages print is no answer
runs, missing = {}, {}
for entrant, make in ENTRANTS.items():
    try:
        runs[entrant] = make()
        runs[entrant](1)
    except Exception as e:  # whatever a package does when it does not work here
        missing[entrant] = f"{type(e).__name__}: {e}".splitlines()[0]
print(json.dumps({"contestants": list(runs), "missing": missing}), file=answers, flush=True)
for line in sys.stdin:
    entrant, steps = json.loads(line)
    start = time.perf_counter()
    done = runs[entrant](steps)
    print(
        json.dumps({"steps": done, "seconds": time.perf_counter() - start}),
        file=answers,
        flush=True,
    )
