"""The number of ranks of a job that registered, as the controller counts them in the job's control folder, and their own work.

Each rank that handles the checkpoint signal has a file there (control.py). The supervisor removes those of earlier runs. Parameter
servers are no ranks; those that report their own work have files in a folder beside.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import CorruptCheckpoint
from tiresias.protocol import control
from tiresias.protocol.files import open_folder, read_small
from tiresias.protocol.process_identity import NAME

MOST_FILES = 100_000  # that are counted of a folder of the user
MOST_READ = 1024  # that are read
OWN_WORK = "own"  # the key of the seconds of own work of a step
WHOLE_STEP = "whole"  # the key of the seconds of a whole step
NODE = "node"  # the key of Slurm's name of its node
WORK_S = 60.0  # between two reports of it by one rank


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


class RankWork(NamedTuple):
    """How long the own work of a step takes a rank or a server.

    Attributes:
        node: Slurm's name of its node, else how the host names itself.
        own: Seconds of a step without the exchange with the others; nan: not reported.
        whole: Seconds of a whole step; nan: not reported.
    """

    node: str
    own: float
    whole: float


def work_of_ranks(root: Path, uid: int, job_id: str, restart: int, group: str = control.RANKS) -> list[RankWork]:
    """Return what the ranks of a run report, of MOST_READ files at most: claims of the job's owner.

    Args:
        root: The control root.
        uid: The owner of the job.
        job_id: The job.
        restart: Slurm's restart count of the run.
        group: control.RANKS; or control.SERVERS, for parameter servers.
    """
    try:
        with open_folder(control.job_folder(root, uid, job_id)) as folder, open_folder(group, folder) as ranks:
            with os.scandir(ranks) as found:
                names = [one.name for one in islice(found, MOST_READ)]
            return [*_work(ranks, names, restart)] if os.fstat(folder).st_uid == uid else []
    except (OSError, CorruptCheckpoint):
        return []


def _work(folder: int, names: list[str], restart: int) -> Iterator[RankWork]:
    for name in names:
        if known := NAME.fullmatch(name):
            with contextlib.suppress(OSError, ValueError, CorruptCheckpoint):  # of one rank
                report = json.loads(read_small(folder, name, control.MAX_BYTES))
                if isinstance(report, dict) and report.get("restart") == restart:
                    node = report.get(NODE)
                    yield RankWork(
                        node if isinstance(node, str) and node else known["host"],
                        _seconds(report.get(OWN_WORK)),
                        _seconds(report.get(WHOLE_STEP)),
                    )


def _seconds(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0.0 < value <= control.LONGEST else math.nan  # type: ignore[operator,arg-type]


def _count(folder: int) -> int:
    with os.scandir(folder) as found:
        return sum(bool(NAME.fullmatch(one.name)) for one in islice(found, MOST_FILES))
