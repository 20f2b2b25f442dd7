"""Reads a trace: for kind, rollout, content in records("a.trace").

kind is "begin" (content: a dict), "step" (a dict with "index" and the stages, arrays
held as digests under "<stage>_digest") or "end" (a dict). doc.go is the format.
"""
import json
import struct

import numpy as np

STAGES = "route action tokens states logits probs cdf draw sample prediction lataccel".split()
SHAPES = {"tokens": ("<i8", 20), "states": ("<f4", (20, 4)), "logits": ("<f4", 1024), "probs": ("<f4", 1024), "cdf": ("<f8", 1024), "sample": ("<i8", ())}


def records(path):
    data = open(path, "rb").read()
    magic, version, at = data[:8], *struct.unpack_from("<II", data, 8)
    assert magic == b"lstrace\n" and version == 1, path
    at += 16
    while True:
        kind, size = struct.unpack_from("<cI", data, at)
        p, at = data[at + 5 : at + 5 + size], at + 5 + size
        rollout = struct.unpack_from("<I", p)[0]
        if kind == b"Z":
            return
        if kind == b"B":
            yield "begin", rollout, json.loads(p[4:])
        elif kind == b"S":
            index, flags = struct.unpack_from("<II", p, 4)
            step, pos = {"index": index}, 12
            for i, name in enumerate(STAGES):
                mode, (dtype, shape) = flags >> 2 * i & 3, SHAPES.get(name, ("<f8", ()))
                name, dtype, shape = (name + "_digest", "<u8", ()) if mode == 1 else (name, dtype, shape)
                if mode:
                    n = int(np.prod(shape))
                    step[name] = np.frombuffer(p, dtype, n, pos).reshape(shape)
                    pos += n * np.dtype(dtype).itemsize
            yield "step", rollout, step
        else:
            steps, has = struct.unpack_from("<IB", p, 4)
            costs = struct.unpack_from("<3d", p, 9) if has & 1 else None
            yield "end", rollout, {"steps": steps, "costs": costs, "error": p[9 + 24 * (has & 1) + 4 * (has & 2) :].decode() if has & 4 else ""}
