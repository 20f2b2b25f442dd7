"""PPO on classic control with NumPy alone: the engine runs the network's forward pass.

    python ppo_classic.py                                  # CartPole-v1, until it is solved
    python ppo_classic.py --env Acrobot-v1 --solved -100
    python ppo_classic.py --save policy.npz                # lockstep rollout --env CartPole-v1
    --policy policy.npz

An iteration is one call: the engine observes, draws the actions from the network's softmax, and
steps, for all environments and steps of the iteration. Then a few passes of PPO are made over what
it recorded. Solved means that the greedy network earns the wanted mean over 100 episodes. Times are
of the CPU, of the whole process.
"""

import argparse
import itertools
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the matrices are small

import numpy as np
from lockstep.classic import Network, VectorEnv


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--env", default="CartPole-v1", help="one with a number of actions")
    p.add_argument("--solved", type=float, default=475, help="mean return of 100 episodes")
    p.add_argument("--num-envs", type=int, default=16)
    p.add_argument("--steps", type=int, default=64, help="of each environment in an iteration")
    p.add_argument("--iterations", type=int, default=400)
    p.add_argument("--passes", type=int, default=10)
    p.add_argument("--minibatch", type=int, default=256)
    p.add_argument("--hidden", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--lam", type=float, default=0.95)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--entropy", type=float, default=0.0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--engine", default="auto")
    p.add_argument("--save", default=None, help="file of the network")
    return p.parse_args()


class Perceptron:
    """Layers with ReLU between them, their gradients, and Adam."""

    def __init__(self, sizes, gain, rng):
        self.weights, self.biases = [], []
        for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            scale = gain if i == len(sizes) - 2 else 2**0.5
            self.weights.append(
                (scale * np.linalg.qr(rng.normal(size=(max(inputs, outputs),) * 2))[0])[
                    :outputs, :inputs
                ]
            )
            self.biases.append(np.zeros(outputs))
        self.moments = [[np.zeros_like(p), np.zeros_like(p)] for p in self.parameters()]
        self.updates = 0

    def parameters(self):
        """All arrays, which Adam changes in place."""
        return [*self.weights, *self.biases]

    def forward(self, x):
        """The outputs; what each layer was given is kept for the gradients."""
        self.inputs = []
        for i, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            self.inputs.append(x)
            x = x @ w.T + b
            if i < len(self.weights) - 1:
                x = np.maximum(x, 0)
        return x

    def descend(self, gradient, lr):
        """A step of Adam, given the loss's gradient by the outputs of the last forward."""
        weights, biases = [], []
        for i in reversed(range(len(self.weights))):
            weights.insert(0, gradient.T @ self.inputs[i])
            biases.insert(0, gradient.sum(0))
            gradient = (gradient @ self.weights[i]) * (self.inputs[i] > 0)
        gradients = weights + biases
        norm = np.sqrt(sum((g * g).sum() for g in gradients))
        self.updates += 1
        for p, g, (m, v) in zip(self.parameters(), gradients, self.moments, strict=True):
            g = g * min(1, 0.5 / (norm + 1e-8))
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            p -= (
                lr * (m / (1 - 0.9**self.updates)) / (np.sqrt(v / (1 - 0.999**self.updates)) + 1e-5)
            )

    def policy(self, **how):
        """The layers as the engine runs them."""
        return Network(self.weights, self.biases, **how)


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def advantages(run, before, critic, gamma, lam):
    """Generalised advantages and the critic's targets; a truncated episode is bootstrapped."""
    values = critic.forward(before.reshape(-1, before.shape[2])).reshape(before.shape[:2])
    following = critic.forward(run.observations.reshape(-1, before.shape[2])).reshape(
        before.shape[:2]
    )
    ended = run.terminated | run.truncated
    if ended.any():  # the observation is the next episode's
        following[ended] = critic.forward(run.final_observations[ended])[:, 0]
    errors = run.rewards + gamma * following * ~run.terminated - values
    gain, gains = 0, np.empty_like(errors)
    for t in reversed(range(len(errors))):
        gain = gains[t] = errors[t] + gamma * lam * ~ended[t] * gain
    return gains, gains + values


def improve(actor, critic, batch, args, lr, rng):
    """Passes of PPO over a batch: observations, actions, log-probabilities, advantages, returns."""
    size = len(batch[0])
    for _ in range(args.passes):
        order = rng.permutation(size)
        for first in range(0, size, args.minibatch):
            obs, actions, old, gains, returns = (
                x[order[first : first + args.minibatch]] for x in batch
            )
            n = len(obs)
            gains = (gains - gains.mean()) / (gains.std() + 1e-8)
            logs = log_softmax(actor.forward(obs))
            p, mine = np.exp(logs), np.eye(logs.shape[1])[actions]
            ratio = np.exp((logs * mine).sum(1) - old)
            free = np.where(gains > 0, ratio < 1 + args.clip, ratio > 1 - args.clip)
            entropy = -(p * logs).sum(1, keepdims=True)
            gradient = -(ratio * gains * free)[:, None] * (mine - p) + args.entropy * p * (
                logs + entropy
            )
            actor.descend(gradient / n, lr)
            critic.descend((critic.forward(obs) - returns[:, None]) / n, lr)


def score(actor, args):
    """The mean return of the greedy network in 100 episodes."""
    envs = VectorEnv(args.env, 100, engine=args.engine)
    envs.reset(seed=args.seed + 1_000_000)
    run = envs.run(500, actor.policy(), record=("rewards", "terminated", "truncated"))
    ends = np.cumsum(run.terminated | run.truncated, 0)
    ends = np.vstack([np.zeros_like(ends[:1]), ends[:-1]])  # before the step
    return (run.rewards * (ends == 0)).sum(0).mean()


def main():
    args = arguments()
    rng = np.random.default_rng(args.seed)
    envs = VectorEnv(args.env, args.num_envs, autoreset_mode="SameStep", engine=args.engine)
    now, _ = envs.reset(seed=args.seed)
    inputs, outputs = now.shape[1], int(envs.single_action_space.n)
    actor, critic = (
        Perceptron([inputs, args.hidden, outputs], 0.01, rng),
        Perceptron([inputs, args.hidden, 1], 1, rng),
    )
    noise, steps, reached = Network.gumbel(), 0, -np.inf
    for iteration in range(args.iterations):
        everything = (
            "observations",
            "final_observations",
            "actions",
            "rewards",
            "terminated",
            "truncated",
        )
        run = envs.run(args.steps, actor.policy(noise=noise, seed=args.seed), record=everything)
        before = np.concatenate([now[None], run.observations[:-1]])
        now, steps = run.observations[-1].copy(), steps + run.rewards.size
        gains, returns = advantages(run, before, critic, args.gamma, args.lam)
        obs, actions = before.reshape(-1, inputs), run.actions.reshape(-1)
        old = log_softmax(actor.forward(obs))[np.arange(len(obs)), actions]
        lr = args.lr * (1 - iteration / args.iterations)
        improve(
            actor,
            critic,
            (obs, actions, old, gains.reshape(-1), returns.reshape(-1)),
            args,
            lr,
            rng,
        )
        if iteration % 5 == 4:
            reached = score(actor, args)
            seconds = time.process_time()
            print(
                f"{steps} steps, {seconds:.1f} CPU-seconds: {reached:.1f} of the greedy network",
                flush=True,
            )
            if reached >= args.solved:
                break
    if args.save:
        actor.policy().save(args.save)
    verdict = "solved" if reached >= args.solved else "not solved"
    print(f"{args.env} {verdict}: mean return {reached:.1f} of 100 episodes, "
          f"after {steps} steps and {time.process_time():.1f} CPU-seconds")  # fmt: skip


if __name__ == "__main__":
    main()
