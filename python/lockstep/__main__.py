"""The command line, ``lockstep`` or ``python -m lockstep``: ``--help`` lists its commands."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence

from lockstep import _native


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line in this process, by default ``sys.argv``, and return its exit status.

    Python's arithmetic is that of this interpreter, which also runs controllers, unless
    LOCKSTEP_PYTHON names another.
    """
    args = [os.fsencode(a) for a in (sys.argv[1:] if arguments is None else arguments)]
    if interpreter := _native.interpreter():
        os.environ.setdefault("LOCKSTEP_PYTHON", interpreter)
    library = _native.library()
    _native.tell_environment(library)
    status: int = library.lockstep_main(
        len(args), (ctypes.c_char_p * len(args))(*args), os.fsencode(_native.file())
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
