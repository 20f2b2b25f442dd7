#!/usr/bin/env python3
"""Records what the unmodified upstream program computes with the controllers of this folder.

  record.py --upstream DIR --model FILE --routes DIR > upstream.json

Needs what ../../golden/generate.py needs, which checks and describes the
installation. The program is imported as it is; its package `controllers` is
told of one more folder.
"""

import argparse
import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "golden"))
import generate

CONTROLLERS = ("preview", "strict")
ROUTES = ("00000", "00002", "00004", "00006", "04744", "04959")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--routes", required=True)
    options = parser.parse_args()
    if generate.sha256_file(options.model) != generate.MODEL_SHA256:
        generate.refuse(f"{options.model}: not the official model")
    model = str(Path(options.model).resolve())
    profile = generate.profile_name(generate.fingerprint())
    program = generate.load_upstream(options.upstream)
    folder = HERE / "controllers"
    sys.modules["controllers"].__path__.append(str(folder))

    costs = {}
    with generate.routes_as_data(options.routes):
        for controller in CONTROLLERS:
            for route in ROUTES:
                answer, _, _ = program.run_rollout(f"data/{route}.csv", controller, model)
                costs.setdefault(controller, {})[route] = {
                    name: {"hex": float(answer[name]).hex(), "repr": repr(float(answer[name]))}
                    for name in generate.COSTS
                }
        routes = {route: generate.sha256_file(f"data/{route}.csv") for route in ROUTES}
    print(generate.json_text({
        "controllers_sha256": {
            name: hashlib.sha256((folder / f"{name}.py").read_bytes()).hexdigest()
            for name in CONTROLLERS
        },
        "costs": costs,
        "machine": generate.machine(),
        "model_sha256": generate.MODEL_SHA256,
        "profile": profile,
        "routes_sha256": routes,
        "upstream": {"repository": generate.UPSTREAM_REPOSITORY, "commit": generate.UPSTREAM_COMMIT,
                     "sha256": dict(generate.UPSTREAM_SHA256)},
    }), end="")  # fmt: skip
    return 0


if __name__ == "__main__":
    generate.run(main)
