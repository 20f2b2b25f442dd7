"""A PID controller with feed-forward, written by lockstep. One rounding an operation, in this order."""

try:
  from . import BaseController
except ImportError:  # outside of the challenge's folder
  BaseController = object

P, I, D, FF0, FF1, FF2, FF3, FFV, SMOOTH, LEAK = (0.0,) * 10


class Controller(BaseController):
  def __init__(self):
    self.integral = 0.0
    self.error = 0.0
    self.command = 0.0

  def update(self, target_lataccel, current_lataccel, state, future_plan):
    target = float(target_lataccel)
    e = target - float(current_lataccel)
    self.integral = self.integral * (1 - LEAK) + e
    d = e - self.error
    self.error = e

    ff = FF0 * (target - float(state.roll_lataccel))
    plan = future_plan.lataccel
    for gain, first, end in ((FF1, 0, 3), (FF2, 3, 8), (FF3, 8, 16)):
      rows = plan[first:end]
      if len(rows):
        total = 0.0
        for x in rows:
          total += float(x)
        ff += gain * (total / len(rows) - target)
    ff *= 1 + FFV * (20 / max(float(state.v_ego), 5.0) - 1)

    u = P * e + I * self.integral + D * d + ff
    u = self.command + (1 - SMOOTH) * (u - self.command)
    self.command = min(max(u, -2.0), 2.0)
    return self.command
