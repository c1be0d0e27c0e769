"""Faults injected at random times of a replay: SIGKILL for the controller, a restart for slurmctld. Seeded.

The controller is started again at once, as by systemd. invariants.py counts violations afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tiresias.sandbox.replay.replay import Replay
from tiresias.sandbox.replay.replay_policies import MANAGED_POLICIES


@dataclass(frozen=True, slots=True)
class Faults:
    """Numbers of faults during the time in which jobs arrive."""

    kills: int = 0
    slurmctld_restarts: int = 0
    seed: int = 1

    def moments(self, seconds: float) -> list[tuple[float, Callable[[Replay], None]]]:
        """Return (seconds after the start, fault), the earliest last."""
        dice = random.Random(self.seed)
        faults = [_kill] * self.kills + [_restart_slurmctld] * self.slurmctld_restarts
        return sorted(((dice.uniform(0, seconds), fault) for fault in faults), key=lambda each: -each[0])


@dataclass(slots=True)
class Chaos:
    """Injects the faults of one replay."""

    replay: Replay
    trouble: Faults
    _moments: list[tuple[float, Callable[[Replay], None]]] = field(init=False)

    def __post_init__(self) -> None:
        span = max(job.submit_time for job in self.replay.jobs) / self.replay.options.time_scale
        self._moments = self.trouble.moments(span) if self.replay.policy in MANAGED_POLICIES else []

    def tick(self, elapsed: float) -> None:
        """Inject the faults that are due."""
        while self._moments and self._moments[-1][0] <= elapsed:
            self._moments.pop()[1](self.replay)


def _kill(replay: Replay) -> None:
    replay.kill_controller()
    replay.start_controller()


def _restart_slurmctld(replay: Replay) -> None:
    replay.cluster.restart_slurmctld()
