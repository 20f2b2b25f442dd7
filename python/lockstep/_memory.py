"""What is refused before it is begun, since no machine like this one could hold it."""

from __future__ import annotations

import os


def check(what: str, size: int) -> None:
    """Raise MemoryError if so many bytes are more than the machine has.

    The library's memory must be asked for here: where there is not enough, the library ends the
    process.
    """
    try:
        here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not say
        return
    if size > here:
        raise MemoryError(
            f"{what} take {size / 1e9:,.0f} GB, and this machine has {here / 1e9:,.0f}: take fewer "
            "at a time"
        )
