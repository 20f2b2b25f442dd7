"""Tests of the Python package, by the arguments of a test program of Go's: each file is one test.

python parity/mutants/mutation/pytests.py -test.list .
python parity/mutants/mutation/pytests.py -test.run '^(test_step|test_envs)$'
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def main() -> int:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("-test.list", dest="list")
    parser.add_argument("-test.run", dest="run")
    parser.add_argument("-standin", help="a driver without a GPU, for tests of arrays on one")
    o, _ = parser.parse_known_args()
    files = sorted((ROOT / "python/tests").glob("test_*.py"))
    if o.list is not None:
        print("\n".join(f.stem for f in files))
        return 0
    chosen = [str(f) for f in files if re.search(o.run, f.stem)]
    if o.standin and any("test_device" in f for f in chosen):
        # What loads libcuda.so.1 from now on is given this one, which is loaded.
        ctypes.CDLL(o.standin)
        os.environ["LOCKSTEP_REQUIRE_GPU"] = "1"
    sys.path.insert(0, str(ROOT / "parity/mutants/tokens"))
    status = pytest.main(["-xq", "-pno:cacheprovider", "-punshrunk", *chosen])
    return 0 if status == pytest.ExitCode.NO_TESTS_COLLECTED else int(status)


if __name__ == "__main__":
    sys.exit(main())
