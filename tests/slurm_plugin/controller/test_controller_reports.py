"""A job that reports its progress, on a real Slurm: its remaining time in `status`, `explain` and the journal."""

from __future__ import annotations

import re

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

SECONDS = 120.0


def explained(centre: Centre, job: str) -> str:
    words = ["tiresias", "explain", job, "--socket", "/run/tiresias/control.sock"]
    return re.sub(r"\s+", " ", str(centre.cluster.run(words, user="alice").stdout))


def test_a_job_that_reports_its_progress_shows_its_remaining_time(any_centre: Centre) -> None:
    centre = any_centre
    job = centre.train(gpus=16, seconds=SECONDS, habit="reports")
    centre.wait_until(lambda: centre.published(job).get("remaining"), "it has no remaining time", job)
    found = centre.published(job)
    assert found["total_steps"] == SECONDS * 20
    assert 0 < found["remaining"] < 3 * SECONDS  # a busy machine trains more slowly
    assert re.search(
        r"progress step [\d,]+ of 2,400, (about \d+ min|less than a minute) left, as its program reports",
        explained(centre, job),
    )

    other = centre.submit(gpus=16, user="bob")
    centre.wait_for_state(other, "RUNNING")
    query = f"select progress, total_steps, claim_at + claim_left > 0 from job where id = '{job}'"
    progress, total, claims = centre.query_journal(query)[0]
    assert progress > 0
    assert (total, claims) == (SECONDS * 20, 1)
    centre.stop()
    centre.start(centre.config)
    assert centre.published(job)["state"] == "WAITING"
    assert 0 < centre.published(job)["remaining"] < 3 * SECONDS, "a restarted controller has it from the journal"
    assert "left, as its program reports" in explained(centre, job)


def test_a_program_that_prints_its_steps_shows_its_remaining_time(any_centre: Centre) -> None:
    centre = any_centre
    loop = "for at in $(seq 1 400); do echo step $at/400; sleep 0.25; done"
    job = centre.submit(r"--steps-from=step (\d+)/(\d+)", command=loop, by="tsbatch")
    centre.wait_until(lambda: centre.published(job).get("remaining"), "it has no remaining time", job)
    found = centre.published(job)
    assert found["total_steps"] == 400
    assert not found["preemptable"], "it reports, and cannot save"
