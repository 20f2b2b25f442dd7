"""What machines of histories share: calls in any order, counted by what comes after what."""

import functools
import itertools
import re

import numpy as np
import pytest
from conftest import REPOSITORY
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

# How many histories make sure that every call has come after every other.
MANY = 1000
CALLS = 32

_names = {}


def call(function):
    """A call of a machine, which it may make at any time. It draws what it needs by ``draw``."""

    @functools.wraps(function)
    def counted(self, data=None):
        if data is not None:  # else another call needs what this one opens
            self.data = data
            if self.before:
                self.pairs.add((self.before, function.__name__))
            self.before = function.__name__
        try:
            function(self)
        except BaseException:
            self.failed = True
            raise

    _names.setdefault(function.__qualname__.split(".")[0], []).append(function.__name__)
    return rule(data=st.data())(counted)


class History(RuleBasedStateMachine):
    """What was opened, and what is known of it; a subclass has the calls."""

    def __init__(self):
        super().__init__()
        self.before, self.data = "", None
        self.failed = False  # a call, whose error none of the end's may hide

    def draw(self, strategy, what):
        return self.data.draw(strategy, label=what)

    def integer(self, least, most, what):
        return self.draw(st.integers(least, most), what)

    def one(self, of, what):
        return of[self.integer(0, len(of) - 1, what)]

    def perhaps(self, what):
        return self.draw(st.booleans(), what)


def check(machine, number, each):
    """Make so many histories, whatever one call of each takes; of many, see that none is missing.

    One that fails is made smaller, printed, and kept in build/hypothesis, to be tried first.
    """
    machine.pairs = set()
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=max(1, round(number * each)),
            stateful_step_count=CALLS,
            deadline=None,
            database=DirectoryBasedExampleDatabase(REPOSITORY / "build" / "hypothesis"),
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            report_multiple_bugs=False,
        ),
    )
    names = _names[machine.__name__]
    missing = sorted(set(itertools.product(names, names)) - machine.pairs)
    print(f"{len(machine.pairs)} of {len(names) ** 2} pairs of calls, one after the other")
    assert number < MANY or not missing, f"no history has these, one after the other: {missing}"


def same(got, want, what):
    """Hold an array to another, bit by bit; name the first element that differs."""
    a, b = np.asarray(got), np.asarray(want)
    assert (a.dtype, a.shape) == (b.dtype, b.shape), (
        f"{what}: {a.dtype} {a.shape}, want {b.dtype} {b.shape}"
    )
    if a.tobytes() == b.tobytes():
        return
    for place in np.ndindex(a.shape):
        x, y = a[place], b[place]
        both_nan = a.dtype.kind == "f" and x != x and y != y  # of any bits
        assert both_nan or x.tobytes() == y.tobytes(), f"{what}{list(place)}: {x!r}, want {y!r}"


def refused(use, *kinds, match=""):
    """See that a call is refused with an error of one of these kinds."""
    with pytest.raises(kinds, match=re.escape(match) or None):
        use()
