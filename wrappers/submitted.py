"""Tells the controller which script a waiting job runs: Slurm's record of the job has its path only (profiler/submitted.py).

tsbatch writes it before it submits, and only where the script differs from the last one that was submitted from there.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tiresias.checkpoint import control
from tiresias.checkpoint.files import own_folder
from tiresias.profiler import submitted


def note(root: Path, of: str, script: str) -> None:
    """root: of all control folders; of: `submitted.key`. What cannot be written costs the job its profile while it waits."""
    folder, name = control.submitted_folder(root, os.getuid()), submitted.file_name(of)
    scripts = submitted.known(control.read(folder / name, os.getuid()), of)
    if scripts and scripts[-1][1] == script:
        return
    now = (int(time.time()), script)
    with suppress(OSError):
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        for path in (folder.parent, folder):
            own_folder(path, 0o755)
        control.write(folder, name, {"of": of, "scripts": [*scripts[1 - submitted.KEPT :], now]})
