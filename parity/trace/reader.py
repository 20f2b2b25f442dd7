"""Reads a trace: for kind, rollout, content in records("a.trace").

kind is "header" (rollout is -1), "begin" (content: a dict), "step" (a dict with "index"
and the stages, arrays held as digests under "<stage>_digest") or "end" (a dict).
arrays("a.trace") gives, by rollout, each stage's values of all steps as one array.
doc.go is the format.
"""

import json
import struct
import zlib

import numpy as np


def records(path):
    data = open(path, "rb").read()
    magic, version, size = data[:8], *struct.unpack_from("<II", data, 8)
    assert magic == b"lstrace\n" and version == 2, path
    assert zlib.crc32(data[:-4]) == struct.unpack("<I", data[-4:])[0], f"{path} is damaged"
    header, at = json.loads(data[16 : 16 + size]), 16 + size
    stages, outcome = header["schema"]["stages"], len(header["schema"]["outcome"]["elements"])
    yield "header", -1, header
    while data[at : at + 1] != b"Z":
        kind, size = struct.unpack_from("<cI", data, at)
        p, at = data[at + 5 : at + 5 + size], at + 5 + size
        rollout = struct.unpack_from("<I", p)[0]
        if kind == b"B":
            yield "begin", rollout, json.loads(p[4:])
        elif kind == b"S":
            index, flags = struct.unpack_from("<IQ", p, 4)
            step, pos = {"index": index}, 16
            for i, stage in enumerate(stages):
                name, dtype, shape = stage["name"], stage["type"], stage.get("shape", ())
                if (mode := flags >> 2 * i & 3) == 1:
                    name, dtype, shape = name + "_digest", "uint64", ()
                if mode:
                    dtype, n = np.dtype(dtype).newbyteorder("<"), int(np.prod(shape))
                    step[name] = np.frombuffer(p, dtype, n, pos).reshape(shape)
                    pos += n * dtype.itemsize
            yield "step", rollout, step
        else:
            steps, has = struct.unpack_from("<IB", p, 4)
            numbers = struct.unpack_from(f"<{outcome}d", p, 9) if has == 1 else None
            error = p[9:].decode(errors="backslashreplace") if has == 2 else ""
            yield "end", rollout, {"steps": steps, "outcome": numbers, "error": error}


def arrays(path):
    rollouts = {}
    for kind, rollout, content in records(path):
        if kind == "begin":
            rollouts[rollout] = {"key": content["key"], "steps": []}
        elif kind == "step":
            rollouts[rollout]["steps"].append(content)
        elif kind == "end":
            steps = rollouts[rollout].pop("steps")
            names = dict.fromkeys(name for step in steps for name in step)
            for name in names:  # only the steps that have it
                rollouts[rollout][name] = np.stack([step[name] for step in steps if name in step])
            rollouts[rollout].update(content)
    return rollouts
