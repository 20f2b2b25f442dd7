"""A controller for tests: it looks at everything that it is given, with numpy in it.

Its arithmetic is correctly rounded operations, sums and np.mean only, which
give the same bits on every CPU.
"""

import numpy as np

from . import BaseController


class Controller(BaseController):
    def __init__(self):
        self.errors = np.zeros(8)
        self.integral = 0
        self.last = None

    def update(self, target_lataccel, current_lataccel, state, future_plan):
        roll, v_ego, a_ego = state
        error = target_lataccel - current_lataccel
        self.errors = np.append(self.errors[1:], error)
        self.integral = np.clip(self.integral + error, -20, 20)

        preview = [target_lataccel, *future_plan.lataccel[:6]]
        ahead = np.mean(preview)
        if future_plan.v_ego:
            slowing = np.array(future_plan.v_ego[:10]) - v_ego
            ahead = ahead + 0.002 * slowing.mean() * sum(future_plan.roll_lataccel[-3:])
            ahead = ahead - 0.001 * np.median(future_plan.a_ego) * a_ego
        smooth = np.sqrt(np.mean(self.errors**2)) * np.sign(error)
        gain = np.float64(1) / (1 + np.maximum(v_ego, 0) / 30)
        steer = 0.28 * gain * (ahead - 0.6 * roll) + 0.07 * self.integral + 0.09 * error + 0.02 * smooth
        if self.last is not None:
            steer = 0.8 * steer + 0.2 * self.last
        self.last = steer
        return steer
