"""The result of the last job of a script: whether its program could save. The supervisor writes it, tsbatch prints it.

<control root>/<uid>/scripts/<script's hash>.json, for the user alone.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.protocol.files import own_folder
from tiresias.protocol.job_kind import hash_of_script


class PreviousJob(NamedTuple):
    """The last job of a script: its id, whether its program registered for checkpoints, the step of its newest one (-1: none)."""

    job: str
    registered: bool
    step: int


def note(folder: Path, script: str, shown: PreviousJob) -> None:
    """Write the result of a job; `folder` is its control folder. A failure is ignored: the next submission has no result then."""
    if not hash_of_script(script):
        return
    place = control.scripts_folder(folder.parent.parent, os.getuid())
    with suppress(OSError):
        own_folder(place, 0o700)
        control.write(place, f"{script}.json", shown._asdict())


def of_script(root: Path, script: str) -> PreviousJob | None:
    """Return the last job of a script (its hash), None without a record."""
    found = control.read(control.scripts_folder(root, os.getuid()) / f"{script}.json", os.getuid())
    job = found.get("job")
    if not isinstance(job, str):
        return None
    return PreviousJob(job, found.get("registered") is True, control.integer(found.get("step")))
