"""A job that reports its progress, on a real Slurm: its remaining time in `status` and `explain`, across a preemption."""

from __future__ import annotations

import re

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = pytest.mark.sandbox

SECONDS = 120.0


def explained(centre: Centre, job: str) -> str:
    words = ["tiresias", "explain", job, "--socket", "/run/tiresias/control.sock"]
    return str(centre.cluster.run(words, user="alice").stdout)


def test_a_job_that_reports_its_progress_shows_its_remaining_time(centre: Centre) -> None:
    centre.ready()
    job = centre.train(gpus=4, seconds=SECONDS, habit="reports")
    centre.wait_until(lambda: centre.published(job).get("remaining"), "it has no remaining time", job)
    found = centre.published(job)
    assert found["total_steps"] == SECONDS * 20
    assert 0 < found["remaining"] < 3 * SECONDS  # a busy machine trains more slowly
    text = re.sub(r"\s+", " ", explained(centre, job))
    assert re.search(
        r"progress step [\d,]+ of 2,400, (about \d+ min|less than a minute) left, as its program reports", text
    )


def test_a_program_that_prints_its_steps_shows_its_remaining_time(centre: Centre) -> None:
    centre.ready()
    loop = "for at in $(seq 1 400); do echo step $at/400; sleep 0.25; done"
    job = centre.submit(r"--steps-from=step (\d+)/(\d+)", command=loop, by="tsbatch")
    centre.wait_until(lambda: centre.published(job).get("remaining"), "it has no remaining time", job)
    found = centre.published(job)
    assert found["total_steps"] == 400
    assert not found["preemptable"], "it reports, and cannot save"
