"""Environments, functions and policies that another process can import."""

import os
import signal
import threading
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Text

WALK, HANG, RAISE, EXIT, CRASH, LOCK = range(6)  # what the actions of `Trouble` do
SLOW_SEEDS = 5  # every fifth seed hangs in the reset of `Trouble`

made = []  # the environments that `walk` has made in this process


class Walk(gymnasium.Env):
    """Cells 1 to 5; action 3 walks left and action 4 right, or the other way with probability 0.2; 5 is the end."""

    observation_space = Discrete(5, start=1)
    action_space = Discrete(2, start=3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = int(self.np_random.integers(1, 4))
        return self.cell, {}

    def step(self, action):
        move = 2 * (action == 4) - 1
        self.cell = max(1, self.cell + (move if self.np_random.random() < 0.8 else -move))
        return self.cell, self.np_random.random(), self.cell == 5, False, {"noise": self.np_random.normal()}


class Slow(Walk):
    """It lets other threads run in the middle of an episode."""

    def step(self, action):
        time.sleep(0.001)
        return super().step(action)


class Trouble(gymnasium.Env):
    """One cell after the other, and every kind of trouble on demand."""

    observation_space = Discrete(9)
    action_space = Discrete(6)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        if seed is not None and seed % SLOW_SEEDS == 0:
            time.sleep(1000)
        return 0, {}

    def step(self, action):
        if action == HANG:
            while True:
                pass
        if action == RAISE:
            raise KeyError("missing")
        if action == EXIT:
            os._exit(7)
        if action == CRASH:
            os.kill(os.getpid(), signal.SIGSEGV)
        self.cell += 1
        return self.cell, 1.0, False, False, {"lock": threading.Lock()} if action == LOCK else {}


class Unwilling(gymnasium.Env):
    """It cannot be made."""

    def __init__(self):
        raise FileNotFoundError("no map")


class Deadly(gymnasium.Env):
    """Making it ends the process."""

    def __init__(self):
        os._exit(5)


def walk():
    made.append(Walk())
    return made[-1]


def nothing():
    return 3


def noise(step):
    return step.info["noise"]


def right(obs, action, next_obs, info):
    return next_obs > obs


def coarse(obs):
    return obs // 3


def threads():
    """What a process is told about threads."""
    return {name: os.environ.get(name) for name in ("NPROC", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class Rooms(gymnasium.Env):
    """Five rooms in a row, shown as dictionaries; 1 goes on, or slips back in a sixth of all steps, to a prize."""

    observation_space = Dict({"name": Text(6), "doors": Box(0, 255, (2,), np.uint8)})
    action_space = Discrete(2)
    names = "hall", "stairs", "attic", "roof", "tower"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.room = int(self.np_random.integers(0, 2))
        return self.show(), {}

    def step(self, action):
        forward = action == 1 and self.np_random.random() < 5 / 6
        self.room = min(4, self.room + 1) if forward else max(0, self.room - 1)
        return self.show(), np.array([self.room == 4, action], dtype=np.float32), self.room == 4, False, {}

    def show(self):
        return {"name": self.names[self.room], "doors": np.array([self.room, 4 - self.room], dtype=np.uint8)}


def name_room(observation):
    """A state of `Rooms` that is no number."""
    return observation["name"], 1
