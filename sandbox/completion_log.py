"""Slurm's job completion log, JobCompType=jobcomp/filetxt of slurm.conf(5): a record of `Name=value` words for each ended run."""

from __future__ import annotations

import calendar
import re
import time
from pathlib import Path

_RECORD = re.compile(r"(?=JobId=\d+ UserId=)")


def records(log: Path) -> list[dict[str, str]]:
    """Return the fields of each record, in the order of the ends; [] where there is no log.

    Slurm 22.05 cuts a record at 1,023 bytes, and its end of line with it: such a record lacks its last fields, and the next one
    begins in the same line.
    """
    texts = _RECORD.split(log.read_text(errors="replace")) if log.exists() else []
    return [dict(word.split("=", 1) for word in text.split() if "=" in word) for text in texts if text.strip()]


def epoch(text: str) -> int:
    """Return the epoch second of a moment in the log."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
