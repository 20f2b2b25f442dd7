"""Writes a trace of your own simulator, to compare with ours: lockstep diff.

    w = Writer("mine.trace", engine="mine")
    rollout = w.begin("00000", "pid")                # the route's name, the controller's
    for i in range(20, rows):
        w.step(rollout, i, sample=token, lataccel=x)  # whichever stages it has
    w.end(rollout, costs=(lataccel, jerk, total))
    w.close()

Stages: action, tokens (20), states (20, 4), logits, probs and cdf (1024), draw,
sample, prediction, lataccel, as package lockstep/parity/trace defines them.
"""
import json
import struct

import numpy as np

STAGES = "route action tokens states logits probs cdf draw sample prediction lataccel".split()
TYPES = {"tokens": "<i8", "states": "<f4", "logits": "<f4", "probs": "<f4", "sample": "<i8"}
SIZES = {"tokens": 20, "states": 80, "logits": 1024, "probs": 1024, "cdf": 1024}


class Writer:
    def __init__(self, path, **header):
        self.file, self.steps = open(path, "wb"), []
        text = json.dumps(header).encode()
        self.file.write(b"lstrace\n" + struct.pack("<II", 1, len(text)) + text)

    def record(self, kind, payload):
        self.file.write(kind + struct.pack("<I", len(payload)) + payload)

    def begin(self, route, policy, **more):
        self.steps.append(0)
        self.record(b"B", struct.pack("<I", len(self.steps) - 1) + json.dumps(dict(more, route=route, policy=policy)).encode())
        return len(self.steps) - 1

    def step(self, rollout, index, **stages):
        flags, values = 0, b""
        for name in sorted(stages, key=STAGES.index):
            array = np.asarray(stages[name]).astype(TYPES.get(name, "<f8"), casting="same_kind")
            assert array.size == SIZES.get(name, 1), (name, array.shape)
            flags |= 2 << 2 * STAGES.index(name)
            values += array.tobytes()
        self.record(b"S", struct.pack("<III", rollout, index, flags) + values)
        self.steps[rollout] += 1

    def end(self, rollout, costs=None, error=""):
        has = (costs is not None) | (error != "") << 2
        values = b"" if costs is None else struct.pack("<3d", *costs)
        self.record(b"E", struct.pack("<IIB", rollout, self.steps[rollout], has) + values + error.encode())

    def close(self):
        self.record(b"Z", struct.pack("<IQ", len(self.steps), sum(self.steps)))
        self.file.close()
