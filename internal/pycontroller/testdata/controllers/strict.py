"""A controller for tests: it raises an exception unless it is given the very types that the program gives.

It returns a number of another type from step to step.
"""

import fractions

import numpy as np

from controllers import BaseController

ANSWERS = [
    float, np.float64, np.float32, np.float16, np.array, lambda x: int(round(x)), lambda x: np.int64(round(x)),
    lambda x: np.uint8(abs(round(x))), bool, np.bool_, fractions.Fraction, lambda x: np.float64("inf"), lambda x: -0.0,
    lambda x: 10**400,
]


class Controller(BaseController):
    def __init__(self):
        self.step = 20
        self.length = 49

    def update(self, *arguments, **named):
        assert len(arguments) == 3 and list(named) == ["future_plan"], (arguments, named)
        target, current, state = arguments
        plan = named["future_plan"]
        for x in (target, current, *state):
            assert type(x) is np.float64, type(x)
        assert isinstance(state, tuple) and type(state).__name__ == "State", type(state)
        assert state._fields == ("roll_lataccel", "v_ego", "a_ego"), state
        assert state == (state.roll_lataccel, state.v_ego, state.a_ego)
        assert isinstance(plan, tuple) and type(plan).__name__ == "FuturePlan", type(plan)
        assert plan._fields == ("lataccel", "roll_lataccel", "v_ego", "a_ego"), plan
        assert list(plan._asdict()) == list(plan._fields)
        n = len(plan.lataccel)
        assert n in ((49, 48) if self.length == 49 else (self.length - 1,)), n
        self.length = n
        for column in plan:
            assert type(column) is list and len(column) == n and all(type(x) is float for x in column), column
            column.clear()  # the next step has lists of its own
        with np.errstate(divide="ignore"):
            assert np.isinf(np.float64(1) / (target - target))  # a float would raise an exception
        answer = None  # nobody looks at it
        if self.step >= 100:
            answer = ANSWERS[self.step % len(ANSWERS)](0.3 * (target - current))
        self.step += 1
        return answer
