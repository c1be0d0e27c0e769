"""The number of ranks of a job that registered, as the controller counts them in the job's control folder.

Each rank that handles the checkpoint signal has a file there (control.py). The supervisor removes those of earlier runs.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import control
from tiresias.protocol.files import open_folder
from tiresias.protocol.process_identity import NAME

MOST_FILES = 100_000  # that are read of a folder of the user


def registered(root: Path, uid: int, job_id: str) -> int:
    """Return the number of registered ranks; 0 without a folder that belongs to the user.

    Args:
        root: The control root.
        uid: The owner of the job.
        job_id: The job.
    """
    try:
        with open_folder(control.job_folder(root, uid, job_id)) as folder, open_folder(control.RANKS, folder) as ranks:
            return _count(ranks) if os.fstat(folder).st_uid == uid else 0
    except (OSError, CorruptCheckpoint):
        return 0


def _count(folder: int) -> int:
    with os.scandir(folder) as found:
        return sum(bool(NAME.fullmatch(one.name)) for one in islice(found, MOST_FILES))
