"""The stored summary of a profile: one small object for all jobs of a user with the same name, script and number of GPUs, so
that a sweep is recorded once.

The job's user writes it. A scheduler therefore checks each value, and uses it for that user's jobs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tiresias.errors import one_line
from tiresias.protocol.job_kind import Key

VERSION = 1
DECISIONS = ("consolidate", "spread", "unknown")
TRIALS = 3  # after so many without a verdict no further trial is made
REASONS, LETTERS = 4, 200  # kept of them
MOST = 1e18  # bytes, seconds; nothing gets there


class Summary(NamedTuple):
    """The summary of a profile.

    Attributes:
        skew: Largest tensor / model, None where unknown.
        intensity: Seconds on the wire a second of computing, None where unknown.
        model, largest: Bytes.
        iteration: Seconds.
        confidence: Of `iteration`, 0 to 1.
        job: The recorded job.
        made: Epoch seconds.
        trials: Number of recordings so far.
    """

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
        """Whether no further trial run is needed."""
        return self.decision != "unknown" or self.trials >= TRIALS


def as_object(key: Key, summary: Summary) -> dict[str, Any]:
    """Return the summary as a JSON object."""
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
