"""What a batch script that tsbatch submitted states: the script of the user in it, and the owner's choices.

tsbatch puts the supervisor's lines and variables before one of two markers. Slurm keeps the batch script with the job, so these
statements are those of this submission, whatever the user submits under the same name. The owner wrote them: they count for that
job only.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from tiresias.protocol import elastic_sizes, environment, opportunistic_choice

MARKER = b"#---- tiresias: the user's script stands below, unchanged ----\n"
INSERTED = (
    b"#---- tiresias: the user's script goes on below ----\n"  # after lines that sbatch inserted below the #! line
)


class OwnerChoices(NamedTuple):
    """The choices of a job's owner, as opportunistic_choice.py and elastic_sizes.py have them; "": not known."""

    opportunistic: str = ""
    elastic: str = ""


def choices(batch_script: bytes) -> OwnerChoices:
    """Return the choices that a batch script states; of one that tsbatch did not make, that it has a fixed size."""
    before = min((batch_script.partition(marker)[0] for marker in (MARKER, INSERTED)), key=len)
    if len(before) == len(batch_script):
        return OwnerChoices(elastic=elastic_sizes.FIXED)
    stated = opportunistic_choice.known(_exported(before, environment.OPPORTUNISTIC))
    sizes = _exported(before, environment.ELASTIC)
    return OwnerChoices(stated or opportunistic_choice.YES, sizes if elastic_sizes.read(sizes) else elastic_sizes.FIXED)


def _exported(lines: bytes, name: str) -> str:
    """Return the value of a variable that shell lines export; "" where there is none, or it cannot be read."""
    start = f"export {name}=".encode()
    found = next((line for line in reversed(lines.split(b"\n")) if line.startswith(start)), b"")
    try:
        return "".join(shlex.split(found[len(start) :].decode(errors="replace"))[:1])
    except ValueError:
        return ""
