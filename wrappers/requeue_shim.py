"""A `scontrol` that comes first in the PATH of a self-saving program.

Lightning, submitit and others call `scontrol requeue` for their own job once they have saved. While the supervisor has the job
save, that call becomes a request to the supervisor (protocol/requeue_request.py), and does not return: the requeue is made by the
controller, which has chosen the job's next GPUs, and no step is trained after the save. Every other call reaches Slurm's scontrol.
"""

from __future__ import annotations

import os
from pathlib import Path

from tiresias.protocol.requeue_request import WAIT_S

FOLDER, NAME = "bin", "scontrol"
TEXT = """\
#!/bin/sh
# Made by the job's supervisor (tiresias): see docs/how-to/self-saving.md.
run=$TIRESIAS_RESTART
if [ "$1" = requeue ] && [ -n "$run" ] && [ -e "$TIRESIAS_CONTROL/stop-$run" ]; then
    case $2 in "$SLURM_JOB_ID"|"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID")
        : > "$TIRESIAS_CONTROL/requeue-asked-$run" && sleep {wait:g}
        exit 0
    esac
fi
here=${{0%/*}} kept=
IFS=:
for folder in $PATH; do [ "$folder" = "$here" ] || kept=$kept:$folder; done
unset IFS
PATH=${{kept#:}}
export PATH
exec scontrol "$@"
"""


def install(control: Path) -> None:
    """Into the job's control folder, which all its nodes see. Raises OSError."""
    folder = control / FOLDER
    folder.mkdir(mode=0o755, exist_ok=True)
    temporary = folder / f".{NAME}.{os.getpid()}"
    temporary.unlink(missing_ok=True)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o755)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(handle, 0o755)
        file.write(TEXT.format(wait=WAIT_S))
    temporary.replace(folder / NAME)


def path_with(control: Path, path: str) -> str:
    """Return PATH with the shim's folder first."""
    return f"{control / FOLDER}:{path}"
