"""Pictures of a drive: the road ahead, and target and lataccel so far. A window that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.rollouts import CONTROL_START_IDX, COST_END_IDX

__all__ = ["Window", "picture"]

FloatArray = npt.NDArray[np.float64]

DEL_T = 0.1
AHEAD = 50  # steps of the road that are drawn: the plan that a controller sees
LANE = 3.7  # m


def bend(lataccel: FloatArray, v_ego: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where a car comes to with such lateral accelerations: metres to the right, and ahead."""
    heading = np.cumsum(DEL_T * lataccel / np.maximum(v_ego, 1.0))
    right = np.cumsum(DEL_T * v_ego * np.sin(heading))
    return np.append(0.0, right), np.append(0.0, np.cumsum(DEL_T * v_ego * np.cos(heading)))


def picture(route: Any, lataccel: Sequence[float]) -> npt.NDArray[np.uint8]:
    """Draw a drive up to now, uint8 (240, 640, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(draw(route, lataccel))
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def draw(route: Any, lataccel: Sequence[float]) -> Any:
    """Return matplotlib's Figure of a drive up to now.

    To the left is the road as the car sees it: it bends as the target says, and the dashed line is
    where the car's present lataccel leads. To the right are target and lataccel from step 90 on.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 2.4), dpi=100, layout="constrained")
    road, axes = figure.subplots(1, 2, width_ratios=[1, 4])

    now = CONTROL_START_IDX + len(lataccel)
    v_ego = route.v_ego[now : now + AHEAD]
    present = lataccel[-1] if len(lataccel) else float(route.target_lataccel[now - 1])
    right, ahead = bend(route.target_lataccel[now : now + AHEAD], v_ego)
    road.fill_betweenx(ahead, right - LANE / 2, right + LANE / 2, color="0.85", linewidth=0)
    road.plot(right, ahead, color="tab:green")
    road.plot(*bend(np.full(len(v_ego), present), v_ego), color="tab:blue", linestyle="dashed")
    road.plot(0, 0, marker="^", color="tab:blue", markersize=8)
    road.set(xlim=(-15, 15), ylim=(-5, 5 + AHEAD * DEL_T * 35), xlabel="m", ylabel="m ahead")

    first, end = CONTROL_START_IDX - 10, min(len(route.target_lataccel), COST_END_IDX)
    target = route.target_lataccel[first:end]
    driven = (CONTROL_START_IDX + np.arange(len(lataccel))) / 10
    axes.plot(np.arange(first, end) / 10, target, color="tab:green", label="target")
    axes.plot(driven, lataccel, color="tab:blue", label="lataccel")
    axes.axvline(now / 10, color="0.7", linewidth=1)
    axes.set(xlim=(first / 10, end / 10), xlabel="s", ylabel="m/s²", title=route.name)
    axes.legend(loc="upper right")
    return figure


class Window:
    """A window of pygame's, as Gymnasium's environments open one."""

    def __init__(self, title: str, fps: int) -> None:
        import pygame

        self._pygame = pygame
        pygame.display.init()
        pygame.display.set_caption(title)
        self._clock, self._fps = pygame.time.Clock(), fps
        self._screen: Any = None

    def show(self, image: npt.NDArray[np.uint8]) -> None:
        """Show a picture, for as long as one lasts."""
        if self._screen is None:
            self._screen = self._pygame.display.set_mode(image.shape[1::-1])
        surface = self._pygame.surfarray.make_surface(image.swapaxes(0, 1))
        self._screen.blit(surface, (0, 0))
        self._pygame.event.pump()
        self._clock.tick(self._fps)
        self._pygame.display.flip()

    def close(self) -> None:
        """Close it."""
        self._pygame.display.quit()
