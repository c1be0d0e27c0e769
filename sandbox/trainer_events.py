"""What a trainer leaves for the replay to read: an append-only log of events, and the number of the newest iteration done.

Two files, because of who may be killed when: an event is one write of one line, and the step is one overwrite of 20
bytes, so both survive a kill -9 of the trainer whole.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_WIDTH = 20


class Events:
    """RESULTS/JOB.jsonl."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def before(self) -> list[dict[str, Any]]:
        """The events of earlier runs."""
        try:
            return [json.loads(line) for line in self._path.read_text().splitlines()]
        except FileNotFoundError:
            return []

    def add(self, **event: Any) -> None:
        line = json.dumps(event).encode() + b"\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)


class Progress:
    """RESULTS/JOB.step."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def read(self) -> int:
        return int(os.pread(self._handle, _WIDTH, 0) or b"0")

    def write(self, step: int) -> None:
        os.pwrite(self._handle, b"%*d" % (_WIDTH, step), 0)
