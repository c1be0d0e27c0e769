"""Why a waiting job starts when it does, as values: codes with parameters. `forecast_words.py` turns them into words."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple


class ForecastCode(IntEnum):
    """What changes for a waiting job, or what its latest start follows from."""

    SINKS = 0  # job, gpus, queue: a job ahead of it sinks to that queue
    PREEMPTABLE = 1  # job, gpus: a lower-ranked job may be preempted
    RANK_CHANGES = 2  # text: what the policy reports
    MORE_NODES = 3  # it accepts more nodes than the fewest
    SAVES_DUE = 4  # the deadline of the jobs that are preempted for it
    BLOCKED_BY_SLURM = 5  # text: Slurm's reason
    REFUSED_BY_SLURM = 6  # text: Slurm's reason of the last refused start
    SLURM_LIMIT = 7  # text: Slurm's reason of a quota
    NOT_ELIGIBLE = 8  # it may not be started yet
    NO_QUEUES = 9  # text: the policy; seconds: until it goes before all others, inf: never; amount: until it ranks higher, 0: never
    FIXED_JOBS = 10  # jobs that cannot be preempted now hold what it needs
    LAST_QUEUE = 11  # jobs ahead of it in the last queue may run until they end
    PROMOTIONS = 12  # other jobs may be promoted before it without end
    SERVICE = 13  # amount: GPU-seconds, gpus, queue; seconds: until it is promoted, inf: not at all
    AFTER_RELEASE = 14  # it starts once the preempted jobs have released their GPUs


class ForecastReason(NamedTuple):
    """A code with its parameters; those that a code does not have keep their defaults.

    Attributes:
        code: What changes, or what a bound follows from.
        text: A policy, a policy's own words, or Slurm's reason.
        job: Id of another job.
        gpus: GPUs of that job; for SERVICE the GPUs that other jobs must hold to keep the job waiting.
        queue: Index of a queue, those of other pools counted first.
        amount: GPU-seconds; for NO_QUEUES seconds.
        seconds: A duration.
    """

    code: ForecastCode
    text: str = ""
    job: str = ""
    gpus: int = 0
    queue: int = 0
    amount: float = 0.0
    seconds: float = math.inf
