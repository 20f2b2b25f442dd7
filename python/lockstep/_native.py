"""The library: loading it, calling it, and its errors. See cmd/internal/native for its other side.

It is loaded when it is first used, not on import. The library's threads do not survive a
fork, so a child of a process that has used it loads a copy of its own: what the child makes
works there, and what the parent made says that it is the parent's.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lockstep._version import __version__
from lockstep.errors import ClosedError, RouteError, SimulationError

_EXCEPTIONS: dict[str, type[Exception]] = {
    "ClosedError": ClosedError,
    "FileNotFoundError": FileNotFoundError,
    "PermissionError": PermissionError,
    "SimulationError": SimulationError,
    "ValueError": ValueError,
}

# How long a call into the library may take before Python looks for signals.
POLL_MS = 100

_library: ctypes.CDLL | None = None
_loading = threading.Lock()

# Whether this process, or one that it was forked from, has begun to load the library.
_begun = False
# Whether a process that this one was forked from has.
_inherited = False
# How many forks lie between this process and the one that imported this module.
_forks = 0


def _after_fork() -> None:
    global _library, _loading, _inherited, _forks
    _library, _loading = None, threading.Lock()
    _inherited = _begun
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def file() -> Path:
    """The path of the library."""
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    return Path(__file__).with_name("liblockstep" + suffix)


def _load() -> ctypes.CDLL:
    path = file()
    if not path.exists():
        raise ImportError(f"{path}: the library is not built: run pip install . in the repository")
    lib = _open_copy(path) if _inherited else ctypes.CDLL(str(path))
    pointer, integer = ctypes.c_void_p, ctypes.c_int64
    for name, result, arguments in [
        ("version", pointer, []),
        ("free", None, [pointer]),
        ("call", pointer, [ctypes.c_char_p, integer, ctypes.c_char_p, pointer, integer]),
        ("start", integer, [ctypes.c_char_p, integer, ctypes.c_char_p, pointer, integer]),
        ("wait", integer, [integer, integer]),
        ("finish", pointer, [integer]),
        ("step", ctypes.c_int, [integer, pointer, pointer, integer]),
        ("step_on_device", ctypes.c_int, [integer, ctypes.c_uint64, ctypes.c_uint64]),
        ("episodes_step", ctypes.c_int, [integer, pointer]),
        ("environments_step", ctypes.c_int, [integer, pointer]),
        ("environments_rows", ctypes.c_int, [integer, pointer]),
        ("environment", None, [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]),
        ("main", ctypes.c_int, [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_char_p]),
    ]:
        function = getattr(lib, "lockstep_" + name)
        function.restype, function.argtypes = result, arguments
    version = _text(lib, lib.lockstep_version())
    if version != __version__:
        raise ImportError(
            f"{path}: built for lockstep {version}, this is {__version__}: run pip install . again"
        )
    tell_environment(lib)
    return lib


def tell_environment(lib: ctypes.CDLL) -> None:
    """Tell the library os.environ: by itself it knows what the process began with."""
    if sys.platform != "win32":  # where it asks the system each time
        variables = [os.fsencode(f"{name}={value}") for name, value in os.environ.items()]
        lib.lockstep_environment(len(variables), (ctypes.c_char_p * len(variables))(*variables))


def _open_copy(path: Path) -> ctypes.CDLL:
    """The library once more, from a file that the process has not loaded yet."""
    if hasattr(os, "memfd_create") and os.path.isdir(f"/proc/{os.getpid()}/fd"):
        descriptor = os.memfd_create(path.name)
        name = f"/proc/{os.getpid()}/fd/{descriptor}"  # the loader knows libraries by name, too
    else:
        descriptor, name = tempfile.mkstemp(suffix=path.suffix)
    with os.fdopen(descriptor, "wb") as copy, path.open("rb") as original:
        try:
            shutil.copyfileobj(original, copy)
            copy.flush()
            return ctypes.CDLL(name)
        finally:
            if not name.startswith("/proc/"):
                os.unlink(name)


def _text(lib: ctypes.CDLL, address: int) -> str:
    """The text at an address, which is freed."""
    text = ctypes.string_at(address).decode()
    lib.lockstep_free(address)
    return text


def interpreter() -> str:
    """The path of this Python, or "" in a program that Python is embedded in."""
    name = sys.executable or ""
    return name if "py" in os.path.basename(name).lower() else ""


def library() -> ctypes.CDLL:
    """The library, loaded by the first call."""
    global _library, _begun
    if _library is None:
        with _loading:
            if _library is None:
                _begun = True
                _library = _load()
    return _library


def call(name: str, handle: int = 0, buffer: Any = None, **request: Any) -> Any:
    """Call a method of the library.

    Parameters
    ----------
    name : str
        The method.
    handle : int
        The object that it is of.
    buffer : numpy.ndarray, optional
        A contiguous array that is read or written.
    **request
        What becomes the request's JSON object.
    """
    lib = library()
    return _result(_text(lib, lib.lockstep_call(*_arguments(name, handle, buffer, request))))


def long_call(
    name: str,
    handle: int,
    buffer: Any = None,
    progress: Callable[[int], object] | None = None,
    **request: Any,
) -> Any:
    """Call a method that may take long, and wait for it in turns, so that signals are seen.

    Whatever is raised in between, such as KeyboardInterrupt, ends the call.
    """
    lib = library()
    task = lib.lockstep_start(*_arguments(name, handle, buffer, request))
    seen = -1
    try:
        while (done := lib.lockstep_wait(task, POLL_MS)) >= 0:
            if progress is not None and done != seen:
                progress(done)
            seen = done
    except BaseException:
        # What it has made by now is nobody's.
        made = json.loads(_text(lib, lib.lockstep_finish(task)))["result"]
        if isinstance(made, dict) and "handle" in made:
            _release(made["handle"], os.getpid())
        raise
    return _result(_text(lib, lib.lockstep_finish(task)))


def _arguments(name: str, handle: int, buffer: Any, request: dict[str, Any]) -> tuple[Any, ...]:
    if not handle:  # what is opened, planned or fetched reads it; an object has read it
        tell_environment(library())
    address, size = (None, 0) if buffer is None else (buffer.ctypes.data, buffer.nbytes)
    try:
        text = json.dumps(request, allow_nan=False, default=_number)
    except ValueError:
        raise ValueError(f"{name}: a number that is not finite") from None
    return name.encode(), handle, text.encode(), address, size


def _number(value: Any) -> Any:
    """A number of NumPy's as one of Python's."""
    if getattr(value, "shape", None) != ():
        raise TypeError(f"{type(value).__name__}, want a number")
    return value.item()


def text(what: str, value: Any) -> str:
    """A request's text, or TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: {type(value).__name__}, want a str")
    return value


def _result(answer: str) -> Any:
    parsed = json.loads(answer)
    if "error" in parsed:
        raise error(parsed["error"])
    return parsed["result"]


def error(failure: dict[str, Any]) -> Exception:
    """The exception that a failure of the library's describes."""
    message = failure["message"]
    if failure["type"] == "RouteError":
        return RouteError(
            message, failure.get("file", ""), failure.get("line", 0), failure.get("column", 0)
        )
    return _EXCEPTIONS[failure["type"]](message)


@cache
def _fields(name: str) -> list[str]:
    return call(f"{name}_fields")  # type: ignore[no-any-return]


def struct(name: str, words: dict[str, Any]) -> Any:
    """A struct of the library's, made by the names of its fields.

    Each is an array, which stands for its address and must live as long as the struct, or a number.
    """
    fields = _fields(name)
    if sorted(fields) != sorted(words):
        raise TypeError(f"{name}: the library has the fields {sorted(fields)}, not {sorted(words)}")
    values = [words[field] for field in fields]
    return np.array([v if isinstance(v, int) else v.ctypes.data for v in values], dtype=np.int64)


class Handle:
    """An object of the library's, freed when it is closed or garbage."""

    def __init__(self, handle: int, what: str) -> None:
        self._handle = handle
        self._what = what
        self._forks = _forks
        self._finalizer = weakref.finalize(self, _release, handle, os.getpid())

    @property
    def id(self) -> int:
        """The number that the library knows it by."""
        self.check_fork()
        if not self._finalizer.alive:
            raise ClosedError(f"the {self._what} {self._verb('has', 'have')} been closed")
        return self._handle

    def check_fork(self) -> None:
        """Refuse to go on in a process that was forked after the object was made."""
        if self._forks != _forks:
            raise RuntimeError(
                f"the {self._what} {self._verb('was', 'were')} made before this process was "
                "forked, and the threads are the parent's: "
                'make another in this process, or use the start method "spawn" or "forkserver"'
            )

    def __reduce__(self) -> Any:
        raise TypeError(
            f"the {self._what} {self._verb('is', 'are')} memory of this process and can be neither "
            "copied nor pickled: make another"
        )

    def _verb(self, one: str, several: str) -> str:
        return several if self._what.endswith("s") else one

    @property
    def closed(self) -> bool:
        """Whether it has been closed."""
        return not self._finalizer.alive

    def close(self) -> None:
        """Free it. Closing twice does no harm."""
        self._finalizer()

    def call(self, name: str, buffer: Any = None, **request: Any) -> Any:
        """Call a method of the object."""
        return call(name, self.id, buffer, **request)

    def long_call(self, name: str, buffer: Any = None, **request: Any) -> Any:
        """Call a method of the object that may take long."""
        return long_call(name, self.id, buffer, **request)


class Uncopied:
    """What a copy would share with, and be at another step than: there is none.

    A deep copy, and what pickle writes, is refused by the handle.
    """

    def __copy__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__}: it is memory of this process and can be neither copied nor "
            "pickled: make another"
        )


class Turn:
    """A ``with`` block of one thread at a time; a second thread is refused."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            raise RuntimeError(
                f"another thread advances these {self._what}: their steps have an order, which one "
                "thread gives"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _release(handle: int, pid: int) -> None:
    if _library is not None and pid == os.getpid():
        call("close", handle)
