"""A policy network, written by lockstep. It needs NumPy and ONNX Runtime alone.

The observation is float64, one rounding an operation, then cast; the mean of a Beta
distribution whose parameters the network gives is the change of the steer command.
"""

import base64
import math
import re

import numpy as np
import onnxruntime

try:
  from . import BaseController
except ImportError:  # outside of the challenge's folder
  BaseController = object

SCALE = 0.25
SEES = ""  # what is observed in the place of 256 numbers, such as target[0]-lataccel[-1]
MODEL = ""

FIRST_CALL, CONTROL_START = 20, 100  # steps
HISTORY, PLAN = 20, 50
F32 = np.float32

PLACE, NUMBER = r"([a-z]+)\[(-?\d+)\]", r"([-+]?[0-9.]+(?:e[-+]?\d+)?)"
SEEN = re.compile(f"{PLACE}(?:-{PLACE})?(?:-{NUMBER})?(?:/{NUMBER})?")
SEEN = [SEEN.fullmatch(text).groups() for text in SEES.split()]


def exp(x):
  k = (x * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0
  r = (x - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
  p = 1 / math.factorial(13)
  for n in range(12, -1, -1):
    p = p * r + 1 / math.factorial(n)
  return math.ldexp(p, int(k))


def softplus(x):
  """log(1 + e^x) of a float32, correctly rounded."""
  z = float(x)
  t = exp(-min(abs(z), 700.0))
  s = t / (2 + t)
  q = s * s
  p = 2 / 35
  for n in range(33, 0, -2):
    p = p * q + 2 / n
  l = s * p
  return float(F32(z + l if z > 0 else l))


def session():
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = 1
  options.inter_op_num_threads = 1
  options.log_severity_level = 3
  return onnxruntime.InferenceSession(base64.b64decode(MODEL), options, ["CPUExecutionProvider"])


class Controller(BaseController):
  def __init__(self):
    self.network = session()
    self.step = FIRST_CALL - 1
    self.lataccels = [0.0]  # that of step t - 1 is the last one at step t
    self.targets = []  # that of step t is the last one
    self.actions = [0.0] * HISTORY
    self.past = {name: [] for name in ("lataccel", "action", "target", "roll", "v", "a")}

  def update(self, target_lataccel, current_lataccel, state, future_plan):
    self.step += 1
    self.targets = [*self.targets[-HISTORY:], float(target_lataccel)]
    self.lataccels = [*self.lataccels[-HISTORY:], float(current_lataccel)]
    if SEEN:
      self.past["lataccel"].append(float(current_lataccel))
      self.past["target"].append(float(target_lataccel))
      self.past["roll"].append(float(state.roll_lataccel))
      self.past["v"].append(float(state.v_ego))
      self.past["a"].append(float(state.a_ego))
    if self.step < CONTROL_START:
      if SEEN:
        self.past["action"].append(0.0)
      return 0.0
    x = self.seen(state, future_plan) if SEEN else self.observation(state, future_plan)
    logits = self.network.run(None, {"obs": x[None]})[0][0]
    a, b = 1 + softplus(logits[0]), 1 + softplus(logits[1])
    self.raw = 2 * a / (a + b) - 1
    change = min(max(self.raw * SCALE, -0.5), 0.5)
    action = min(max(self.actions[-1] + change, -2.0), 2.0)
    self.actions = [*self.actions[1:], action]
    if SEEN:
      self.past["action"].append(action)
    return action

  def seen(self, state, future_plan):
    plans = {"target": future_plan.lataccel, "roll": future_plan.roll_lataccel}
    plans |= {"v": future_plan.v_ego, "a": future_plan.a_ego}
    elements = None

    def value(name, at):
      nonlocal elements
      at = int(at)
      if name == "observation":
        elements = self.observation(state, future_plan) if elements is None else elements
        return float(elements[at])
      if name in ("lataccel", "action"):
        return self.past[name][at]
      if at <= 0:
        return self.past[name][at - 1]
      plan = plans[name]
      return float(plan[min(at, len(plan)) - 1]) if len(plan) else self.past[name][-1]

    x = []
    for name, at, less, less_at, shift, unit in SEEN:
      y = value(name, at)
      if less is not None:
        y -= value(less, less_at)
      x.append((y - float(shift or 0)) / float(unit or 1))
    return np.clip(np.array(x, np.float64).astype(F32), F32(-5), F32(5))

  def observation(self, state, future_plan):
    target, cur, prev = self.targets[-1], self.lataccels[-1], self.lataccels[-2]
    roll, v, a = float(state.roll_lataccel), float(state.v_ego), float(state.a_ego)
    u1, u2 = self.actions[-1], self.actions[-2]
    nxt = float(future_plan.lataccel[0]) if len(future_plan.lataccel) else target
    vv = v * v if v * v > 1 else 1.0
    kt, kc = (target - roll) / vv, (cur - roll) / vv
    e = [t - l for t, l in zip(self.targets[-20:], self.lataccels[-20:], strict=True)]
    r = [e[j] + e[8 + j] for j in range(8)]
    m = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for x in e[16:]:
      m += x
    ei = m / 20 * 0.1
    g = math.sqrt(cur * cur + a * a) / 7
    head = [
      target / 5, cur / 5, (target - cur) / 5,
      kt / 0.02, kc / 0.02, (kt - kc) / 0.02,
      v / 40, a / 4, roll / 2,
      u1 / 2, ei / 5,
      (nxt - target) / 0.1 / 5, (cur - prev) / 0.1 / 5, (u1 - u2) / 0.1 / 2,
      g, max(1 - g, 0.0),
    ]
    parts = [
      np.array(head, np.float64).astype(F32),
      np.array(self.actions, np.float64).astype(F32) / F32(2),
      np.array(self.lataccels[:HISTORY], np.float64).astype(F32) / F32(5),
    ]
    plans = future_plan.lataccel, future_plan.roll_lataccel, future_plan.v_ego, future_plan.a_ego
    for plan, now, scale in zip(plans, (target, roll, v, a), (5, 2, 40, 4), strict=True):
      rows = [float(x) for x in plan] or [now]
      rows += [rows[-1]] * (PLAN - len(rows))
      parts.append(np.array(rows, np.float64).astype(F32) / F32(scale))
    return np.clip(np.concatenate(parts), F32(-5), F32(5))
