"""A plugin of pytest: Hypothesis ends with the first failure, which it would make smaller for
minutes: a mutant is killed by it as it is."""

from hypothesis import Phase, settings

settings.register_profile("unshrunk", phases=[Phase.explicit, Phase.reuse, Phase.generate])
settings.load_profile("unshrunk")
