"""Recorded events: requests to HiveD's implementation with its answers, one sequence a line of JSON.

    {"events": [{"op": "schedule", "pod": "g1-0", "vc": "a", "priority": 0, "leaf_num": 8, "group": "g1", "members": [[1, 8]],
                 "result": {"kind": "bind", "node": "n0", "leaves": [0, 1, ...], "free_leaves": 24}}, ...]}

`op` is schedule, delete, bad or healthy. Requests come pod by pod: the first pod of a group binds the whole group.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiresias.errors import UsageError
from tiresias.scheduler.virtual_clusters.gang_requests import GangRequest

KINDS = ("bind", "preempt", "wait", "ok")


@dataclass(frozen=True)
class RecordedSequence:
    """One recorded sequence.

    Attributes:
        name: What identifies it: its id or its seed.
        config: File name of the configuration; "": any.
        sorted_start: Whether the free lists started in the order of the configuration. Otherwise each node was bad, and then
            reported healthy, node by node.
        events: The events.
    """

    name: str
    config: str
    sorted_start: bool
    events: tuple[Mapping[str, Any], ...]


def read_sequences(file: Path) -> Iterator[RecordedSequence]:
    """Read a file of sequences, gzip or not. Raises UsageError for what is none, with the line."""
    try:
        with gzip.open(file, "rt", encoding="utf-8") if file.suffix == ".gz" else file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _sequence(line, number, file)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from None


def _sequence(line: str, number: int, file: Path) -> RecordedSequence:
    try:
        found = json.loads(line)
        events = tuple(found["events"])
        for event in events:
            _check(event)
        name = str(found.get("id", found.get("seed", number)))
        return RecordedSequence(
            name, str(found.get("config", "")), bool(found.get("free_list_sorted_at_start", True)), events
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{file}, line {number}: no recorded sequence: {type(error).__name__} {error}") from None


def _check(event: Mapping[str, Any]) -> None:
    if event["op"] == "schedule":
        request_of(event)
        str(event["pod"]), int(event["leaf_num"])
    elif event["op"] not in ("delete", "bad", "healthy"):
        raise ValueError(f"op {event['op']!r}")
    elif not isinstance(event["pod" if event["op"] == "delete" else "node"], str):
        raise TypeError("a name is no text")


def request_of(event: Mapping[str, Any]) -> GangRequest:
    """Return the request of the group of a schedule event."""
    return GangRequest(
        event["group"],
        event["vc"],
        int(event["priority"]),
        tuple((int(pods), int(leaves)) for pods, leaves in event["members"]),
        str(event.get("leaf_type", "")),
        str(event.get("pinned", "")),
        bool(event.get("lazy", False)),
    )
