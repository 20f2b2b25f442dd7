"""Stable-Baselines3: many environments that are stepped by one call, as its algorithms want them.

>>> from lockstep.sb3 import VecEnv
>>> envs = VecEnv("lockstep/CartPole-v1", 64)                                  # doctest: +SKIP
>>> model = stable_baselines3.PPO("MlpPolicy", envs).learn(100_000)            # doctest: +SKIP

They answer what its ``DummyVecEnv`` of as many single environments answers, in every bit. Its own
``make_vec_env("lockstep/CartPole-v1")`` works, too, and calls one environment after the other.
``VecMonitor``, ``VecNormalize`` and ``VecVideoRecorder`` go around it as around any other.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from stable_baselines3.common.vec_env import VecEnv as Base

__all__ = ["VecEnv"]

Infos = list[dict[str, Any]]


class VecEnv(Base):  # type: ignore[misc] # where Stable-Baselines3 is not here to be looked into
    """A vector environment of this package, for Stable-Baselines3.

    Parameters
    ----------
    envs : str or gymnasium.vector.VectorEnv
        The environments' id, such as ``"lockstep/Controls-v0"``; or a vector with
        ``autoreset_mode="SameStep"``, which is how Stable-Baselines3 begins episodes.
    n_envs : int
        How many, with an id.
    **options
        What ``gymnasium.make_vec`` takes for these environments.
    """

    def __init__(
        self, envs: str | gymnasium.vector.VectorEnv[Any, Any, Any], n_envs: int = 1, **options: Any
    ) -> None:
        if isinstance(envs, str):
            if not envs.startswith("lockstep/"):
                raise ValueError(
                    f"{envs}: want an environment of this package, such as lockstep/CartPole-v1; "
                    "for others Stable-Baselines3 has make_vec_env"
                )
            how: dict[str, Any] = {
                "vectorization_mode": "vector_entry_point",  # never single ones in turn
                "autoreset_mode": AutoresetMode.SAME_STEP,
            }
            envs = gymnasium.make_vec(envs, num_envs=n_envs, **(how | options))
        elif not isinstance(envs, gymnasium.vector.VectorEnv):
            raise TypeError(
                f"envs: {type(envs).__name__}, want an id such as lockstep/CartPole-v1, or a "
                "vector environment"
            )
        elif options or n_envs not in (1, envs.num_envs):
            raise ValueError(f"{', '.join(options) or 'n_envs'}: the environments are made already")
        mode = envs.metadata.get("autoreset_mode")
        if mode is not AutoresetMode.SAME_STEP:
            raise ValueError(f'autoreset_mode: {mode}, want "SameStep"')
        self.envs = envs
        self._acting: Any = None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    def reset(self) -> npt.NDArray[Any]:
        """Begin all episodes, with the seeds of ``seed`` and the options of ``set_options``."""
        if any(options != self._options[0] for options in self._options):
            raise ValueError(
                "options: environments have different ones, and one call begins all: want one dict"
            )
        seeds: Any = self._seeds if any(s is not None for s in self._seeds) else None
        observations, infos = self.envs.reset(seed=seeds, options=self._options[0] or None)
        self.reset_infos = [_of(infos, i) for i in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return observations  # type: ignore[no-any-return]

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Keep the actions of the next step."""
        self._acting = actions

    def step_wait(
        self,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32], npt.NDArray[np.bool_], Infos]:
        """Compute a step. Of an episode that ends, the last observation is in ``infos``."""
        observations, rewards, terminated, truncated, told = self.envs.step(self._acting)
        ended, cut = terminated | truncated, truncated & ~terminated
        infos: Infos = [{"TimeLimit.truncated": c} for c in cut.tolist()]
        finals = told.pop("final_info", {})
        last = told.pop("final_obs", None)
        for i in map(int, np.flatnonzero(ended)):
            infos[i] = _of(finals, i) | infos[i] | {"terminal_observation": last[i]}
            self.reset_infos[i] = _of(told, i)
        return observations, rewards.astype(np.float32), ended, infos

    def close(self) -> None:
        """Free the environments."""
        self.envs.close()

    def get_images(self) -> Sequence[npt.NDArray[np.uint8] | None]:
        """A picture of each, if they were made with ``render_mode="rgb_array"``."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"the render mode is {self.render_mode}: pictures want 'rgb_array'", stacklevel=2
            )
            return [None] * self.num_envs
        pictures: Any = self.envs.render()
        return list(pictures)

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, which all environments have in common; ``state`` is that of each."""
        which = list(self._get_indices(indices))
        if attr_name == "state" and hasattr(self.envs, "states"):
            states = self.envs.states
            return [states[i] for i in which]
        return [getattr(self.envs, attr_name)] * len(which)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of all environments."""
        if sorted(self._get_indices(indices)) != list(range(self.num_envs)):
            raise ValueError(
                f"{attr_name}: the environments have it in common: set it for all of them"
            )
        setattr(self.envs, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Refused, but for ``render``: there are no single environments to call."""
        if method_name == "render":
            pictures = self.get_images()
            return [pictures[i] for i in self._get_indices(indices)]
        raise NotImplementedError(
            f"{method_name}: there are no single environments here: call a method of .envs"
        )

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Whether single environments have a wrapper: none has."""
        return [False for _ in self._get_indices(indices)]


def _of(infos: dict[str, Any], i: int) -> dict[str, Any]:
    """What a vector's infos say of environment i."""
    told = (key for key in infos if f"_{key}" in infos and infos[f"_{key}"][i])
    return {key: infos[key][i] for key in told}
