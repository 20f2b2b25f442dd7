"""The command line, ``lockstep`` or ``python -m lockstep``: ``--help`` lists its commands."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence

from lockstep import _native


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line in this process, by default ``sys.argv``, and return its exit status.

    Python's arithmetic is that of this interpreter, which also runs controllers, unless
    LOCKSTEP_PYTHON names another.
    """
    args = [os.fsencode(a) for a in (sys.argv[1:] if arguments is None else arguments)]
    library = _native.library()
    with _told_of_this_python():
        _native.tell_environment(library)
        status: int = library.lockstep_main(
            len(args), (ctypes.c_char_p * len(args))(*args), os.fsencode(_native.file())
        )
    return status


@contextlib.contextmanager
def _told_of_this_python() -> Iterator[None]:
    """LOCKSTEP_PYTHON is this Python; not for longer: children may be another's."""
    name = "LOCKSTEP_PYTHON"
    if name in os.environ or not (interpreter := _native.interpreter()):
        yield
        return
    os.environ[name] = interpreter
    try:
        yield
    finally:
        os.environ.pop(name, None)


if __name__ == "__main__":
    sys.exit(main())
