"""Retention of committed checkpoints. A policy names those to keep; all others are removed.

The newest KEEP stay under any policy, so that there is always one to fall back to.

In a job the policies come from the environment:

    TIRESIAS_KEEP=5             the newest five (default 2, at least 2)
    TIRESIAS_KEEP_EVERY=10000   and the first at or after each 10,000th step, for ever
    TIRESIAS_KEEP_VERIFIED=1    and all down to the newest that was read back whole; each save then reads what it wrote
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiresias.errors import UsageError
from tiresias.protocol import environment

KEEP = 2  # the least


class RetentionPolicy(Protocol):
    """Chooses the committed checkpoints to keep."""

    def keeps(self, steps: Sequence[int], verifies: Callable[[int], bool]) -> Iterable[int]:
        """Those of `steps` (newest first) that are to stay. `verifies(step)` reads all its bytes, once a step."""
        ...


@dataclass(frozen=True)
class KeepLast:
    """Keep the newest `count`."""

    count: int = KEEP

    def keeps(self, steps: Sequence[int], verifies: Callable[[int], bool]) -> Iterable[int]:
        """Return the newest `count` steps."""
        return steps[: self.count]


@dataclass(frozen=True)
class KeepEvery:
    """Keep the first at or after each multiple of `period` steps: a preempted job saves at any step, not at round ones."""

    period: int

    def keeps(self, steps: Sequence[int], verifies: Callable[[int], bool]) -> Iterable[int]:
        """Return the first step of each period."""
        first = {step // self.period: step for step in steps}  # the oldest of a span comes last and wins
        return (step for span, step in first.items() if span)


@dataclass(frozen=True)
class KeepUntilVerified:
    """Keep all down to the newest that verifies: none is removed in favour of one that may be damaged."""

    def keeps(self, steps: Sequence[int], verifies: Callable[[int], bool]) -> Iterable[int]:
        """Return all steps down to the newest that verifies."""
        for step in steps:
            yield step
            if verifies(step):
                return


def kept(policies: Iterable[RetentionPolicy], steps: Sequence[int], verifies: Callable[[int], bool]) -> set[int]:
    """What any of `policies` keeps of `steps` (newest first), and the newest KEEP."""
    return set(steps[:KEEP]).union(*(policy.keeps(steps, verifies) for policy in policies))


def policies_from_env(env: Mapping[str, str]) -> list[RetentionPolicy]:
    """Return the policies of the environment. Raises UsageError that names the variable."""
    policies: list[RetentionPolicy] = [KeepLast(_number(env, environment.KEEP, KEEP))]
    if env.get(environment.KEEP_EVERY):
        policies.append(KeepEvery(_number(env, environment.KEEP_EVERY, 1)))
    if env.get(environment.KEEP_VERIFIED, "0") not in ("", "0"):
        policies.append(KeepUntilVerified())
    return policies


def _number(env: Mapping[str, str], name: str, least: int) -> int:
    text = env.get(name) or str(least)
    if not re.fullmatch("[0-9]{1,18}", text, re.ASCII) or int(text) < least:
        raise UsageError(f"{name}={text!r:.40}: not a whole number from {least} up")
    return int(text)
