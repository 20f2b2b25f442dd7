"""Rollouts for TorchRL: its own wrapper takes the package's vector environments as they are.

    python torchrl_rollouts.py --env lockstep/Acrobot-v1 --num-envs 256

Needs torchrl. What comes out is a TensorDict of shape (environments, steps), for TorchRL's losses
and buffers.
"""

import argparse

import gymnasium
import lockstep  # noqa: F401 has the environments
import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import GymWrapper


def collect(envs, steps, seed):
    """Steps of all environments under a network that knows nothing yet."""
    env = GymWrapper(envs)
    env.set_seed(seed)
    torch.manual_seed(seed)
    inputs, kind = env.observation_spec["observation"].shape[-1], env.action_spec
    net = torch.nn.Linear(inputs, kind.shape[-1])

    def act(observation):
        out = net(observation)
        choices = (
            torch.nn.functional.one_hot(out.argmax(-1), out.shape[-1])
            if kind.dtype == torch.int64
            else out
        )
        return choices.to(kind.dtype)

    policy = TensorDictModule(act, in_keys=["observation"], out_keys=["action"])
    with torch.no_grad():
        return env.rollout(steps, policy, break_when_any_done=False)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--env", default="lockstep/CartPole-v1")
    p.add_argument("--num-envs", type=int, default=64)
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    # TorchRL takes the last observation of an episode from where SameStep puts it.
    data = collect(
        gymnasium.make_vec(a.env, num_envs=a.num_envs, autoreset_mode="SameStep"), a.steps, a.seed
    )
    rewards, ends = data["next", "reward"], data["next", "done"]
    shape = tuple(data.batch_size)
    print(f"{a.env}: {shape}, mean reward {rewards.mean():.4f}, {int(ends.sum())} episodes ended")


if __name__ == "__main__":
    main()
