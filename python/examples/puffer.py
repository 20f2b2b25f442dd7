"""PufferLib: the package's vector environments as one of its native ones, which PuffeRL trains on.

    python puffer.py --env lockstep/CartPole-v1 --num-envs 256

Needs pufferlib. Its ``emulation.GymnasiumPufferEnv`` takes single environments,
``gymnasium.make("lockstep/CartPole-v1")``, too, and calls one after the other.
"""

import argparse

import gymnasium
import lockstep  # noqa: F401 has the environments
import pufferlib
import pufferlib.vector


class Environments(pufferlib.PufferEnv):
    """Many environments, which one call steps into PufferLib's buffers."""

    def __init__(self, name, num_envs=1, buf=None, **options):
        self.envs = gymnasium.make_vec(
            name, num_envs=num_envs, autoreset_mode="SameStep", **options
        )
        self.single_observation_space = self.envs.single_observation_space
        self.single_action_space = self.envs.single_action_space
        self.num_agents = num_envs
        super().__init__(buf)

    def reset(self, seed=None):
        self.observations[:], _ = self.envs.reset(seed=seed)
        return self.observations, []

    def step(self, actions):
        answers = self.envs.step(actions)
        buffers = self.observations, self.rewards, self.terminals, self.truncations
        for mine, theirs in zip(buffers, answers, strict=False):
            mine[:] = theirs
        return *buffers, []

    def close(self):
        self.envs.close()


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--env", default="lockstep/CartPole-v1")
    p.add_argument("--num-envs", type=int, default=64)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    envs = pufferlib.vector.make(
        Environments, env_args=[a.env], env_kwargs={"num_envs": a.num_envs}
    )
    envs.action_space.seed(a.seed)
    envs.reset(seed=a.seed)
    rewards = ends = 0
    for _ in range(a.steps):
        _, reward, terminated, truncated, _ = envs.step(envs.action_space.sample())
        rewards += reward.sum()
        ends += (terminated | truncated).sum()
    envs.close()
    print(f"{a.env}: mean reward {rewards / a.steps / a.num_envs:.4f}, {ends} episodes ended")


if __name__ == "__main__":
    main()
