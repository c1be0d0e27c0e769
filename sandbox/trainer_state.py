"""The trainer's state: a few numbers that depend on every iteration, and their bytes in a checkpoint.

Stochastic gradient descent with momentum on w^2, with noise from a 64-bit congruential generator (Knuth's MMIX constants).
`curve` is a running hash (FNV-1a) of the losses of all iterations: two runs with the same value had the same losses in the
same order.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

from tiresias.errors import TiresiasError

MASK = (1 << 64) - 1


class DamagedState(TiresiasError):
    """A verified checkpoint of another program: another job, or payload and numbers of different times."""


class TrainerState:
    """The state after `step` iterations. Not a dataclass, because sixty trainers that start at once would all import that
    module.
    """

    def __init__(
        self,
        job: str,
        step: int = 0,
        noise: int = 0,
        weight: float = 1.0,
        momentum: float = 0.0,
        curve: int = 0xCBF29CE484222325,
    ) -> None:
        self.job, self.step, self.noise, self.weight, self.momentum, self.curve = (
            job,
            step,
            noise,
            weight,
            momentum,
            curve,
        )

    @property
    def numbers(self) -> dict[str, Any]:
        """The state as a dictionary."""
        return dict(vars(self))

    @classmethod
    def fresh(cls, job: str) -> TrainerState:
        """Return the initial state of a job."""
        return cls(job, noise=zlib.crc32(job.encode()))

    @property
    def loss(self) -> float:
        """The present loss."""
        return self.weight * self.weight

    @property
    def curve_text(self) -> str:
        """The hash of all losses in hexadecimal."""
        return f"{self.curve:016x}"

    def advance(self, until: int) -> None:
        """Do the iterations up to number `until`. Local names keep an iteration at about a microsecond."""
        noise, weight, momentum, curve = self.noise, self.weight, self.momentum, self.curve
        for _ in range(self.step, until):
            noise = (noise * 6364136223846793005 + 1442695040888963407) & MASK
            momentum = 0.9 * momentum + 0.1 * (weight + noise / 2.0**64 - 0.5)
            weight -= 0.02 * momentum
            curve = ((curve ^ int(weight * weight * 2.0**40)) * 0x100000001B3) & MASK
        self.step, self.noise, self.weight, self.momentum, self.curve = (
            max(self.step, until),
            noise,
            weight,
            momentum,
            curve,
        )

    def to_checkpoint(self, payload: int) -> dict[str, Any]:
        """Return the numbers and `payload` bytes derived from them: a checkpoint as large as a model's."""
        return {"numbers": self.numbers, "payload": _payload(self.numbers, payload)}

    @classmethod
    def restored(cls, checkpoint: Mapping[str, Any], job: str) -> TrainerState:
        """Return the state in a checkpoint.

        Raises:
            DamagedState: the checkpoint is not from this job, or damaged.
        """
        numbers, payload = checkpoint["numbers"], checkpoint["payload"]
        if payload != _payload(numbers, len(payload)):
            raise DamagedState(f"job {job}: the payload is not that of the numbers")
        if numbers["job"] != job:
            raise DamagedState(f"job {job}: the checkpoint is job {numbers['job']}'s")
        return cls(**numbers)


def _payload(numbers: dict[str, Any], size: int) -> bytes:
    return hashlib.shake_128(json.dumps(numbers).encode()).digest(size)
