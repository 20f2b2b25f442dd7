"""How many steps each of Gymnasium's environments does in a second of CPU time.

CartPole's vector class is measured with several numbers of environments; its fastest counts.
"""

import json
import time

import gymnasium

speeds = {}
for name in [
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Acrobot-v1",
]:
    env = gymnasium.make(name)
    env.reset(seed=0)
    action, steps, start = env.action_space.sample(), 0, time.process_time()
    while time.process_time() - start < 1:
        for _ in range(200):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        steps += 200
    speeds[name] = steps / (time.process_time() - start)
for num in [64, 256, 1024, 2048, 4096, 8192]:
    envs = gymnasium.make_vec("CartPole-v1", num_envs=num, vectorization_mode="vector_entry_point")
    envs.reset(seed=0)
    actions, steps, start = envs.action_space.sample(), 0, time.process_time()
    while time.process_time() - start < 1:
        envs.step(actions)
        steps += num
    speeds["CartPoleVectorEnv"] = max(
        speeds.get("CartPoleVectorEnv", 0), steps / (time.process_time() - start)
    )
print(json.dumps(speeds))
