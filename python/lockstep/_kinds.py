# Made by internal/tables from lockstep.Kinds: run `make generate`.
"""The kinds of policies that have gains, and the names of these, in order."""

from __future__ import annotations

GAINS: dict[str, tuple[str, ...]] = {
    "pid": ("P", "I", "D"),
    "pidff": ("P", "I", "D", "ff0", "ff1", "ff2", "ff3", "ffv", "smooth", "leak"),
}
