"""A job that reports its progress, on a real Slurm: its remaining time in `status`, `explain` and the journal."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]

SECONDS = 120.0


SOCKET = ("--socket", "/run/tiresias/control.sock")


def reported(centre: Centre, job: str) -> Any:
    return json.loads(centre.cluster.run(["tiresias", "progress", job, "--json", *SOCKET], user="alice").stdout)


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

    centre.wait_until(lambda: len(reported(centre, job)["losses"]) > 2, "the journal has no losses", job)
    centre.wait_until(lambda: centre.published(job).get("end"), "no end is predicted", job)
    end = centre.published(job)
    assert end["end_low"] <= end["end"] <= end["end_high"]
    assert abs(end["end"] - end["start_time"] - SECONDS) < SECONDS
    page = centre.cluster.run(["tiresias", "progress", job, *SOCKET], user="alice").stdout
    assert "expected end" in page
    assert "│" in page

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
    assert len(reported(centre, job)["losses"]) > 2


def test_a_program_that_prints_its_steps_shows_its_remaining_time(any_centre: Centre) -> None:
    centre = any_centre
    loop = "for at in $(seq 1 400); do echo step $at/400; sleep 0.25; done"
    job = centre.submit(r"--steps-from=step (\d+)/(\d+)", command=loop, by="tsbatch")
    centre.wait_until(lambda: centre.published(job).get("remaining"), "it has no remaining time", job)
    found = centre.published(job)
    assert found["total_steps"] == 400
    assert not found["preemptable"], "it reports, and cannot save"


def test_two_sizes_of_an_elastic_job_predict_the_others(centre: Centre) -> None:
    policy = {"sizing": "marginal_gain", "preemption_cost": 1.0, "cooldown": 0.0}
    centre.restart(policy=policy, placement={"trial": "anywhere"}, progress={"timed": 4.0})
    request = ("--elastic=2-16:2", "--ntasks=4", "--gpus-per-task=1")
    job = centre.train(*request, gpus=0, seconds=600, habit="reports")
    centre.wait_until(lambda: (16, True) in sizes(centre, job), "its steps on 16 GPUs are not timed", job)
    assert (centre.published(job)["min_gpus"], centre.published(job)["max_gpus"]) == (2, 16)
    shown = ["squeue", "--noheader", f"--job={job}", "-O", "admin_comment:120"]
    ends = r"Tiresias: 16 GPUs \(elastic: 2 to 16\); ends about \S+ \(90%: \S+ to \S+\)"
    centre.wait_until(lambda: re.match(ends, centre.cluster.run(shown).stdout), "no comment", job, seconds=180)
    other = centre.train(gpus=6, seconds=600, user="bob")
    centre.wait_for_state(other, "RUNNING")
    centre.wait_until(lambda: (10, True) in sizes(centre, job), "its steps on 10 GPUs are not timed", job)
    centre.wait_until(lambda: reported(centre, job)["sizes"], "no other size is predicted", job)
    predicted = {one["gpus"]: one["seconds"] for one in reported(centre, job)["sizes"]}
    assert predicted.keys() == set(range(2, 17))
    assert predicted[16] == pytest.approx(predicted[10], rel=0.3), (
        "its program makes as many steps with any number of GPUs"
    )
    text = explained(centre, job)
    assert "shrank from 16 to 10 GPUs in run" in text
    assert f"for job {other}" in text, "it was preempted for the job that waited"


def sizes(centre: Centre, job: str) -> list[tuple[int, bool]]:
    """Return the GPUs of each run, and whether its steps are timed."""
    query = f"select gpus, timed is not null from run join job using (key) where id = '{job}' order by restart"
    return [(gpus, bool(timed)) for gpus, timed in centre.query_journal(query)]


@pytest.mark.long
def test_a_new_job_is_timed_at_several_sizes(centre: Centre) -> None:
    policy = {
        "sizing": "marginal_gain",
        "preemption_cost": 1.0,
        "cooldown": 0.0,
        "size_samples": 3,
        "sample_time": 10.0,
    }
    centre.restart(policy=policy, placement={"trial": "anywhere"}, progress={"timed": 2.0})
    request = ("--elastic=2-16:2", "--ntasks=4", "--gpus-per-task=1")
    job = centre.train(*request, gpus=0, seconds=600, habit="reports")
    centre.wait_until(lambda: len({gpus for gpus, _ in sizes(centre, job)}) >= 3, "not three sizes", job)
    centre.wait_until(lambda: reported(centre, job)["sizes"], "no size is predicted", job)
    samples = [why for why in centre.reasons(job, "resize") if "to time its steps there (policy.size_samples)" in why]
    assert len(samples) >= 2, "each sample after the first run is a change of size"
