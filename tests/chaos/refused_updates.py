"""Jobs that slurmctld lets nobody change: its record waits for the index of the job in the accounting database.

slurmctld 22.05 saves that mark with the job. One that was killed showed the job with the mark afterwards, and had not asked for the
index four minutes and four starts later: each hold, release and change was refused, an administrator's too ("the DB index is
being set, try again in a bit"). So what befalls such a job counts as Slurm's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from tiresias.sandbox import completion_log

REFUSED = re.compile(r"\[(?P<time>[-0-9T:]+)[.0-9]*\] .*waited \d+ seconds for JobId=(?P<job>\d+) to get a db_index")
FEWEST = 3  # refusals, 10 and 20 seconds apart (unindexed_jobs.py): a slurmdbd that is slow for a while ends them


def unindexed_jobs(log: Path, name: Callable[[str, float], str]) -> set[str]:
    """Return the names of these jobs. log: of slurmctld; name: returns which job had an id at an epoch second."""
    found = filter(None, map(REFUSED.match, log.read_text(errors="replace").splitlines()))
    refused = [name(one["job"], completion_log.epoch(one["time"])) for one in found]
    return {job for job in refused if job and refused.count(job) >= FEWEST}


def sorted_out(words: Iterable[str], jobs: set[str]) -> tuple[list[str], list[str]]:
    """Return the lines that name none of these jobs, and the others."""
    lines = list(words)
    own = [line for line in lines if jobs & set(re.findall(r"chaos-[-\d]+", line))]
    return [line for line in lines if line not in own], own
