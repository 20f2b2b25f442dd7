#!/usr/bin/env python3
"""Measure the default model: its answer to a step of the steer command, beside the
simulation's, and what ONNX Runtime makes of its graph.

  evaluate.py --model FILE --plot response.png
  evaluate.py --model FILE --official tinyphysics.onnx    compares the optimised graphs
"""

import argparse
import os
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from simulation import STEP, Car

BINS = np.linspace(-5, 5, 1024)
TEMPERATURE, MAX_CHANGE = 0.8, 0.5  # the challenge's
BEFORE, AFTER, ROLLOUTS = 30, 30, 400


def session(path, optimised=None):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if optimised:
        options.optimized_model_filepath = optimised
    return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])


def model_response(network, speed, command, seed=0):
    """Mean lateral acceleration of rollouts as the challenge's program makes them."""
    rng = np.random.default_rng(seed)
    lataccel, action = np.zeros((ROLLOUTS, 20)), np.zeros((ROLLOUTS, 20))
    for i in range(BEFORE + AFTER):
        fresh = np.full((ROLLOUTS, 1), command if i >= BEFORE else 0.0)
        action = np.concatenate([action, fresh], 1)
        states = np.zeros((ROLLOUTS, 20, 4), np.float32)
        states[..., 0], states[..., 2] = action[:, -20:], speed
        tokens = np.digitize(np.clip(lataccel[:, -20:], -5, 5), BINS, right=True)
        logits = network.run(None, {"states": states, "tokens": tokens})[0][:, -1] / TEMPERATURE
        p = np.exp(logits - logits.max(1, keepdims=True)).cumsum(1)
        token = (rng.random((ROLLOUTS, 1)) * p[:, -1:] < p).argmax(1)
        last = lataccel[:, -1]
        step = np.clip(BINS[token], last - MAX_CHANGE, last + MAX_CHANGE)
        lataccel = np.concatenate([lataccel, step[:, None]], 1)
    return lataccel[:, 20:].mean(0)


def car_response(speed, command):
    car = Car.new(1, np.random.default_rng(0))
    car.offset = np.zeros(1)
    calm, speed = np.zeros(1), np.full(1, speed)
    commands = np.where(np.arange(BEFORE + AFTER) >= BEFORE, command, 0.0)
    return np.array([car.step(now[None], speed, calm, calm)[0] for now in commands])


def rise(response):
    """Seconds from the step until 63 % of the final value, between measurements by a line."""
    after = response[BEFORE - 1 :] / response[-10:].mean()
    i = int(np.argmax(after >= 0.632))
    return STEP * (i - 1 + (0.632 - after[i - 1]) / (after[i] - after[i - 1]))


def responses(path, plot):
    network = session(path)
    cases = [(30.0, 0.5), (20.0, 0.5), (10.0, 0.5), (5.0, 0.5), (30.0, -1.0), (20.0, 1.0)]
    curves = {case: (model_response(network, *case), car_response(*case)) for case in cases}
    print("| speed (m/s) | step | final, model (m/s²) | car | 63 % after, model (s) | car |")
    print("|---|---|---|---|---|---|")
    for (speed, command), (model, car) in curves.items():
        print(
            f"| {speed:g} | {command:g} | {model[-10:].mean():.2f} | {car[-10:].mean():.2f} "
            f"| {rise(model):.2f} | {rise(car):.2f} |"
        )
    if plot:
        os.environ["MPLBACKEND"] = "Agg"
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
        time = STEP * (np.arange(BEFORE + AFTER) - BEFORE)
        shown = slice(BEFORE - 8, None)
        for color, case in zip(("C0", "C1", "C2", "C3"), cases):
            model, car = curves[case]
            axes.plot(time[shown], model[shown], color, marker=".", label=f"{case[0]:g} m/s")
            axes.plot(time[shown], car[shown], color, linestyle="--", linewidth=1)
        axes.axvline(0, color="0.8", linewidth=1, zorder=0)
        axes.set_xlabel("time after the steer command stepped from 0 to 0.5 (s)")
        axes.set_ylabel("lateral acceleration (m/s²)")
        axes.set_title("default model (dots) and simulated car (dashes)", fontsize=10)
        axes.legend(frameon=False)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        figure.savefig(plot, dpi=100, metadata={"Software": None})


def operators(path):
    with tempfile.TemporaryDirectory() as folder:
        optimised = os.path.join(folder, "optimised.onnx")
        session(path, optimised)
        nodes = onnx.load(optimised).graph.node
    return [
        (
            n.domain,
            n.op_type,
            sorted(
                (a.name, onnx.helper.get_attribute_value(a))
                for a in n.attribute
                if not a.HasField("t")
            ),
        )
        for n in nodes
    ]


def compare(path, official):
    ours, theirs = operators(path), operators(official)
    if ours != theirs:
        different = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
        at = different[0] if different else min(len(ours), len(theirs))
        sys.exit(
            f"{path}: operator {at} of the optimised graph differs from that of {official}: "
            f"{ours[at : at + 1]}, {theirs[at : at + 1]} ({len(ours)} and {len(theirs)} operators)"
        )
    print(
        f"ONNX Runtime {onnxruntime.__version__} executes the same {len(ours)} operators, "
        "in the same order and with the same attributes, for both models"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", metavar="FILE", required=True)
    parser.add_argument("--plot", metavar="FILE", help="draw the responses as PNG")
    parser.add_argument(
        "--official", metavar="FILE", help="the challenge's model, to compare graphs with"
    )
    options = parser.parse_args()
    if options.official:
        compare(options.model, options.official)
    else:
        responses(options.model, options.plot)


if __name__ == "__main__":
    main()
