"""A PID controller, written by lockstep."""

try:
  from . import BaseController
except ImportError:  # outside of the challenge's folder
  BaseController = object

P, I, D = (0.0,) * 3


class Controller(BaseController):
  def __init__(self):
    self.integral = 0.0
    self.error = 0.0

  def update(self, target_lataccel, current_lataccel, state, future_plan):
    e = float(target_lataccel) - float(current_lataccel)
    self.integral += e
    d = e - self.error
    self.error = e
    return P * e + I * self.integral + D * d
