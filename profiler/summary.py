"""What is kept of a profile: one small object for all jobs of a user that have the same name, script and number of GPUs, so
that a sweep is recorded once.

It is written by the job's user, so that whoever schedules by it believes nothing in it before it is checked, and believes it
about that user's jobs only. Standard library only: wrappers and the controller read it too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tiresias.errors import one_line

if TYPE_CHECKING:
    from tiresias.profiler.analysis import Profile

VERSION = 1
DECISIONS = ("consolidate", "spread", "unknown")
TRIALS = 3  # after so many without a verdict nobody tries again
REASONS, LETTERS = 4, 200  # kept of them
MOST = 1e18  # bytes, seconds; nothing gets there
SCRIPT = re.compile("[0-9a-f]{16}")


class Key(NamedTuple):
    """Which jobs are of a kind. script: `script_hash` of it; gpus: of the whole job."""

    name: str
    script: str
    gpus: int

    @property
    def file(self) -> str:
        """Names are any bytes that a user likes, so that only their hash makes a file's name."""
        return f"{self.script}-{self.gpus}-{digest(self.name.encode(errors='replace'))}.json"


class Summary(NamedTuple):
    """skew: largest tensor / model; intensity: seconds on the wire a second of computing; None where they cannot be known.
    model, largest: bytes. iteration: seconds. confidence: of the latter, 0 to 1. job: that was recorded. made: epoch seconds.
    trials: recordings so far."""

    decision: str
    reasons: tuple[str, ...] = ()
    architecture: str = "unknown"
    skew: float | None = None
    intensity: float | None = None
    model: float = 0.0
    largest: float = 0.0
    iteration: float = 0.0
    confidence: float = 0.0
    iterations: int = 0
    workers: int = 0
    servers: int = 0
    job: str = ""
    made: float = 0.0
    trials: int = 1

    @property
    def is_final(self) -> bool:
        return self.decision != "unknown" or self.trials >= TRIALS


def script_hash(script: bytes) -> str:
    return digest(script)


def summarize(profile: Profile, job: str, made: float, trials: int) -> Summary:
    period, shape = profile.period, profile.shape
    return Summary(
        profile.verdict.decision, profile.verdict.reasons[:REASONS], shape.kind, profile.skew, profile.intensity,
        float(shape.model), float(profile.largest), period.seconds if period else 0.0, period.confidence if period else 0.0,
        profile.iterations, shape.workers, len(shape.servers), job, made, trials,
    )  # fmt: skip


def as_object(key: Key, summary: Summary) -> dict[str, Any]:
    return {"version": VERSION, **key._asdict(), **summary._asdict()}


def from_object(key: Key, content: Mapping[str, Any]) -> Summary | None:
    """None where it is about other jobs, or not such an object at all. What is impossible in it reads as unknown."""
    about = tuple(content.get(field) for field in ("version", *Key._fields))
    if about != (VERSION, *key) or content.get("decision") not in DECISIONS:
        return None
    reasons = content.get("reasons")
    return Summary(
        decision=content["decision"],
        reasons=tuple(_words(each) for each in reasons[:REASONS]) if isinstance(reasons, list) else (),
        architecture=_words(content.get("architecture")),
        skew=_share(content.get("skew")),
        intensity=_number(content.get("intensity")),
        model=_amount(content.get("model")),
        largest=_amount(content.get("largest")),
        iteration=_amount(content.get("iteration")),
        confidence=_amount(content.get("confidence")),
        iterations=int(_amount(content.get("iterations"))),
        workers=int(_amount(content.get("workers"))),
        servers=int(_amount(content.get("servers"))),
        job=_words(content.get("job")),
        made=_amount(content.get("made")),
        trials=int(_amount(content.get("trials"))),
    )


def digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= MOST else None  # nan is not


def _amount(value: object) -> float:
    return _number(value) or 0.0


def _share(value: object) -> float | None:
    found = _number(value)
    return found if found is not None and found <= 1 else None


def _words(value: object) -> str:
    """One line of what a terminal can show."""
    return one_line(value[:LETTERS]) if isinstance(value, str) else ""
