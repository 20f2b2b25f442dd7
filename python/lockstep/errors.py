"""Exceptions. Each message is one line that says what is wrong, where, and what to do."""

from __future__ import annotations

__all__ = ["ClosedError", "RouteError", "SimulationError"]


class RouteError(ValueError):
    """A route file is not what a route must be.

    Attributes
    ----------
    file : str
        The file's path.
    line, column : int
        Where in the file, counted from 1 in bytes; 0 where the whole file is meant.
    """

    def __init__(self, message: str, file: str = "", line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column


class ClosedError(ValueError):
    """An object is used that has been closed, or whose simulator has."""


class SimulationError(RuntimeError):
    """A rollout, or the engine itself, failed."""
