"""A PID controller in Python, for benchmarks."""

from . import BaseController


class Controller(BaseController):
    def __init__(self):
        self.sum = self.before = 0

    def update(self, target_lataccel, current_lataccel, state, future_plan):
        e = target_lataccel - current_lataccel
        self.sum += e
        change, self.before = e - self.before, e
        return 0.195 * e + 0.1 * self.sum - 0.053 * change
