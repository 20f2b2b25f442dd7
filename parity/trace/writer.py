"""Writes a trace of your own simulator, to be compared with ours: lockstep compare.

    schema = json.load(open("parity/tinyphysics/schema.json"))
    with Writer("mine.trace", schema, engine="mine") as w:
        rollout = w.begin(["00000", "pid"])               # the route's name, the controller's
        for i in range(20, rows):
            w.step(rollout, i, sample=token, lataccel=x)  # whichever stages it has
        w.end(rollout, outcome=(lataccel, jerk, total))

The stages are the schema's; doc.go is the format.
"""

import contextlib
import json
import os
import struct
import zlib

import numpy as np


def check(right, text):
    if not right:
        raise ValueError(text)


class Writer:
    """A trace that is being written. The schema says what a rollout is and has; a header's other
    words may be engine, profile, comment.

    The file is there when the trace is closed, with all rollouts ended, and until then what was
    there before. An exception that ``with`` is left by leaves that as it is: to keep those rollouts
    that have ended, end the others by ``end(rollout, error=...)``, and close."""

    def __init__(self, path, schema, **header):
        self.crc, self.steps, self.last, self.schema = 0, [], [], schema
        self.open = {}  # the keys of rollouts that have not ended
        self.stages = {stage["name"]: (i, stage) for i, stage in enumerate(schema["stages"])}
        text = json.dumps(dict(header, schema=schema)).encode()
        # Written beside its place, but where that is a device or a pipe.
        self.path = self.part = os.fspath(path)
        if os.path.isfile(path) or not os.path.exists(path):
            self.path = os.path.realpath(path)
            self.part = f"{self.path}.{os.getpid()}.part"
        self.file = open(self.part, "wb")
        self.write(b"lstrace\n" + struct.pack("<II", 2, len(text)) + text)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.close()
        finally:
            self.discard()

    def write(self, data):
        self.crc = zlib.crc32(data, self.crc)
        self.file.write(data)

    def record(self, kind, payload):
        check(len(payload) <= 1 << 20, f"a record of {len(payload)} bytes, want {1 << 20} at most")
        self.write(kind + struct.pack("<I", len(payload)) + payload)

    def begin(self, key, **inputs):
        words = ", ".join(self.schema["key"])
        check(len(key) == len(self.schema["key"]), f"key {key}: want {words}")
        check(not self.file.closed, "begin: the trace is closed")
        rollout = len(self.steps)
        given = {"key": list(map(str, key)), "inputs": {name: str(x) for name, x in inputs.items()}}
        text = json.dumps(given, ensure_ascii=False)  # so that what is no text is refused
        self.record(b"B", struct.pack("<I", rollout) + text.encode())
        self.steps.append(0)
        self.last.append(-1)
        self.open[rollout] = key
        return rollout

    def check(self, rollout, what):
        known = 0 <= rollout < len(self.steps)
        check(known, f"{what}: no rollout {rollout}: begin returned 0 to {len(self.steps) - 1}")
        check(rollout in self.open, f"{what}: rollout {rollout} has ended")

    def step(self, rollout, index, **values):
        self.check(rollout, f"step {index}")
        last = self.last[rollout]
        check(last < index < 1 << 31, f"step {index} after step {last}: want one of 0 to 2**31-1")
        flags, data = 0, b""
        for name in values:
            known = ", ".join(self.stages)
            check(name in self.stages, f"step {index}: no stage {name!r}, want one of {known}")
        for name in sorted(values, key=lambda name: self.stages[name][0]):
            i, stage = self.stages[name]
            dtype = np.dtype(stage["type"]).newbyteorder("<")
            given = np.asarray(values[name])
            array = given.astype(dtype, casting="same_kind")
            kept = (array == given) & (array.astype(given.dtype) == given)
            kept |= (array != array) & (given != given)  # NaN
            lost = f"step {index}: {name} is {given.dtype}, and {dtype.name} does not hold it"
            check(kept.all(), lost + f": {given[~kept][:1]}")
            shape = tuple(stage.get("shape", ()))
            fits = array.size == np.prod(shape)
            check(fits, f"step {index}: {name} has shape {array.shape}, want {shape}")
            flags |= 2 << 2 * i
            data += array.tobytes()
        self.record(b"S", struct.pack("<IIQ", rollout, index, flags) + data)
        self.steps[rollout] += 1
        self.last[rollout] = index

    def end(self, rollout, outcome=None, error=""):
        self.check(rollout, "end")
        has, data = 0, b""
        if error:
            has, data = 2, error.encode(errors="backslashreplace")[: 1 << 16]
        elif outcome is not None:
            elements = self.schema["outcome"]["elements"]
            check(len(outcome) == len(elements), f"outcome {outcome}: want {', '.join(elements)}")
            has, data = 1, struct.pack(f"<{len(outcome)}d", *outcome)
        self.record(b"E", struct.pack("<IIB", rollout, self.steps[rollout], has) + data)
        del self.open[rollout]

    def close(self):
        if self.file.closed:
            return
        if self.open:
            rollout, key = next(iter(self.open.items()))
            raise ValueError(
                f"{self.path}: {len(self.open)} of {len(self.steps)} rollouts have not ended, the "
                f"first is {rollout}, {', '.join(map(str, key))}: end each, with an error if it "
                "failed, and close again"
            )
        try:
            self.write(b"Z" + struct.pack("<IIQ", 16, len(self.steps), sum(self.steps)))
            self.write(struct.pack("<I", self.crc))
            self.file.close()
            os.replace(self.part, self.path)  # of a pipe the same name, which stays
        finally:
            self.discard()

    def discard(self):
        """Leave what was there before, and no trace."""
        with contextlib.suppress(OSError):  # of what is not kept
            self.file.close()
        if self.part != self.path and os.path.exists(self.part):
            os.remove(self.part)
