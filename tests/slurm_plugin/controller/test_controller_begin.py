"""A begin time that a job's owner sets while the job waits, on a real Slurm, through both back ends."""

from __future__ import annotations

import time

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci, pytest.mark.slow]
GPUS = 16  # of the cluster


def test_a_later_start_time_of_a_held_job_counts(any_centre: Centre) -> None:
    """A job that the controller holds waits for its new begin time, although GPUs are free."""
    centre = any_centre
    holder = centre.submit(gpus=GPUS)
    centre.wait_for_state(holder, "RUNNING")
    later, soon = centre.submit(gpus=4), centre.submit(gpus=4)
    for job in (later, soon):
        centre.wait_until(lambda job=job: centre.show(job)["Reason"] == "JobHeldAdmin", "it is not held", job)
    centre.scontrol("update", f"JobId={later}", "StartTime=now+2hours", user="alice")
    centre.wait_until(lambda: "BeginTime" in centre.why(later), "the new begin time is not seen", later)
    centre.scontrol("update", f"JobId={soon}", "StartTime=now+4", user="alice")
    not_before = time.time() + 3.0
    centre.cancel(holder)
    record = centre.wait_for_state(soon, "RUNNING")
    assert time.mktime(time.strptime(record["StartTime"], "%Y-%m-%dT%H:%M:%S")) + 1 >= not_before
    centre.wait_for_cycles(4)
    assert centre.state(later) == "PENDING", "it has free GPUs, but its owner set a later start"
    centre.scontrol("update", f"JobId={later}", "StartTime=now", user="alice")
    centre.wait_for_state(later, "RUNNING")
