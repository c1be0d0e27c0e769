"""Which script was submitted from which path, when, and with which `--opportunistic` and `--elastic`: a file that tsbatch writes
and the controller reads.

<control root>/<uid>/submitted/<digest>.json, one file for each path from which the user submits, and for each job name where the
script has no path (--wrap and standard input): {"of": path or name, "scripts": [[epoch second, hash], ...], "opportunistic":
[[epoch second, choice], ...], "elastic": [[epoch second, sizes], ...]}, the newest last; an entry for each change. A job's script
is the newest one before its submission, and its choice and its sizes as well. Where several can be meant, the batch script shows
which one is (batch_script_statements.py). The user wrote the file: it counts for that user's jobs only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.protocol import control, elastic_sizes, opportunistic_choice
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
    return _entries(content, of, "scripts", hash_of_script)


def choices(content: Mapping[str, Any], of: str) -> list[tuple[int, str]]:
    """(epoch second, choice), as `known`."""
    return _entries(content, of, "opportunistic", opportunistic_choice.known)


def sizes(content: Mapping[str, Any], of: str) -> list[tuple[int, str]]:
    """(epoch second, sizes as elastic_sizes.py), as `known`."""
    return _entries(content, of, "elastic", elastic_sizes.known)


def _entries(content: Mapping[str, Any], of: str, name: str, checked: Callable[[object], str]) -> list[tuple[int, str]]:
    found = content.get(name)
    pairs = found if content.get("of") == of and isinstance(found, list) else []
    return [
        (one[0], one[1])
        for one in pairs[-KEPT:]
        if isinstance(one, list) and len(one) == 2 and type(one[0]) is int and 0 <= one[0] < LATEST and checked(one[1])
    ]


def at(scripts: list[tuple[int, str]], submit: int) -> str:
    """The hash of the script that was submitted then; "" where none is known."""
    return next((script for since, script in reversed(scripts) if since <= submit + SKEW), "")


def choices_at(noted: list[tuple[int, str]], submit: int) -> set[str]:
    """Return the choices that what was submitted then can have: several where another one follows so soon that the clocks do not
    show which one is meant."""
    before = [choice for since, choice in noted if since <= submit][-1:]
    return {*before, *(choice for since, choice in noted if submit < since <= submit + SKEW)}


def sizes_at(noted: list[tuple[int, str]], submit: int) -> set[str]:
    """Return the sizes that what was submitted then can have: several where others were noted at about that time.

    Before the first elastic job of a script nothing is noted, so that a job at about that time may have a fixed size.
    """
    before = [one for since, one in noted if since < submit - SKEW][-1:]
    about = {one for since, one in noted if submit - SKEW <= since <= submit + SKEW}
    return {*(before or ([elastic_sizes.FIXED] if about else [])), *about}


def note(root: Path, of: str, script: str, choice: str = "", elastic: str = "") -> None:
    """Record the script of a submission, and the owner's choices.

    A failure is ignored; while the job waits, it then has no profile, does not run beyond the cells of its virtual cluster, and
    gets the GPUs that it requests.

    Args:
        root: The root of all control folders.
        of: `key` of the submission.
        script: Its hash.
        choice: As opportunistic_choice.py; "": none is recorded.
        elastic: As elastic_sizes.py; "": the job has a fixed size.
    """
    folder, name = control.submitted_folder(root, os.getuid()), file_name(of)
    before = control.read(folder / name, os.getuid())
    noted = known(before, of), choices(before, of), sizes(before, of)
    fixed = elastic_sizes.FIXED if noted[2] else ""
    after = _with(noted[0], script), _with(noted[1], choice), _with(noted[2], elastic or fixed)
    if after == noted:
        return
    with suppress(OSError):
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            own_folder(path, 0o755)
        control.write(folder, name, {"of": of, "scripts": after[0], "opportunistic": after[1], "elastic": after[2]})


def _with(entries: list[tuple[int, str]], value: str) -> list[tuple[int, str]]:
    """Return the entries with a new one, unless the newest has the same value, or there is no value."""
    if not value or (entries and entries[-1][1] == value):
        return entries
    return [*entries[1 - KEPT :], (int(time.time()), value)]
