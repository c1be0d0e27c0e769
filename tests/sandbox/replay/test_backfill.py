"""The simulated backfill, worked out by hand, and compared with the simulator where all orders agree."""

from __future__ import annotations

import math
import random

from tiresias.sandbox.replay.backfill import BatchJob, ends


def test_a_short_job_is_started_before_the_head_of_the_queue_that_it_does_not_delay() -> None:
    running, head = BatchJob(0.0, 3, 10.0, 20.0), BatchJob(1.0, 4, 5.0, 10.0)
    short, long = BatchJob(2.0, 1, 6.0, 12.0), BatchJob(3.0, 1, 30.0, 60.0)
    assert ends([running, head, short, long], 4) == [10.0, 15.0, 8.0, 45.0]


def test_a_job_that_ends_before_its_limit_frees_its_gpus_at_once() -> None:
    assert ends([BatchJob(0.0, 4, 3.0, 100.0), BatchJob(1.0, 4, 3.0, 100.0)], 4) == [3.0, 6.0]


def test_no_job_of_the_queue_is_delayed_by_a_later_one() -> None:
    """Not only the head has a reservation: the third job would delay the second one."""
    jobs = [
        BatchJob(0.0, 3, 10.0, 10.0),
        BatchJob(0.1, 4, 10.0, 10.0),
        BatchJob(0.2, 2, 10.0, 10.0),
        BatchJob(0.3, 1, 15.0, 15.0),
    ]
    found = ends(jobs, 4)
    assert found[:3] == [10.0, 20.0, 30.0]
    assert found[3] == 35.0, "it fits beside the first job and not beside the second one"


def test_no_more_gpus_are_used_than_there_are() -> None:
    dice = random.Random(4)
    jobs = [
        BatchJob(moment, dice.choice((1, 2, 4, 8)), length, 2 * length)
        for moment, length in ((3.0 * row, dice.expovariate(1 / 20)) for row in range(200))
    ]
    found = ends(jobs, 8)
    assert not any(map(math.isnan, found))
    starts = [end - job.duration for end, job in zip(found, jobs, strict=True)]
    assert all(start >= job.submit - 1e-9 for start, job in zip(starts, jobs, strict=True))
    for moment in starts:
        used = sum(
            job.gpus for start, end, job in zip(starts, found, jobs, strict=True) if start <= moment + 1e-9 < end - 1e-9
        )
        assert used <= 8
