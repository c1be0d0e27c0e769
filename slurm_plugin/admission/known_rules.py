"""Slurm's rules as they were last read, and when they are read again."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import replace

from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.backends.slurm_rules import NO_USAGE, SlurmRules

log = logging.getLogger("tiresias")

RULES_S = 60.0  # interval between two reads
RULES_WHILE_BLOCKED_S = 10.0  # interval while a rule blocks a job although GPUs are free
RULES_BEFORE_PREEMPTION_S = 1.0  # maximum age of the rules for a preemption


class KnownRules:
    """The rules last read; they stay in force, with an alarm, while Slurm does not answer.

    Args:
        read: reads the rules from Slurm
        changed: called when a rule has changed; the use of a limit is no rule

    Attributes:
        rules: the rules last read
        blocks: whether a rule blocks a job although GPUs are free
    """

    def __init__(self, read: Callable[[], SlurmRules], changed: Callable[[], None]) -> None:

        self._read, self._changed = read, changed
        self._read_at, self._problem = -math.inf, ""
        self.rules = SlurmRules()
        self.blocks = False

    @property
    def _interval(self) -> float:
        return RULES_WHILE_BLOCKED_S if self.blocks else RULES_S

    def watch(self, blocks: bool) -> None:
        """Read the rules more often while one keeps a job pending besides free GPUs."""
        self.blocks = blocks

    @property
    def due(self) -> float:
        """Time at which the rules are read again."""
        return self._read_at + self._interval

    def refresh(self, now: float, age: float = math.inf) -> bool:
        """Read the rules if they are due, or older than `age` seconds; return whether they were read."""
        if 0 <= now - self._read_at < min(age, self._interval):
            return False
        self._read_at = now
        try:
            found, self._problem = self._read(), ""
        except SlurmUnavailable as error:
            self._problem = f"Slurm's limits and reservations could not be read: {error}; those read last stay in force"
            log.warning("%s", self._problem)
            return False
        if without_usage(found) != without_usage(self.rules):
            self._changed()
        self.rules = found
        return True

    @property
    def alarms(self) -> list[str]:
        """The problem of the last read, as a list of at most one line."""
        return [self._problem] if self._problem else []


def without_usage(rules: SlurmRules) -> SlurmRules:
    """Return the rules without their time and without the use of each limit."""
    return replace(
        rules,
        time=0.0,
        qos={name: replace(one, usage=NO_USAGE) for name, one in rules.qos.items()},
        associations={key: replace(one, usage=NO_USAGE) for key, one in rules.associations.items()},
        licenses={name: replace(one, used=0, free=0, reserved=0, deficit=0) for name, one in rules.licenses.items()},
        reservations=tuple(replace(one, state="") for one in rules.reservations),
    )
