"""Print the machine, the hash of a few rollouts of the routes in a folder, and their mean costs."""

import platform
import sys

import lockstep

sim = lockstep.Simulator(engine="batched", model="own", profile="ort1.30-avx2-expU-sinfma-csvexact")
result = sim.rollout(sim.load(sys.argv[1]), ["pid", "zero"])
print(platform.machine(), result.sha256, result.mean.tolist())
