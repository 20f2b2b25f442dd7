#!/usr/bin/env python3
"""Write the routes of the hard recordings: hard_routes.py FOLDER.

Between them they lead through what ordinary drives do not meet: targets that jump, recorded
commands beyond both bounds, a route with one step that costs, and lateral accelerations beyond
the first and the last bin. Every number has few digits, so that every way of reading decimals
gives the same.
"""

import sys
from pathlib import Path

HEAD = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand"


def route(rows, target):
    """`target` gives a row's target. Roll, speed and command rise for 40 rows and start anew."""
    lines = [HEAD]
    for i in range(rows):
        ramp = i % 40 - 20  # -20 to 19
        lines.append(
            f"{i / 10:.1f},{20 + ramp / 100:.2f},{-ramp / 100:.2f},{ramp / 1000:.3f},"
            f"{target(i):.1f},{ramp / 8:.3f}"
        )
    return "\n".join(lines) + "\n"


def steps(size):
    """A target that jumps between `size` and -`size` every 12 rows."""
    return lambda i: -size if i // 12 % 2 else size


ROUTES = {
    "hard-steps": route(130, steps(3)),
    "hard-shortest": route(101, steps(1)),
    "hard-high": route(120, lambda _: 6.0),
    "hard-low": route(120, lambda _: -6.0),
}


def main(folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, text in ROUTES.items():
        (Path(folder) / f"{name}.csv").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
