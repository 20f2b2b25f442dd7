"""The environments' names at Gymnasium, as soon as somebody imports that: it takes a second."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# The steps of an episode, and the return at which the task counts as solved.
LIMITS = {
    "CartPole-v1": (500, 475.0),
    "MountainCar-v0": (200, -110.0),
    "MountainCarContinuous-v0": (999, 90.0),
    "Pendulum-v1": (200, None),
    "Acrobot-v1": (500, -100.0),
}


def register() -> None:
    """Register all environments."""
    import gymnasium

    gymnasium.register(
        id="lockstep/Controls-v0",
        entry_point="lockstep.envs:Env",
        vector_entry_point="lockstep.envs:VectorEnv",
    )
    for name, (limit, solved) in LIMITS.items():
        gymnasium.register(
            id=f"lockstep/{name}",
            entry_point="lockstep.classic:Env",
            vector_entry_point="lockstep.classic:VectorEnv",
            max_episode_steps=limit,
            reward_threshold=solved,
            kwargs={"name": name},
        )
    gymnasium.register(
        id="lockstep/CartPoleVectorEnv-v1",
        vector_entry_point="lockstep.classic:VectorEnv",
        max_episode_steps=500,
        reward_threshold=475.0,
        kwargs={"name": "CartPoleVectorEnv"},
    )


class _Finder(MetaPathFinder):
    """Finds Gymnasium once, and registers the environments when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                register()

            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def when_imported() -> None:
    """Register now if Gymnasium is imported, else when it is."""
    if "gymnasium" in sys.modules:
        register()
    else:
        sys.meta_path.insert(0, _Finder())
