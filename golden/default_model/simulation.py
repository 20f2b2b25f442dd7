"""A car of our own, from which the default model learns: it steers, it lags, it leans.

A bicycle model with a steering that is driven by torque. Per drive, at 100 Hz:

  motor torque    q' = (u - q) / TORQUE_LAG, at most TORQUE_RATE; u is the steer
                  command of 0.1 s before
  steering angle  d' = (GAIN (q + offset) - (y - roll) - CENTRING d) / DAMPING: the motor works
                  against the tyres' aligning torque, the centring spring and a damper
  steady turn     y_ss = GRIP sat(v^2 (d + UNDERSTEER roll) / (WHEELBASE + UNDERSTEER v^2) / GRIP)
                  + wind, with sat(x) = x / sqrt(1 + x^2)
  tyres           y' = (y_ss - y) / (TYRE_LAG + RELAXATION / (v + 2))

y is the lateral acceleration v * yaw rate, roll the part of gravity along a
banked road, both in m/s^2, positive to the right as the steer command is. At
standstill y is 0 whatever one steers. At 10 Hz y is measured with white noise
that grows with the speed. The offset is one number per drive, the wind an
Ornstein-Uhlenbeck process; a model can only infer both from the past.
"""

from dataclasses import dataclass

import numpy as np

STEP = 0.1  # s between measurements
SUBSTEPS = 10
GAIN = 2.1  # m/s^2 per unit of steer command in a fast steady turn
TORQUE_LAG = 0.08  # s
TORQUE_RATE = 5.0  # units of steer command per s
CENTRING = 11.0  # m/s^2 per rad
DAMPING = 16.0  # m/s^2 per rad/s
ANGLE_LIMIT = 0.6  # rad at the road wheels
ANGLE_RATE = 1.5  # rad/s
WHEELBASE = 2.7  # m
UNDERSTEER = 0.0025  # rad per m/s^2
GRIP = 9.0  # m/s^2
TYRE_LAG = 0.03  # s
RELAXATION = 0.4  # m
OFFSET = 0.08  # standard deviation, units of steer command
WIND = 0.06  # standard deviation at 25 m/s and above, m/s^2
WIND_TIME = 3.0  # s
NOISE_STILL = 0.0035  # standard deviation of the measurement at standstill, m/s^2
NOISE_SPEED = 0.001  # and what each m/s adds
STEER_LIMIT = 2.0  # the challenge's
LATACCEL_LIMIT = 5.0


def sat(x):
    return x / np.sqrt(1 + x * x)


@dataclass
class Car:
    """The state of many cars at once; every field is an array over the drives."""

    torque: np.ndarray
    angle: np.ndarray
    lataccel: np.ndarray
    offset: np.ndarray
    command: np.ndarray  # the last one, which works on the motor during the next step

    @classmethod
    def new(cls, drives, rng):
        zero = np.zeros(drives)
        return cls(zero, zero, zero, OFFSET * rng.standard_normal(drives), zero)

    def step(self, command, speed, roll, wind):
        """Drive 0.1 s; the command given here works in the next step."""
        dt = STEP / SUBSTEPS
        turn = speed * speed / (WHEELBASE + UNDERSTEER * speed * speed)
        lag = TYRE_LAG + RELAXATION / (speed + 2)
        for _ in range(SUBSTEPS):
            rate = np.clip((self.command - self.torque) / TORQUE_LAG, -TORQUE_RATE, TORQUE_RATE)
            self.torque = self.torque + dt * rate
            push = (
                GAIN * (self.torque + self.offset) - (self.lataccel - roll) - CENTRING * self.angle
            )
            rate = np.clip(push / DAMPING, -ANGLE_RATE, ANGLE_RATE)
            self.angle = np.clip(self.angle + dt * rate, -ANGLE_LIMIT, ANGLE_LIMIT)
            steady = GRIP * sat(turn * (self.angle + UNDERSTEER * roll) / GRIP) + wind
            self.lataccel = self.lataccel + dt * (steady - self.lataccel) / lag
        self.command = np.clip(command, -STEER_LIMIT, STEER_LIMIT)
        return self.lataccel


def noise(speed):
    """Standard deviation of the measured lateral acceleration."""
    return NOISE_STILL + NOISE_SPEED * speed


class Hold:
    """A value per drive that is drawn anew now and then."""

    def __init__(self, rng, seconds, draw, drives):
        self.rng, self.draw, self.chance = rng, draw, STEP / seconds
        self.value = draw(drives)

    def step(self):
        drives = len(self.value)
        fresh = self.draw(drives)
        self.value = np.where(self.rng.random(drives) < self.chance, fresh, self.value)
        return self.value


class Smooth:
    """Three first-order lags in a row."""

    def __init__(self, seconds, start):
        self.alpha = STEP / (STEP + seconds)
        self.stages = [start] * 3

    def step(self, x):
        for i, y in enumerate(self.stages):
            self.stages[i] = x = y + self.alpha * (x - y)
        return x


class Drift:
    """A stationary Ornstein-Uhlenbeck process of standard deviation 1."""

    def __init__(self, rng, seconds, drives):
        self.rng, self.keep = rng, 1 - STEP / np.broadcast_to(seconds, drives)
        self.value = rng.standard_normal(drives)

    def step(self):
        kick = self.rng.standard_normal(len(self.value)) * np.sqrt(1 - self.keep**2)
        self.value = self.keep * self.value + kick
        return self.value


DRIVERS = ("pid", "driver", "walk", "steps", "sine", "zero")
SHARES = (0.40, 0.22, 0.14, 0.12, 0.06, 0.06)


def simulate(seed, drives, steps):
    """Simulate varied driving.

    Returns float32 arrays (drives, steps): action, roll, speed, accel, lataccel
    (measured), mean (what would be measured without noise) and sigma (of that
    noise). Row i holds the action that is given at step i and the measurement at
    its end.
    """
    rng = np.random.default_rng(seed)
    car = Car.new(drives, rng)
    normal, uniform = rng.standard_normal, rng.uniform

    # Speed: a wanted speed that changes now and then, followed with a lag; one drive in eight
    # stops and goes.
    cruise = rng.choice([7.0, 13.0, 20.0, 30.0], drives, p=[0.18, 0.2, 0.22, 0.4])
    town = rng.random(drives) < 0.125
    wanted = Hold(
        rng,
        12.0,
        lambda n: np.where(
            town & (rng.random(n) < 0.45), 0.0, np.clip(cruise * (1 + 0.12 * normal(n)), 0, 42)
        ),
        drives,
    )
    speed, accel = wanted.value, np.zeros(drives)
    bumps = Drift(rng, 0.3, drives)

    # Road: crown and bank.
    crown = 0.02 + 0.02 * normal(drives)
    bank = Smooth(1.5, crown)
    banked = Hold(rng, 8.0, lambda n: 0.025 * normal(n), drives)

    # What the car is to do: a lateral acceleration that changes now and then, smoothly.
    size = np.where(rng.random(drives) < 0.15, 2.2, 0.3 + 0.5 * np.abs(normal(drives)))
    turn = Hold(rng, 5.0, lambda n: size * normal(n), drives)
    plan = Smooth(uniform(0.1, 0.8, drives), np.zeros(drives))
    wander = Drift(rng, 0.8, drives)

    # How it is steered.
    driver = Hold(rng, 15.0, lambda n: rng.choice(len(DRIVERS), n, p=SHARES), drives)
    p = 0.195 * np.exp(0.5 * normal(drives))
    i = 0.100 * np.exp(0.5 * normal(drives))
    d = -0.053 + 0.06 * normal(drives)
    integral, previous = np.zeros(drives), np.zeros(drives)
    walk = Drift(rng, uniform(0.3, 4.0, drives), drives)
    hold = Hold(rng, 2.0, lambda n: normal(n), drives)
    reach = np.minimum(0.1 + 0.45 * np.abs(normal(drives)), 2.0)
    wave, phase = uniform(0.5, 12.0, drives), uniform(0, 2 * np.pi, drives)
    fidget = Drift(rng, 0.4, drives)
    restless = 0.04 * rng.random(drives)

    wind = Drift(rng, WIND_TIME, drives)
    measured = np.zeros(drives)
    names = ("action", "roll", "speed", "accel", "lataccel", "mean", "sigma")
    out = {name: np.empty((steps, drives), np.float32) for name in names}
    for k in range(steps):
        goal = np.clip(0.6 * (wanted.step() - speed), -2.6, 1.8)
        accel = accel + STEP / 0.8 * (goal - accel)
        speed = speed + STEP * accel
        still = speed < 0.05
        stay = still & (wanted.value == 0)
        speed, accel = np.where(still, 0.0, speed), np.where(stay, 0.0, accel)
        shown_accel = np.where(stay, 0.0, accel + 0.08 * bumps.step())

        tilt = bank.step(crown + banked.step())
        roll = 9.81 * np.sin(tilt)

        top = np.minimum(4.8, 0.11 * speed * speed)
        target = np.clip(plan.step(turn.step()) + 0.04 * wander.step(), -top, top)

        # The PID adds up errors at every step, whoever drives, as the challenge's does.
        error = target - measured
        integral = np.clip(integral + error, -40, 40)
        choice = driver.step()
        before = integral
        pid = p * error + i * integral + d * (error - previous)
        previous = error
        ease = (target - roll) / GAIN + CENTRING / GAIN * target * (
            WHEELBASE / np.maximum(speed * speed, 9.0) + UNDERSTEER
        )
        action = np.select(
            [choice == n for n in range(len(DRIVERS))],
            [pid, ease + 0.25 * (target - measured) * (restless > 0.02) + restless * fidget.step(),
             reach * walk.step(), reach * hold.step(),
             reach * np.sin(2 * np.pi * k * STEP / wave + phase), np.zeros(drives)])  # fmt: skip
        # Whoever does not drive by PID keeps its integral where it would take over smoothly.
        integral = np.where(choice == 0, before, (action - p * error) / i)
        action = np.clip(action, -STEER_LIMIT, STEER_LIMIT)

        gust = WIND * np.minimum(1.0, (speed / 25) ** 2) * wind.step()
        mean = car.step(action, speed, roll, gust)
        sigma = noise(speed)
        measured = mean + sigma * normal(drives)
        for name, value in zip(names, (action, roll, speed, shown_accel, measured, mean, sigma)):
            out[name][k] = value
    return {name: np.ascontiguousarray(array.T) for name, array in out.items()}
