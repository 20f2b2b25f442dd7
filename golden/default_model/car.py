#!/usr/bin/env python3
"""Print a drive of the simulated car as hexadecimal floats, one step a line: steer
command, speed, roll, wind, and then torque, angle and lateral acceleration.

  car.py > ../../internal/generate/testdata/car.txt    package generate is held to it bit for bit
"""

import numpy as np
from simulation import Car

rng = np.random.default_rng(7)
car = Car.new(1, rng)
print("offset", car.offset[0].hex())
speed = 0.0
for step in range(160):
    speed = max(0.0, speed + rng.normal(0.3, 0.5)) if step >= 5 else 0.0
    command = rng.normal(0, 0.3 if step < 80 else 3)
    inputs = [command, speed, rng.normal(0, 0.5), rng.normal(0, 0.05)]
    car.step(*(np.array([x]) for x in inputs))
    state = [x[0] for x in (car.torque, car.angle, car.lataccel)]
    print(*(float(x).hex() for x in inputs + state))
