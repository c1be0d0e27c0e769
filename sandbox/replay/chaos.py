"""Trouble on purpose, at random moments of a replay: SIGKILL for the controller, a restart for slurmctld. Seeded.

The controller is started again at once, as systemd would. What must hold afterwards is counted by invariants.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.setup import OURS


@dataclass(frozen=True, slots=True)
class Trouble:
    """How often over the time in which jobs arrive."""

    kills: int = 0
    slurmctld_restarts: int = 0
    seed: int = 1

    def moments(self, seconds: float) -> list[tuple[float, Callable[[Replay], None]]]:
        """(seconds after the start, what to do), the next one last."""
        dice = random.Random(self.seed)
        deeds = [_kill] * self.kills + [_restart_slurmctld] * self.slurmctld_restarts
        return sorted(((dice.uniform(0, seconds), deed) for deed in deeds), key=lambda each: -each[0])


@dataclass(slots=True)
class Chaos:
    replay: Replay
    trouble: Trouble
    _moments: list[tuple[float, Callable[[Replay], None]]] = field(init=False)

    def __post_init__(self) -> None:
        span = max(job.submit_time for job in self.replay.jobs) / self.replay.options.time_scale
        self._moments = self.trouble.moments(span) if self.replay.policy in OURS else []

    def tick(self, elapsed: float) -> None:
        """Do what is due."""
        while self._moments and self._moments[-1][0] <= elapsed:
            self._moments.pop()[1](self.replay)


def _kill(replay: Replay) -> None:
    replay.kill_controller()
    replay.start_controller()


def _restart_slurmctld(replay: Replay) -> None:
    replay.cluster.restart_slurmctld()
