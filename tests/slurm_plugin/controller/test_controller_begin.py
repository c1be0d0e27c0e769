"""A begin time that a job's owner sets while the job waits, on a real Slurm, through both back ends."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
GPUS = 16  # all there are
Centre = Any  # conftest.py


def test_a_later_start_time_of_a_held_job_counts(any_centre: Centre) -> None:
    """Of a job that is held for its turn: two hours keep it waiting while GPUs are free, four seconds for four seconds."""
    centre = any_centre
    holder = centre.submit(gpus=GPUS)
    centre.reaches(holder, "RUNNING")
    later, soon = centre.submit(gpus=4), centre.submit(gpus=4)
    for job in (later, soon):
        centre.until(lambda job=job: centre.show(job)["Reason"] == "JobHeldAdmin", "it is not held", job)
    centre.scontrol("update", f"JobId={later}", "StartTime=now+2hours", user="alice")
    centre.until(lambda: "BeginTime" in centre.why(later), "the new begin time is not seen", later)
    centre.scontrol("update", f"JobId={soon}", "StartTime=now+4", user="alice")
    not_before = time.time() + 3.0
    centre.cancel(holder)
    record = centre.reaches(soon, "RUNNING")
    assert time.mktime(time.strptime(record["StartTime"], "%Y-%m-%dT%H:%M:%S")) + 1 >= not_before
    centre.cycles(4)
    assert centre.state(later) == "PENDING", "it has free GPUs, but its owner set a later start"
    centre.scontrol("update", f"JobId={later}", "StartTime=now", user="alice")
    centre.reaches(later, "RUNNING")
