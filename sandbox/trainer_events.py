"""The files that a trainer writes for the replay: an append-only log of events, and the number of the newest completed
iteration.

There are two files so that both survive a kill -9 of the trainer undamaged: an event is one write of one line, and the step
is one overwrite of 20 bytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_WIDTH = 20


class Events:
    """The file RESULTS/JOB.jsonl."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def before(self) -> list[dict[str, Any]]:
        """Return the events of earlier runs."""
        try:
            return [json.loads(line) for line in self._path.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def add(self, **event: Any) -> None:
        """Append one event."""
        line = json.dumps(event).encode() + b"\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


class StepFile:
    """The file RESULTS/JOB.step."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def read(self) -> int:
        """Return the newest completed iteration, 0 for none."""
        return int(os.pread(self._handle, _WIDTH, 0) or b"0")

    def write(self, step: int) -> None:
        """Store the newest completed iteration."""
        os.pwrite(self._handle, b"%*d" % (_WIDTH, step), 0)
