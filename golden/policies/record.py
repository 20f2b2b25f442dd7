#!/usr/bin/env python3
"""Record what exported controllers do in the unmodified upstream program.

  record.py --upstream DIR --model FILE --routes DIR --controllers DIR --out FILE
  record.py ... --check FILE

DIR of the controllers holds pidff.py, network.py and wide.py, as `go test
./golden/policies -run Export` writes them. Each runs as controllers/<name>.py of the
program, on every route. Exit status as in generate.py, whose tools these are.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import generate
import numpy as np
from generate import Failed, hash64

CONTROLLERS = ("pidff", "network", "wide")


def load(path, name):
    """The file's Controller, as a module of the program's package controllers."""
    spec = importlib.util.spec_from_file_location(f"controllers.{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Controller


class Session:
    """Stands before a controller's session and keeps what comes out."""

    def __init__(self, session, kept):
        self.session = session
        self.kept = kept

    def run(self, names, inputs):
        outputs = self.session.run(names, inputs)
        self.kept["observation_hash"].append(hash64(inputs["obs"][0]))
        self.kept["actor"].append(outputs[0][0].copy())
        return outputs


def record(program, model, route, make):
    path = f"data/{route}.csv"
    controller = make()
    kept = {"observation_hash": [], "actor": [], "raw": []}
    if hasattr(controller, "network"):
        controller.network = Session(controller.network, kept)
        plain = controller.update

        def update(*args, **kwargs):
            action = plain(*args, **kwargs)
            if len(kept["actor"]) > len(kept["raw"]):
                kept["raw"].append(controller.raw)
            return action

        controller.update = update
    simulator = program.TinyPhysicsSimulator(model, path, controller=controller)
    costs = simulator.rollout()
    columns = {
        name: np.asarray(simulator.data[name].values, np.float64) for name in generate.ROUTE_COLUMNS
    }
    columns["steer_command"] = columns["steer_command"][: generate.CONTROL_START]
    first = generate.FIRST_STEP
    return {
        "action": np.array(simulator.action_history[first:], np.float64),
        "lataccel": np.array(simulator.current_lataccel_history[first:], np.float64),
        "costs": np.array([costs[name] for name in generate.COSTS], np.float64),
        "route_hash": np.array(
            [hash64(columns[name]) for name in generate.ROUTE_COLUMNS], np.uint64
        ),
        "observation_hash": np.array(kept["observation_hash"], np.uint64),
        "actor": np.array(kept["actor"], np.float32).reshape(-1, 2),
        "raw": np.array(kept["raw"], np.float64),
    }


def record_all(options):
    makers = {}
    profile = generate.profile_name(generate.fingerprint())
    program = generate.load_upstream(options.upstream)
    for name in options.only or CONTROLLERS:
        makers[name] = load(Path(options.controllers).resolve() / f"{name}.py", name)
    routes = sorted(path.stem for path in Path(options.routes).glob("*.csv"))
    if not routes:
        raise Failed(f"{options.routes}: no *.csv files: give the folder of routes")
    names, arrays = [profile], {}
    model_path = str(Path(options.model).resolve())
    with generate.routes_as_data(options.routes):
        model = program.TinyPhysicsModel(model_path, debug=False)
        for route in routes:
            for name, make in makers.items():
                names.append(f"{route}.{name}")
                for key, array in record(program, model, route, make).items():
                    arrays[f"{route}.{name}/{key}"] = array
                print(
                    f"{route}.{name}: total_cost {float(arrays[f'{route}.{name}/costs'][2])!r}",
                    flush=True,
                )
    return {"names": np.array(names, np.bytes_), **arrays}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("upstream", "model", "routes", "controllers"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", nargs="+", choices=CONTROLLERS)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--out")
    goal.add_argument("--check")
    options = parser.parse_args()
    have = record_all(options)
    if options.out:
        generate.write_whole(options.out, generate.npz_bytes(have))
        return 0
    want = generate.load_npz(options.check)
    for name in sorted({*have, *want}):
        if name not in have or name not in want or have[name].tobytes() != want[name].tobytes():
            raise Failed(f"{options.check}: {name} differs from what this machine records")
    print(f"{options.check}: equal")
    return 0


if __name__ == "__main__":
    generate.run(main)
