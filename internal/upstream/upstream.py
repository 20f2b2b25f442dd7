"""Times the unmodified Python program for benchmarks, one request at a time.

  upstream.py --upstream DIR --model FILE

Reads one JSON request a line and answers with one JSON line:
  {"rollout": "path/to/data/00000.csv", "gains": [p, i, d]}
      one call of the program's run_rollout, loading included; the path string
      seeds its draws. Without gains the controller is zero.
      -> {"seconds": s, "costs": ["0x…", "0x…", "0x…"]}
  {"network": n}
      n calls of its ONNX Runtime session on one sequence.
      -> {"seconds": the fastest call}
"""

import argparse
import importlib
import json
import os
import sys
import time


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    model = os.path.abspath(args.model)
    sys.path.insert(0, args.upstream)
    os.environ.setdefault("MPLBACKEND", "Agg")
    import numpy
    import tinyphysics

    pid = importlib.import_module("controllers.pid")
    default = pid.Controller

    def rollout(request):
        # The program makes its controller from the module's class.
        def controller():
            c = default()
            c.p, c.i, c.d = request["gains"]
            return c

        name = "pid" if "gains" in request else "zero"
        pid.Controller = controller
        folder, file = os.path.split(os.path.abspath(request["rollout"]))
        os.chdir(os.path.dirname(folder))
        path = os.path.join(os.path.basename(folder), file)
        start = time.perf_counter()
        costs, _, _ = tinyphysics.run_rollout(path, name, model)
        seconds = time.perf_counter() - start
        return {
            "seconds": seconds,
            "costs": [float(costs[k]).hex() for k in ("lataccel_cost", "jerk_cost", "total_cost")],
        }

    def network(request):
        session = tinyphysics.TinyPhysicsModel(model, debug=False).ort_session
        inputs = {
            "states": numpy.linspace(-1, 1, 80, dtype=numpy.float32).reshape(1, 20, 4),
            "tokens": numpy.arange(0, 1000, 50, dtype=numpy.int64).reshape(1, 20),
        }
        fastest = float("inf")
        for _ in range(request["network"]):
            start = time.perf_counter()
            session.run(None, inputs)
            fastest = min(fastest, time.perf_counter() - start)
        return {"seconds": fastest}

    for line in sys.stdin:
        request = json.loads(line)
        answer = rollout(request) if "rollout" in request else network(request)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
