"""PPO on the exact simulator: a Beta actor on 256 observations, as the best published networks are.

    python ppo.py                          # generated routes, the project's own network
    python ppo.py --routes data --model models/tinyphysics.onnx --train 5000 --epochs 750
    python ppo.py --teacher gains.json     # begins where `lockstep tune` ended
    python ppo.py --run runs/ppo           # goes on where it was ended

Behaviour cloning comes first, of the recorded commands or of a controller that there is already,
then PPO on rollouts that the engine makes. The costs printed are exact: those that the challenge's
own program gives for the exported controller. Writes to the folder of the run: curve.csv,
checkpoint.pt, actor.onnx, and controller.py at the end.
"""

import argparse
import csv
import json
import os
import time
from pathlib import Path

import lockstep
import numpy as np
import torch
from lockstep.controllers import steer
from torch import nn
from torch.distributions import Beta


def arguments():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--run", default="runs/ppo", help="folder of the run")
    p.add_argument(
        "--routes", default=None, help="folder of routes; by default routes are generated"
    )
    p.add_argument("--model", default="own", help="the simulator's network")
    p.add_argument("--engine", default="auto")
    p.add_argument("--workers", type=int, default=None)
    p.add_argument("--train", type=int, default=500, help="routes to train on")
    p.add_argument(
        "--valid", type=int, default=100, help="routes to validate on, which training does not see"
    )
    p.add_argument("--epochs", type=int, default=100)
    p.add_argument(
        "--cpu-minutes",
        type=float,
        default=None,
        help="stop after so much time of all cores together",
    )
    p.add_argument("--routes-per-epoch", type=int, default=500)
    p.add_argument("--samples", type=int, default=10, help="rollouts of each route in an epoch")
    p.add_argument("--minibatch", type=int, default=25_000)
    p.add_argument("--passes", type=int, default=4)
    p.add_argument(
        "--teacher",
        default=None,
        help="file of tuned gains to clone; by default the recorded commands",
    )
    p.add_argument(
        "--lessons", type=int, default=200, help="routes on which the teacher is watched"
    )
    p.add_argument(
        "--noise", type=float, default=0.05, help="standard deviation of that in its commands"
    )
    p.add_argument(
        "--spread",
        type=float,
        default=0.1,
        help="standard deviation with which a teacher is cloned",
    )
    p.add_argument("--cloning-epochs", type=int, default=20)
    p.add_argument(
        "--critic-epochs", type=int, default=3, help="epochs at first that train the critic alone"
    )
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--lr-end", type=float, default=5e-5)
    p.add_argument("--gamma", type=float, default=0.95)
    p.add_argument("--lam", type=float, default=0.9)
    p.add_argument("--clip", type=float, default=0.2)
    p.add_argument("--entropy", type=float, default=0.003)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--validate-every", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--tensorboard", action="store_true")
    return p.parse_args()


def network(hidden, outputs, gain):
    """Five linear layers with ReLU between them."""
    layers = []
    for i, (k, n, g) in enumerate(
        [(256, hidden, 2**0.5), *[(hidden, hidden, 2**0.5)] * 3, (hidden, outputs, gain)]
    ):
        linear = nn.Linear(k, n)
        nn.init.orthogonal_(linear.weight, g)
        nn.init.zeros_(linear.bias)
        layers += [nn.ReLU(), linear] if i else [linear]
    return nn.Sequential(*layers)


def policy_of(actor):
    """The actor as the engine runs it."""
    linear = [m for m in actor if isinstance(m, nn.Linear)]
    return lockstep.Network(
        [m.weight.detach().numpy() for m in linear], [m.bias.detach().numpy() for m in linear]
    )


def beta(actor, obs):
    parameters = 1 + nn.functional.softplus(actor(obs))
    return Beta(parameters[:, 0], parameters[:, 1])


# --- behaviour cloning: what the recorded driver did at steps 20 to 99 --------------------------


def recorded(routes):
    """Observations and changes of the command, as if the lataccel had been the target."""
    observations, changes = [], []
    for r in routes:
        target, action = (
            np.append(np.zeros(21), r.target_lataccel),
            np.append(np.zeros(21), r.steer_command),
        )
        preview = [r.target_lataccel, r.roll_lataccel, r.v_ego, r.a_ego]
        for t in range(20, 100):
            o = np.zeros(256)
            goal, current, before = (
                r.target_lataccel[t],
                r.target_lataccel[t],
                r.target_lataccel[t - 2],
            )
            roll, v, a = r.roll_lataccel[t], r.v_ego[t], r.a_ego[t]
            curvature = (goal - roll) / max(v * v, 1)
            grip = np.hypot(current, a) / 7
            u1, u2 = r.steer_command[t - 1], r.steer_command[t - 2]
            o[:3] = goal / 5, current / 5, 0
            o[3:6] = curvature / 0.02, curvature / 0.02, 0
            o[6:10] = v / 40, a / 4, roll / 2, u1 / 2
            o[11] = (r.target_lataccel[t + 1] - goal) / 0.1 / 5
            o[12:16] = (current - before) / 0.1 / 5, (u1 - u2) / 0.1 / 2, grip, max(1 - grip, 0)
            o[16:36] = action[t + 1 : t + 21] / 2
            o[36:56] = target[t : t + 20] / 5
            ahead = np.minimum(np.arange(t + 1, t + 51), min(t + 49, len(r) - 1))
            for k, (column, size) in enumerate(zip(preview, (5, 2, 40, 4), strict=True)):
                o[56 + 50 * k : 106 + 50 * k] = column[ahead] / size
            observations.append(np.clip(o, -5, 5))
            changes.append(np.clip((r.steer_command[t] - u1) / 0.25, -1, 1))
    return torch.tensor(np.array(observations), dtype=torch.float32), torch.tensor(
        np.array(changes), dtype=torch.float32
    )


class Feedforward:
    """PID with feed-forward from the plan, for N routes: ``pidff`` of docs/policies.md."""

    BANDS = (0, 3), (3, 8), (8, 16)  # of the plan's rows

    def __init__(self, gains, n):
        self.p, self.i, self.d, self.ff, self.ffv, self.smooth, self.leak = (
            *gains[:3],
            gains[3:7],
            *gains[7:],
        )
        self.integral, self.error, self.command = np.zeros((3, n))

    def update(self, step):
        """The commands of a step."""
        error = step.target - step.current
        self.integral = self.integral * (1 - self.leak) + error
        ahead = self.ff[0] * (step.target - step.roll_lataccel)
        for k, (first, end) in enumerate(self.BANDS):
            rows = [plan[3, first:end] for plan in step.plan]
            means = np.array([np.cumsum(r)[-1] / len(r) if len(r) else np.nan for r in rows])
            ahead = np.where(np.isnan(means), ahead, ahead + self.ff[k + 1] * (means - step.target))
        ahead *= 1 + self.ffv * (20 / np.maximum(step.v_ego, 5) - 1)
        command = self.p * error + self.i * self.integral + self.d * (error - self.error) + ahead
        self.error = error
        self.command = np.clip(self.command + (1 - self.smooth) * (command - self.command), -2, 2)
        return self.command


def gains(file):
    return np.array(json.loads(Path(file).read_text())["gains"])


def taught(sim, routes, gains, noise):
    """Observations, and the changes of the command that a teacher would make there.

    It drives with noise, so that there is something to be corrected: who sees its own way alone
    never learns how to come back to it.
    """
    observations, changes, teacher = [], [], Feedforward(gains, len(routes))
    random, before = np.random.default_rng(1), np.zeros(len(routes))

    def drive(step):
        nonlocal before
        wanted = teacher.update(step)
        if step.index < 100:  # commands count from here on
            return wanted
        observations.append(rollouts.features()[step.running])
        changes.append(((wanted - before) / 0.25)[step.running])
        before = np.clip(
            wanted + noise * random.standard_normal(len(routes)), before - 0.25, before + 0.25
        ).clip(-2, 2)
        return before

    with sim.reset(routes, step=20) as rollouts:
        steer(rollouts, routes, drive)
    changes = torch.from_numpy(np.concatenate(changes)).float().clamp(-1, 1)
    return torch.from_numpy(np.concatenate(observations)), changes


def clone(actor, observations, changes, epochs, spread):
    optimizer = torch.optim.AdamW(actor.parameters(), lr=1e-2, weight_decay=1e-4)
    batches = -(-len(changes) // 2048)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(epochs * batches, 1))
    for _ in range(epochs):
        for batch in torch.randperm(len(changes)).split(2048):
            # Not the squared error, which leaves the distribution wide. One who never errs leaves
            # it a point.
            x = (changes[batch] + spread * torch.randn(len(batch)) + 1) / 2
            loss = -beta(actor, observations[batch]).log_prob(x.clamp(1e-6, 1 - 1e-6)).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 2)
            optimizer.step()
            schedule.step()


# --- PPO ------------------------------------------------------------------------------------------


def advantages(data, values, args, scale):
    """Generalised advantages and returns of all steps, (R, 400)."""
    reward, steps = data.reward / scale, data.steps
    advantage, last = np.zeros_like(reward), np.zeros(len(steps), dtype=np.float32)
    for t in range(reward.shape[1] - 1, -1, -1):
        follows = t + 1 < steps  # the last step is terminal
        after = values[:, t + 1] * follows if t + 1 < reward.shape[1] else 0
        last = (
            reward[:, t] + args.gamma * after - values[:, t]
        ) + args.gamma * args.lam * last * follows
        last = np.where(t < steps, last, 0).astype(np.float32)
        advantage[:, t] = last
    returns = advantage + values
    if args.samples > 1:  # what all samples of a route have in common says nothing of the actions
        by_route = advantage.reshape(args.samples, -1, advantage.shape[1])
        advantage = (by_route - by_route.mean(axis=0)).reshape(advantage.shape)
    return advantage, returns


def update(actor, critic, optimizers, data, args, epoch, scale):
    places = data.places
    observations = torch.from_numpy(data.observe(places))
    x = torch.from_numpy(data.raw.ravel()[places])
    with torch.no_grad():
        values = np.zeros(data.reward.size, dtype=np.float32)
        values[places] = torch.cat(
            [critic(o)[:, 0] for o in observations.split(args.minibatch)]
        ).numpy()
        # of this PyTorch, so that the first ratio is 1
        before = torch.cat([beta(actor, o).log_prob(y) for o, y in
                            zip(observations.split(args.minibatch), x.split(args.minibatch),
                            strict=True)])  # fmt: skip
    advantage, returns = advantages(data, values.reshape(data.reward.shape), args, scale)
    advantage = torch.from_numpy(advantage.ravel()[places])
    returns = torch.from_numpy(returns.ravel()[places])
    for _ in range(args.passes):
        for batch in torch.randperm(len(places)).split(args.minibatch):
            value_loss = (critic(observations[batch])[:, 0] - returns[batch]).square().mean()
            optimizers[1].zero_grad()
            value_loss.backward()
            nn.utils.clip_grad_norm_(critic.parameters(), 1)
            optimizers[1].step()
            if epoch < args.critic_epochs:
                continue
            distribution = beta(actor, observations[batch])
            ratio = (distribution.log_prob(x[batch]) - before[batch]).exp()
            a = (advantage[batch] - advantage[batch].mean()) / (advantage[batch].std() + 1e-8)
            policy_loss = -torch.min(
                ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a
            ).mean()
            sigma = 2 * distribution.stddev.mean() * 0.25
            loss = (
                policy_loss
                - args.entropy * distribution.entropy().mean()
                + 0.5 * torch.relu(0.01 - sigma)
            )
            optimizers[0].zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(actor.parameters(), 0.5)
            optimizers[0].step()


def main():
    args = arguments()
    run = Path(args.run)
    run.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    random = np.random.default_rng(args.seed)
    sim = lockstep.Simulator(engine=args.engine, model=args.model, workers=args.workers)
    if args.routes is None:
        lockstep.generate(run / "routes", args.train + args.valid, seed=args.seed)
    routes = sim.load(args.routes or run / "routes", limit=args.train + args.valid)
    valid, train = routes[: args.valid], routes[args.valid :]
    torch.set_num_threads(sim.workers)

    actor, critic = network(args.hidden, 2, 0.01), network(args.hidden, 1, 1)
    optimizers = [torch.optim.Adam(m.parameters(), lr=args.lr, eps=1e-5) for m in (actor, critic)]
    epoch, rewards, rollouts, before = 0, [], 0, 0.0
    checkpoint = run / "checkpoint.pt"
    if checkpoint.exists():
        kept = torch.load(checkpoint, weights_only=False)
        for module, state in zip((actor, critic, *optimizers), kept["modules"], strict=True):
            module.load_state_dict(state)
        epoch, rewards, rollouts, before = (
            kept[k] for k in ("epoch", "rewards", "rollouts", "cpu_minutes")
        )
        random.bit_generator.state = kept["random"]
        torch.set_rng_state(kept["torch"])
    else:
        lessons = (
            taught(sim, train[: args.lessons], gains(args.teacher), args.noise)
            if args.teacher
            else recorded(train)
        )
        clone(actor, *lessons, args.cloning_epochs, args.spread if args.teacher else 0)

    def spent():
        """CPU minutes so far, of all threads, those before a checkpoint included."""
        return before + time.process_time() / 60

    yardsticks = ["pid", *([args.teacher] if args.teacher else [])]
    for name, mean in zip(yardsticks, sim.rollout(valid, yardsticks).mean[:, 2], strict=True):
        print(f"{name}: {mean:.3f} on the {len(valid)} routes of validation")

    writer = None
    if args.tensorboard:
        from torch.utils.tensorboard import SummaryWriter

        writer = SummaryWriter(run)

    def report(collected, collecting):
        cost = sim.rollout(valid, policy_of(actor)).mean[0, 2]
        line = [epoch, round(spent(), 3), rollouts, cost, collected, collecting]
        new = not (run / "curve.csv").exists()
        with open(run / "curve.csv", "a", newline="") as f:
            if new:
                csv.writer(f).writerow(
                    [
                        "epoch",
                        "cpu_minutes",
                        "rollouts",
                        "validation_cost",
                        "training_cost",
                        "collect_share",
                    ]
                )
            csv.writer(f).writerow(line)
        print(
            "epoch {:4d}  {:6.1f} CPU minutes  {:6d} rollouts  validation {:8.3f}  "
            "training {:8.3f}  collecting {:3.0%}".format(*line),
            flush=True,
        )
        if writer:
            writer.add_scalar("cost/validation", cost, epoch)

    if epoch == 0:
        report(np.nan, np.nan)

    def progress():
        """The share of the training that is done."""
        return max(epoch / args.epochs, spent() / args.cpu_minutes if args.cpu_minutes else 0)

    while epoch < args.epochs and progress() < 1:
        began = time.monotonic()
        picked = train[random.permutation(len(train))[: args.routes_per_epoch].tolist()]
        data = sim.collect(
            policy_of(actor), picked, samples=args.samples, seed=args.seed << 32 | epoch
        )
        collecting = time.monotonic() - began
        rewards.append(data.reward.ravel()[data.places].std())
        rollouts += len(data)
        for optimizer in optimizers:
            cosine = (1 + np.cos(np.pi * progress())) / 2
            optimizer.param_groups[0]["lr"] = args.lr_end + (args.lr - args.lr_end) * cosine
        update(actor, critic, optimizers, data, args, epoch, float(np.mean(rewards)))
        epoch += 1
        if epoch % args.validate_every == 0 or progress() >= 1:
            report(np.nanmean(data.costs[:, 2]), collecting / (time.monotonic() - began))
        modules = [m.state_dict() for m in (actor, critic, *optimizers)]
        kept = {
            "modules": modules,
            "epoch": epoch,
            "rewards": rewards,
            "rollouts": rollouts,
            "cpu_minutes": spent(),
        }
        torch.save(
            kept | {"random": random.bit_generator.state, "torch": torch.get_rng_state()},
            f"{checkpoint}.part",
        )
        os.replace(f"{checkpoint}.part", checkpoint)

    policy = policy_of(actor)
    policy.save(run / "actor.onnx")
    policy.export(run / "controller.py")
    print(f"wrote {run / 'actor.onnx'} and {run / 'controller.py'}, a controller of the challenge")


if __name__ == "__main__":
    main()
