"""The library: loading it, calling it, and its errors. See python/native for its other side.

It is loaded when it is first used, not on import, so that a program may import
the package, fork, and use it in the children.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
_forked = False


def _after_fork() -> None:
    global _forked, _loading
    _forked = _library is not None
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _file() -> Path:
    suffix = {"darwin": ".dylib", "win32": ".dll"}.get(sys.platform, ".so")
    return Path(__file__).with_name("liblockstep" + suffix)


def _load() -> ctypes.CDLL:
    path = _file()
    if not path.exists():
        raise ImportError(f"{path}: the library is not built: run pip install . in the repository")
    lib = ctypes.CDLL(str(path))
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
    ]:
        function = getattr(lib, "lockstep_" + name)
        function.restype, function.argtypes = result, arguments
    version = _text(lib, lib.lockstep_version())
    if version != __version__:
        raise ImportError(f"{path}: built for lockstep {version}, this is {__version__}: run pip install . again")
    return lib


def _text(lib: ctypes.CDLL, address: int) -> str:
    """The text at an address, which is freed."""
    text = ctypes.string_at(address).decode()
    lib.lockstep_free(address)
    return text


def check_fork() -> None:
    """Refuse to go on in a process that was forked after the library was used."""
    if _forked:
        raise RuntimeError(
            "this process was forked after lockstep was used, and threads do not survive a fork: "
            'use the start method "spawn" or "forkserver", or use lockstep after the fork only'
        )


def library() -> ctypes.CDLL:
    """The library, loaded by the first call."""
    global _library
    check_fork()
    if _library is None:
        with _loading:
            if _library is None:
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
    address, size = (None, 0) if buffer is None else (buffer.ctypes.data, buffer.nbytes)
    try:
        text = json.dumps(request, allow_nan=False)
    except ValueError:
        raise ValueError(f"{name}: a number that is not finite") from None
    return name.encode(), handle, text.encode(), address, size


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
        return RouteError(message, failure.get("file", ""), failure.get("line", 0), failure.get("column", 0))
    return _EXCEPTIONS[failure["type"]](message)


class Handle:
    """An object of the library's, freed when it is closed or garbage."""

    def __init__(self, handle: int, what: str) -> None:
        self._handle = handle
        self._what = what
        self._finalizer = weakref.finalize(self, _release, handle, os.getpid())

    @property
    def id(self) -> int:
        """The number that the library knows it by."""
        if not self._finalizer.alive:
            raise ClosedError(f"the {self._what} has been closed")
        return self._handle

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


def _release(handle: int, pid: int) -> None:
    if _library is not None and pid == os.getpid():
        call("close", handle)
