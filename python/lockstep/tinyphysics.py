"""The names of the challenge's ``tinyphysics.py``: a program written for it runs by another import.

Signatures, order of calls, histories and returns are those of commaai/controls_challenge at
be8edfa, and so are all bits. Its other dependencies are not needed; ``TinyPhysicsSimulator.data``
is a pandas.DataFrame and needs that. Controllers, and subclasses that override single methods, work
as they are. With ``debug`` steps are printed, but not drawn.

What scores many routes is faster with :meth:`lockstep.Simulator.rollout`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np
import numpy.typing as npt

from lockstep.simulator import COLUMNS, Simulator

__all__ = [
    "BaseController",
    "FuturePlan",
    "LataccelTokenizer",
    "State",
    "TinyPhysicsModel",
    "TinyPhysicsSimulator",
    "get_available_controllers",
    "run_rollout",
]

ACC_G = 9.81
FPS = 10
CONTROL_START_IDX = 100
COST_END_IDX = 500
CONTEXT_LENGTH = 20
VOCAB_SIZE = 1024
LATACCEL_RANGE = [-5, 5]
STEER_RANGE = [-2, 2]
MAX_ACC_DELTA = 0.5
DEL_T = 0.1
LAT_ACCEL_COST_MULTIPLIER = 50.0
FUTURE_PLAN_STEPS = FPS * 5

TEMPERATURE = 0.8


class State(NamedTuple):
    """The vehicle at one step: m/s², m/s, m/s²."""

    roll_lataccel: float
    v_ego: float
    a_ego: float


class FuturePlan(NamedTuple):
    """What the route holds for the next steps, at most 49."""

    lataccel: list[float]
    roll_lataccel: list[float]
    v_ego: list[float]
    a_ego: list[float]


class BaseController:
    """What steers: ``update`` returns the steer command of a step."""

    def update(self, target_lataccel: float, current_lataccel: float, state: State, future_plan: FuturePlan) -> float:
        """Return the steer command; the simulator clips it to ±2."""
        raise NotImplementedError


class LataccelTokenizer:
    """1,024 bins from -5 to 5 m/s²."""

    def __init__(self) -> None:
        self.vocab_size = VOCAB_SIZE
        self.bins = np.linspace(LATACCEL_RANGE[0], LATACCEL_RANGE[1], self.vocab_size)

    def encode(self, value: npt.ArrayLike) -> Any:
        """Return the index of the first bin that is not below."""
        return np.digitize(self.clip(value), self.bins, right=True)

    def decode(self, token: Any) -> Any:
        """Return the bin."""
        return self.bins[token]

    def clip(self, value: npt.ArrayLike) -> Any:
        """Return the nearest value between the first bin and the last."""
        return np.clip(value, LATACCEL_RANGE[0], LATACCEL_RANGE[1])


class TinyPhysicsModel:
    """The network, sampled with NumPy's global generator as in the challenge's program.

    Parameters
    ----------
    model_path : path-like
        The ONNX file.
    debug : bool
        Taken for the sake of the signature.
    **simulator
        Engine and profile, as :class:`lockstep.Simulator` has them.
    """

    def __init__(self, model_path: Union[str, os.PathLike[str]], debug: bool = False, **simulator: Any) -> None:
        self.tokenizer = LataccelTokenizer()
        self.simulator = Simulator(**{"engine": "reference", "model": model_path, "workers": 1} | simulator)
        self._buffer = np.zeros((5 * CONTEXT_LENGTH + 2,))

    def _predict(self, actions: Any, states: Any, lataccels: Any) -> float:
        buffer, n = self._buffer, CONTEXT_LENGTH
        buffer[:n] = actions
        buffer[n : 4 * n] = np.asarray(states, dtype=np.float64).reshape(n, 3).T.ravel()
        buffer[4 * n : 5 * n] = lataccels
        buffer[5 * n] = np.random.random_sample()  # noqa: NPY002 the program draws here, too
        self.simulator._handle.call("predict", buffer)
        return float(buffer[-1])

    def predict(self, input_data: dict[str, Any], temperature: float = 1.0) -> int:
        """Return a token for ``states`` (1, 20, 4) and ``tokens`` (1, 20), at temperature 0.8 alone."""
        if temperature != TEMPERATURE:
            raise ValueError(f"temperature={temperature}: want {TEMPERATURE}, at which the program samples")
        rows = np.asarray(input_data["states"], dtype=np.float64)[0]
        lataccels = self.tokenizer.decode(np.asarray(input_data["tokens"])[0])
        return int(self.tokenizer.encode(self._predict(rows[:, 0], rows[:, 1:], lataccels)))

    def get_current_lataccel(self, sim_states: list[State], actions: list[float], past_preds: list[float]) -> float:
        """Return a sampled lataccel for the last 20 steps, m/s²."""
        return self.tokenizer.bins.dtype.type(self._predict(actions, sim_states, past_preds))


class TinyPhysicsSimulator:
    """One rollout, with the challenge's attributes and methods.

    Parameters
    ----------
    model : TinyPhysicsModel
        The network.
    data_path : path-like
        The route's file; its text seeds the draws.
    controller : BaseController
        What steers.
    debug : bool
        Print every tenth step.
    """

    def __init__(
        self,
        model: TinyPhysicsModel,
        data_path: Union[str, os.PathLike[str]],
        controller: Any,
        debug: bool = False,
    ) -> None:
        self.data_path = data_path
        self.sim_model = model
        self.data = self.get_data(data_path)
        self.controller = controller
        self.debug = debug
        self.reset()

    def get_data(self, data_path: Union[str, os.PathLike[str]]) -> Any:
        """Return the route's columns: a pandas.DataFrame."""
        import pandas as pd

        route = self.sim_model.simulator.load(data_path, cache=False)[0]
        return pd.DataFrame({name: getattr(route, name) for name in COLUMNS})

    def reset(self) -> None:
        """Go back to step 20."""
        self.columns = {name: np.asarray(self.data[name]) for name in COLUMNS}
        self.step_idx = CONTEXT_LENGTH
        past = [self.get_state_target_futureplan(i) for i in range(self.step_idx)]
        self.state_history = [state for state, _, _ in past]
        self.action_history: list[float] = self.columns["steer_command"][: self.step_idx].tolist()
        self.current_lataccel_history = [target for _, target, _ in past]
        self.target_lataccel_history = [target for _, target, _ in past]
        self.target_future = None
        self.current_lataccel = self.current_lataccel_history[-1]
        digest = hashlib.md5(str(self.data_path).encode(), usedforsecurity=False).hexdigest()
        np.random.seed(int(digest, 16) % 10**4)  # noqa: NPY002 the program's generator

    def get_state_target_futureplan(self, step_idx: int) -> tuple[State, float, FuturePlan]:
        """Return state, target and plan at a step."""
        c, later = self.columns, slice(step_idx + 1, step_idx + FUTURE_PLAN_STEPS)
        return (
            State(c["roll_lataccel"][step_idx], c["v_ego"][step_idx], c["a_ego"][step_idx]),
            c["target_lataccel"][step_idx],
            FuturePlan(
                lataccel=c["target_lataccel"][later].tolist(),
                roll_lataccel=c["roll_lataccel"][later].tolist(),
                v_ego=c["v_ego"][later].tolist(),
                a_ego=c["a_ego"][later].tolist(),
            ),
        )

    def control_step(self, step_idx: int) -> None:
        """Ask the controller; before step 100 the recorded command counts."""
        action = self.controller.update(
            self.target_lataccel_history[step_idx],
            self.current_lataccel,
            self.state_history[step_idx],
            future_plan=self.futureplan,
        )
        if step_idx < CONTROL_START_IDX:
            action = self.columns["steer_command"][step_idx]
        self.action_history.append(np.clip(action, STEER_RANGE[0], STEER_RANGE[1]))

    def sim_step(self, step_idx: int) -> None:
        """Ask the network; before step 100 the target is followed."""
        pred = self.sim_model.get_current_lataccel(
            sim_states=self.state_history[-CONTEXT_LENGTH:],
            actions=self.action_history[-CONTEXT_LENGTH:],
            past_preds=self.current_lataccel_history[-CONTEXT_LENGTH:],
        )
        low, high = self.current_lataccel - MAX_ACC_DELTA, self.current_lataccel + MAX_ACC_DELTA
        if step_idx >= CONTROL_START_IDX:
            self.current_lataccel = np.clip(pred, low, high)
        else:
            self.current_lataccel = self.get_state_target_futureplan(step_idx)[1]
        self.current_lataccel_history.append(self.current_lataccel)

    def step(self) -> None:
        """Compute one step."""
        state, target, self.futureplan = self.get_state_target_futureplan(self.step_idx)
        self.state_history.append(state)
        self.target_lataccel_history.append(target)
        self.control_step(self.step_idx)
        self.sim_step(self.step_idx)
        self.step_idx += 1

    def compute_cost(self) -> dict[str, float]:
        """Return ``lataccel_cost``, ``jerk_cost`` and ``total_cost`` of steps 100 to 499."""
        target = np.array(self.target_lataccel_history)[CONTROL_START_IDX:COST_END_IDX]
        pred = np.array(self.current_lataccel_history)[CONTROL_START_IDX:COST_END_IDX]
        lat_accel_cost = np.mean((target - pred) ** 2) * 100
        jerk_cost = np.mean((np.diff(pred) / DEL_T) ** 2) * 100
        return {
            "lataccel_cost": lat_accel_cost,
            "jerk_cost": jerk_cost,
            "total_cost": (lat_accel_cost * LAT_ACCEL_COST_MULTIPLIER) + jerk_cost,
        }

    def rollout(self) -> dict[str, float]:
        """Compute all steps and return the costs."""
        for _ in range(CONTEXT_LENGTH, len(self.data)):
            self.step()
            if self.debug and self.step_idx % 10 == 0:
                target = self.target_lataccel_history[-1]
                print(f"Step {self.step_idx}: lataccel {self.current_lataccel:.2f}, target {target:.2f}")
        return self.compute_cost()


def get_available_controllers() -> list[str]:
    """Return the names of the controllers in ./controllers."""
    return [f.stem for f in Path("controllers").iterdir() if f.suffix == ".py" and f.stem != "__init__"]


def run_rollout(
    data_path: Union[str, os.PathLike[str]],
    controller_type: str,
    model_path: Union[str, os.PathLike[str]],
    debug: bool = False,
) -> tuple[dict[str, float], list[float], list[float]]:
    """Roll out one route with the controller ``controllers.<controller_type>``.

    Returns
    -------
    tuple
        Costs, target lataccels, lataccels.
    """
    model = TinyPhysicsModel(model_path, debug=debug)
    controller = importlib.import_module(f"controllers.{controller_type}").Controller()
    sim = TinyPhysicsSimulator(model, str(data_path), controller=controller, debug=debug)
    return sim.rollout(), sim.target_lataccel_history, sim.current_lataccel_history
