#!/usr/bin/env python3
"""Train the default model on our own vehicle simulation and write it as ONNX.

  train.py --out FILE            README.md describes model, data and training
  train.py --out FILE --steps 50 a quick, useless model

The same seed gives the same bytes with the same packages on a CPU with the same
vector instructions.
"""

import argparse
import os
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"

import export
import jax
import jax.numpy as jnp
import numpy as np
from export import CONTEXT, EPSILON, HALF, HEADS, HIDDEN, LAYERS, STATE, VOCABULARY, WIDTH
from simulation import LATACCEL_LIMIT, simulate

BINS = np.linspace(-LATACCEL_LIMIT, LATACCEL_LIMIT, VOCABULARY)
BIN = BINS[1] - BINS[0]
SETTLE = 20  # first steps of a drive that are not used
DRIVE = 400  # steps of a drive
STATE_MEAN = np.array([0.0, 0.2, 18.0, 0.0], np.float32)
STATE_SCALE = np.array([0.6, 0.3, 10.0, 0.6], np.float32)
RATE, WARMUP, DECAY = 1.5e-3, 200, 0.02
MATRICES = {"qkv", "projection", "fc", "out", "head"}  # the weights that decay
CHUNK = 25  # steps in one call


def tokens_of(lataccel):
    """As the challenge's tokenizer."""
    return np.digitize(np.clip(lataccel, -LATACCEL_LIMIT, LATACCEL_LIMIT), BINS, right=True)


def waves(rng, width):
    """Smooth features of the bins, so that neighbouring bins start alike."""
    x = BINS / LATACCEL_LIMIT
    frequency = np.exp(rng.uniform(np.log(0.5), np.log(120), width // 2))
    turn = rng.uniform(0, 2 * np.pi, width // 2)
    angle = np.outer(x, frequency) + turn
    smooth = np.concatenate([np.sin(angle), np.cos(angle)], 1)
    smooth[:, 0] = 2 * x
    return smooth


def initial(rng):
    def normal(*shape, scale=0.02):
        return scale * rng.standard_normal(shape)

    features = waves(rng, HALF)
    deep = 0.02 / np.sqrt(2 * LAYERS)
    weights = {
        "state_embedding": normal(STATE, HALF, scale=0.5),
        "state_bias": normal(HALF),
        "token_embedding": 0.5 * features,
        "position_embedding": normal(CONTEXT, WIDTH),
        "attn_norm_weight": np.ones((LAYERS, WIDTH)),
        "attn_norm_bias": np.zeros((LAYERS, WIDTH)),
        "qkv": normal(LAYERS, WIDTH, 3 * WIDTH, scale=0.06),
        "projection": normal(LAYERS, WIDTH, WIDTH, scale=deep),
        "mlp_norm_weight": np.ones((LAYERS, WIDTH)),
        "mlp_norm_bias": np.zeros((LAYERS, WIDTH)),
        "fc": normal(LAYERS, WIDTH, HIDDEN, scale=0.06),
        "out": normal(LAYERS, HIDDEN, WIDTH, scale=deep),
        "final_norm_weight": np.ones(WIDTH),
        "final_norm_bias": np.zeros(WIDTH),
        "head": normal(WIDTH, HALF, scale=0.02) @ waves(rng, HALF).T,
    }  # fmt: skip
    return {name: jnp.asarray(array, jnp.float32) for name, array in weights.items()}


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON) * weight + bias


def forward(w, states, tokens):
    """Logits (batch * 20, 1024) of the network on scaled states."""
    rows = tokens.size

    def heads(x):
        return x.reshape(-1, CONTEXT, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)

    x = jnp.concatenate(
        [
            states.reshape(rows, STATE) @ w["state_embedding"] + w["state_bias"],
            w["token_embedding"][tokens.reshape(rows)],
        ],
        -1,
    )
    x = (x.reshape(-1, CONTEXT, WIDTH) + w["position_embedding"]).reshape(rows, WIDTH)
    mask = jnp.tril(jnp.ones((CONTEXT, CONTEXT), bool))
    for i in range(LAYERS):
        n = layer_norm(x, w["attn_norm_weight"][i], w["attn_norm_bias"][i])
        q, k, v = (heads(part) for part in jnp.split(n @ w["qkv"][i], 3, axis=-1))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(WIDTH // HEADS).astype(np.float32)
        weights = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf))
        mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(rows, WIDTH)
        x = x + mixed @ w["projection"][i]
        n = layer_norm(x, w["mlp_norm_weight"][i], w["mlp_norm_bias"][i])
        x = x + jax.nn.gelu(n @ w["fc"][i], approximate=True) @ w["out"][i]
    return layer_norm(x, w["final_norm_weight"], w["final_norm_bias"]) @ w["head"]


def loss(w, states, tokens, mean, sigma):
    """Cross-entropy at all positions against the distribution that the simulation
    drew the next token from: a normal one, at the centres of the bins."""
    logits = forward(w, states, tokens)
    centres = jnp.asarray(BINS - BIN / 2, jnp.float32)
    z = (centres - mean.reshape(-1, 1)) / sigma.reshape(-1, 1)
    target = jax.nn.softmax(-0.5 * z * z)
    return (jax.nn.logsumexp(logits, -1) - (target * logits).sum(-1)).mean()


def entropy(sigma):
    """Mean entropy of the normal distributions over bins: no model's loss is below it."""
    return float(np.mean(np.log(sigma / BIN * np.sqrt(2 * np.pi * np.e))))


def folded(w):
    """The weights for raw states."""
    w = dict(w)
    scaled = w["state_embedding"] / STATE_SCALE[:, None]
    w["state_bias"] = w["state_bias"] - STATE_MEAN @ scaled
    w["state_embedding"] = scaled
    return w


class Data:
    def __init__(self, seed, drives):
        drive = simulate(seed, drives, DRIVE)
        raw = np.stack([drive[name] for name in ("action", "roll", "speed", "accel")], -1)
        self.states = ((raw - STATE_MEAN) / STATE_SCALE).astype(np.float32)
        self.tokens = tokens_of(drive["lataccel"]).astype(np.int32)
        limit = np.float32(LATACCEL_LIMIT)
        self.mean = np.clip(drive["mean"], -limit, limit)
        self.sigma = drive["sigma"]

    def batch(self, rng, size):
        """Windows: at position p, token of step s+p-1, state of step s+p, target step s+p."""
        drive = rng.integers(len(self.tokens), size=(size, 1))
        step = rng.integers(SETTLE, DRIVE - CONTEXT, size=(size, 1)) + np.arange(CONTEXT)
        return (
            self.states[drive, step],
            self.tokens[drive, step - 1],
            self.mean[drive, step],
            self.sigma[drive, step],
        )


def train(seed, steps, batch, drives, report=print):
    rng = np.random.default_rng(seed)
    began = time.time()
    data, held_out = Data([seed, 0], drives), Data([seed, 1], 256)
    report(f"simulated {drives + 256} drives of {DRIVE} steps in {time.time() - began:.0f} s")
    weights = initial(rng)

    def update(state, inputs):
        w, m, v, t = state
        value, gradient = jax.value_and_grad(loss)(w, *inputs)
        norm = jnp.sqrt(sum((g * g).sum() for g in gradient.values()))
        scale = jnp.minimum(1.0, 1.0 / (norm + 1e-6))
        done = jnp.clip((t - WARMUP) / max(steps - WARMUP, 1), 0, 1)
        cosine = 0.02 + 0.98 * 0.5 * (1 + jnp.cos(jnp.pi * done))
        rate = RATE * jnp.minimum((t + 1) / WARMUP, cosine)
        new_w, new_m, new_v = {}, {}, {}
        for name, g in gradient.items():
            g = g * scale
            new_m[name] = 0.9 * m[name] + 0.1 * g
            new_v[name] = 0.98 * v[name] + 0.02 * g * g
            direction = (new_m[name] / (1 - 0.9 ** (t + 1))) / (
                jnp.sqrt(new_v[name] / (1 - 0.98 ** (t + 1))) + 1e-8
            )
            decay = DECAY if name in MATRICES else 0.0
            new_w[name] = w[name] - rate * (direction + decay * w[name])
        return (new_w, new_m, new_v, t + 1), value

    updates = jax.jit(lambda state, batches: jax.lax.scan(update, state, batches))
    check = held_out.batch(np.random.default_rng([seed, 2]), 512)
    floor = entropy(check[3])
    evaluate = jax.jit(loss)
    zeros = {name: jnp.zeros_like(array) for name, array in weights.items()}
    state = weights, zeros, zeros, jnp.float32(0)
    began, losses = time.time(), []
    for t in range(0, steps, CHUNK):
        batches = [data.batch(rng, batch) for _ in range(CHUNK)]
        state, values = updates(state, [np.stack(part) for part in zip(*batches)])
        losses.append(float(values.mean()))
        if (t + CHUNK) % 250 == 0 or t + CHUNK >= steps:
            report(
                f"step {t + CHUNK}: loss {np.mean(losses[-10:]):.4f}, held out "
                f"{float(evaluate(state[0], *check)):.4f} (noise {floor:.4f}), "
                f"{time.time() - began:.0f} s"
            )
            yield t + CHUNK, state[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FILE", required=True, help="the ONNX file to write")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--drives", type=int, default=16384)
    options = parser.parse_args()
    began = time.time()
    for step, weights in train(
        options.seed,
        options.steps,
        options.batch,
        options.drives,
        lambda line: print(line, flush=True),
    ):
        if step % 1000 == 0 or step >= options.steps:
            export.save(folded(jax.device_get(weights)), options.out)
    print(f"{options.out}: written after {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
