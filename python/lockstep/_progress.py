"""How far a call is: told to a function, or shown by a bar of tqdm's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Progress", "told"]

# A function of how much is done and of how much; tqdm's class or a bar of it; True for a bar.
Progress = Any


def told(progress: Progress) -> Callable[..., object] | None:
    """What is called with how much is done, and of how much, if that is known."""
    if progress is None or progress is False:
        return None
    if progress is True:
        from tqdm.auto import tqdm

        progress = tqdm
    if not hasattr(progress, "update"):
        if not callable(progress):
            raise TypeError(
                f"progress: {type(progress).__name__}, want True, a bar of tqdm's, or a function"
            )
        tell: Callable[..., object] = progress
        return tell
    made = isinstance(progress, type)
    bar = progress() if made else progress

    def show(done: int, total: int | None = None) -> None:
        if total is not None:
            bar.total = total
        bar.update(done - bar.n)
        if made and done == total:
            bar.close()

    return show
