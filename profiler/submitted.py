"""Which script was submitted from which path, and when: a file that tsbatch writes and the controller reads. Pure.

<control root>/<uid>/submitted/<digest>.json, one file for each path from which the user submits, and for each job name where the
script has no path (--wrap and standard input): {"of": path or name, "scripts": [[epoch second, hash], ...]}, the newest last. A
job's script is the newest one before its submission. The user wrote it: it counts for that user's jobs only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tiresias.profiler.summary import SCRIPT, digest

KEPT = 16  # scripts of one path
SKEW = 2  # seconds that the clocks of a login node and slurmctld's may differ
LATEST = 10**12  # epoch seconds


def key(command: str, name: str) -> str:
    """command: as Slurm shows it, "" where the script has no path; name: the job's."""
    return command if command else f"name:{name}"


def file_name(of: str) -> str:
    return f"{digest(of.encode(errors='surrogateescape'))}.json"


def known(content: Mapping[str, Any], of: str) -> list[tuple[int, str]]:
    """(epoch second, hash), in the order of the file; what is malformed is left out."""
    found = content.get("scripts")
    pairs = found if content.get("of") == of and isinstance(found, list) else []
    return [
        (one[0], one[1])
        for one in pairs[-KEPT:]
        if isinstance(one, list) and len(one) == 2 and type(one[0]) is int and 0 <= one[0] < LATEST
        and isinstance(one[1], str) and SCRIPT.fullmatch(one[1])
    ]  # fmt: skip


def at(scripts: list[tuple[int, str]], submit: int) -> str:
    """The hash of the script that was submitted then; "" where none is known."""
    return next((script for since, script in reversed(scripts) if since <= submit + SKEW), "")
