"""Asks the NumPy, pandas and ONNX Runtime of this Python which arithmetic they have.

  python -c <this text>

Standard input has a line of JSON, the questions, and then the network's bytes. Each answer
is a line of standard output that begins with MARK: JSON with the name of its probe and its
bits, in base64, or the error. What libraries print themselves goes to standard error.
"""

import sys

sys.path[:] = [p for p in sys.path if p]  # not the working folder, as with controllers

import base64
import hashlib
import importlib
import io
import json
import os
import site

MARK = "lockstep-answer "
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(**answer):
    answers.write(MARK + json.dumps(answer) + "\n")
    answers.flush()


def bits(array):
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def session(network):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(network, options, ["CPUExecutionProvider"])


def row(question):
    """All rows of a probe of ONNX Runtime."""
    import numpy as np

    x = np.frombuffer(base64.b64decode(question["numbers"]), "<f4")
    return bits(session(base64.b64decode(question["network"])).run(None, {"x": x[None]})[0][0])


def exp(question):
    import numpy as np

    return bits(np.exp(np.frombuffer(base64.b64decode(question["numbers"]), "<f4")))


def sin(question):
    import numpy as np

    return bits(np.sin(np.frombuffer(base64.b64decode(question["numbers"]), "<f8")) * 9.81)


def csv(question):
    import numpy as np
    import pandas as pd

    read = [
        pd.read_csv(io.StringIO("x\n0.5\n" + text + "\n"))["x"].iloc[1]
        for text in question["texts"]
    ]
    return bits(np.array(read, np.float64))


def rollout(question, network):
    """Logits and lataccels of the first steps of a rollout that steers with 0."""
    import numpy as np
    import pandas as pd

    data = pd.read_csv(io.StringIO(question["route"]))
    columns = [np.sin(data["roll"].values) * 9.81, data["vEgo"].values, data["aEgo"].values]
    actions = list(-data["steerCommand"].values[: question["first"]])
    lataccels = list(data["targetLateralAcceleration"].values[: question["first"]])
    bins = np.linspace(-5, 5, 1024)
    np.random.seed(int(hashlib.md5(question["seed"].encode()).hexdigest(), 16) % 10**4)
    np.random.random_sample(question["first"] - 20)
    run = session(network).run
    logits = []
    for step in range(question["first"], question["end"]):
        actions.append(0.0)
        window = slice(step - 19, step + 1)
        states = np.column_stack([actions[window], *(column[window] for column in columns)]).astype(
            np.float32
        )
        tokens = np.digitize(np.clip(lataccels[-20:], -5, 5), bins, right=True)
        output = run(None, {"states": states[None], "tokens": tokens[None].astype(np.int64)})[0]
        logits.append(output[0, -1])
        x = output / 0.8
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        p = (e / np.sum(e, axis=-1, keepdims=True))[0, -1]
        sampled = bins[np.random.choice(1024, p=p)]
        lataccels.append(np.clip(sampled, lataccels[-1] - 0.5, lataccels[-1] + 0.5))
    return bits(np.array(logits)) + " " + bits(np.array(lataccels[question["first"] :]))


def answer(name, needs, ask):
    for package in needs:
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name == package:
                return say(probe=name, missing=True)
            return say(probe=name, error=one_line(error))
        except Exception as error:
            return say(probe=name, error=one_line(error))
    try:
        say(probe=name, bits=ask())
    except Exception as error:
        say(probe=name, error=one_line(error))


def one_line(error):
    return " ".join([type(error).__name__ + ":", *str(error).split()])[:200]


def main():
    questions = json.loads(sys.stdin.buffer.readline())
    network = sys.stdin.buffer.read()
    # Folders that do not exist yet are not in sys.path: packages may be installed into them later.
    folders = [*sys.path, *site.getsitepackages(), site.getusersitepackages()]
    say(
        python=sys.version.split()[0],
        executable=sys.executable,
        path=[os.path.abspath(p) for p in folders],
    )
    kinds = {"layer_norm": row, "softmax": row, "exp": exp, "sin": sin, "csv": csv}
    # ONNX Runtime comes last: where it crashes, the others have answered.
    for q in sorted(questions["probes"], key=lambda q: q["package"] == "onnxruntime"):
        answer(q["name"], ["numpy", q["package"]], lambda q=q: kinds[q["name"]](q))
    answer(
        "rollout",
        ["numpy", "pandas", "onnxruntime"],
        lambda: rollout(questions["rollout"], network),
    )
    for name in ("numpy", "pandas", "onnxruntime"):
        if name in sys.modules:
            module = sys.modules[name]
            say(package=name, version=str(module.__version__), file=str(module.__file__))


main()
