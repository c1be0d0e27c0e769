"""Which script was submitted from which path, and when: a file that tsbatch writes and the controller reads.

<control root>/<uid>/submitted/<digest>.json, one file for each path from which the user submits, and for each job name where the
script has no path (--wrap and standard input): {"of": path or name, "scripts": [[epoch second, hash], ...]}, the newest last. A
job's script is the newest one before its submission. The user wrote it: it counts for that user's jobs only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.protocol import control
from tiresias.protocol.files import own_folder
from tiresias.protocol.job_kind import digest, hash_of_script

KEPT = 16  # scripts of one path
SKEW = 2  # seconds that the clocks of a login node and slurmctld's may differ
LATEST = 10**12  # epoch seconds


def key(command: str, name: str) -> str:
    """Return the key of a submission.

    Args:
        command: The script's path as Slurm shows it, "" without one.
        name: The job's name.
    """
    return command if command else f"name:{name}"


def file_name(of: str) -> str:
    """Return the name of the file with the scripts of a key."""
    return f"{digest(of.encode(errors='surrogateescape'))}.json"


def known(content: Mapping[str, Any], of: str) -> list[tuple[int, str]]:
    """(epoch second, hash), in the order of the file; what is malformed is left out."""
    found = content.get("scripts")
    pairs = found if content.get("of") == of and isinstance(found, list) else []
    return [
        (one[0], one[1])
        for one in pairs[-KEPT:]
        if isinstance(one, list)
        and len(one) == 2
        and type(one[0]) is int
        and 0 <= one[0] < LATEST
        and hash_of_script(one[1])
    ]


def at(scripts: list[tuple[int, str]], submit: int) -> str:
    """The hash of the script that was submitted then; "" where none is known."""
    return next((script for since, script in reversed(scripts) if since <= submit + SKEW), "")


def note(root: Path, of: str, script: str) -> None:
    """Record the script of a submission.

    A failure is ignored; the job then has no profile while it waits.

    Args:
        root: The root of all control folders.
        of: `key` of the submission.
        script: Its hash.
    """
    folder, name = control.submitted_folder(root, os.getuid()), file_name(of)
    scripts = known(control.read(folder / name, os.getuid()), of)
    if scripts and scripts[-1][1] == script:
        return
    now = (int(time.time()), script)
    with suppress(OSError):
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            own_folder(path, 0o755)
        control.write(folder, name, {"of": of, "scripts": [*scripts[1 - KEPT :], now]})
