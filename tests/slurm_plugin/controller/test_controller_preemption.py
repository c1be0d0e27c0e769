"""Which jobs are preempted, which never are, and preempted jobs that do not save. Real Slurm, real jobs."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = pytest.mark.sandbox


def test_a_preempted_job_resumes_at_once_and_completes(centre: Centre) -> None:
    before = totals(centre)
    large = centre.train(gpus=16, seconds=4, until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    assert centre.wait_for_state(small, "COMPLETED")["Restarts"] == "0"
    record = centre.wait_for_state(large, "COMPLETED")
    assert record["Restarts"] == "1"
    first, second = centre.explain(large)["runs"]
    gap = second["start"] - max(first["end"], _epoch(centre.show(small)["EndTime"]))
    assert gap <= 15, "Slurm's own wait for a requeued job is 121 s"
    assert [run["beneficiary"] for run in centre.explain(large)["runs"]] == [small, ""]
    history = centre.wait_until(lambda: ended(centre, large), "its end is not in the history", large)
    assert (history["runs"], history["preemptions"], history["saving"] > 0, history["parked"] > 0) == (2, 1, True, True)
    counted = {name: value - before[name] for name, value in totals(centre).items()}
    assert (counted["runs"], counted["preemptions"]) == (3, 1)
    assert {name: counted[name] for name in LOST} == pytest.approx({name: history[name] for name in LOST}, abs=0.01)
    assert counted["waited"] >= history["queued"] + history["parked"]
    output = centre.output(large)
    assert "done at step 80" in output
    resumed = [int(line.split()[-1]) for line in output.splitlines() if line.startswith("from step")]
    assert len(resumed) == 2
    assert resumed[0] == 0 < resumed[1]


LOST = ("saving", "restoring", "redone")


def ended(centre: Centre, job: str) -> dict[str, Any]:
    """Return the history of a job that has ended, else {}: of a completing job the time since its last run counts as a wait."""
    (history,) = centre.ask(op="history", job=job)["jobs"]
    return history if history["end"] else {}


def totals(centre: Centre) -> dict[str, float]:
    """Return the published sums of the partition."""
    rows = [row for row in centre.status()["totals"] if row["partition"] == "gpu"]
    return {name: sum(row[name] for row in rows) for name in ("runs", "preemptions", "waited", *LOST)}


def test_jobs_that_cannot_resume_are_never_preempted(centre: Centre) -> None:
    plain = centre.submit(gpus=4)
    silent = centre.submit(gpus=2, by="tsbatch")
    unrequeueable = centre.train("--no-requeue", gpus=4)
    exempt = centre.train(gpus=2, env={"TIRESIAS_CHECKPOINT": "none"})
    with centre.srun("--gpus=4", "--ntasks=4", "--gpus-per-task=1", "sleep", "300") as allocation:
        jobs = [plain, silent, unrequeueable, exempt, allocation]
        for job in jobs:
            centre.wait_for_state(job, "RUNNING")
        waiting = centre.train(user="bob")
        centre.wait_until(lambda: all(centre.published(job).get("queue") == 1 for job in jobs), "not demoted", *jobs)
        centre.wait_until(lambda: centre.published(waiting), "not seen", waiting)
        centre.wait_for_cycles(3)
        assert [centre.reasons(job, "preempt") for job in jobs] == [[]] * 5
        assert [centre.show(job)["Priority"] == "0" for job in jobs] == [False] * 5, "one of them was held"
        for job in (plain, silent, exempt):
            assert "has not shown that it can checkpoint" in centre.why(job)
        assert "--no-requeue" in centre.why(unrequeueable)
        assert "srun or salloc" in centre.why(allocation)
        assert centre.published(waiting)["why"].startswith("waits")


def test_a_job_below_its_minimum_run_time_is_not_preempted(centre: Centre) -> None:
    centre.restart(policy={"min_run": 600.0})
    large = centre.train(gpus=16)
    centre.wait_until_preemptable(large)
    small = centre.submit(user="bob")
    centre.wait_until(lambda: centre.published(large)["queue"] == 1 and centre.published(small), "not demoted", large)
    centre.wait_for_cycles(3)
    assert centre.reasons(large, "preempt") == []
    assert re.search(r"not preempted before \d\d:\d\d:\d\d: minimum run time not reached", centre.why(large))
    assert centre.published(small)["state"] == "WAITING"
    forecast = centre.explain(small)["outlook"]
    assert (forecast["behind"], forecast["ahead"], forecast["free"]) == (16, 0, 0)
    assert "policy.min_run" in forecast["steps"][0]["what"]
    assert forecast["latest"] == forecast["steps"][0]["time"] > time.time()


def test_no_job_is_preempted_for_a_start_that_stays_impossible(centre: Centre) -> None:
    fixed = centre.submit("--nodelist=gpu01", gpus=4)  # cannot be preempted
    centre.wait_for_state(fixed, "RUNNING")
    others = [centre.train(gpus=4) for _ in range(3)]
    for job in others:
        centre.wait_until_preemptable(job)
    stuck = centre.submit("--nodelist=gpu01", gpus=4, user="bob")
    centre.wait_until(lambda: all(centre.published(job)["queue"] == 1 for job in others), "not demoted", *others)
    centre.wait_until(lambda: centre.published(stuck), "not seen", stuck)
    centre.wait_for_cycles(3)
    assert [centre.reasons(job, "preempt") for job in others] == [[]] * 3
    assert "on no nodes that fit" in centre.why(stuck)


def test_a_job_that_never_commits_runs_on(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    large = centre.train(gpus=16, habit="ignores")
    centre.wait_until_preemptable(large)
    small = centre.submit(user="bob")
    centre.wait_until(
        lambda: centre.reasons(large, "left running"), "the preemption does not end at the deadline", large
    )
    centre.wait_until(lambda: "did not save within 2 s" in centre.why(large), "the reason is not published", large)
    record = centre.show(large)
    assert (record["JobState"], record["Restarts"], record["Priority"] != "0") == ("RUNNING", "0", True)
    centre.wait_for_cycles(3)
    assert len(centre.reasons(large, "preempt")) == 1, "it is preempted again in the same run"
    assert centre.published(small)["state"] == "WAITING"


def test_a_job_that_hangs_while_saving_resumes_from_its_older_checkpoint(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    large = centre.train(gpus=16, seconds=3, habit="hangs", until_preempted=True)
    centre.wait_until_preemptable(large)
    first = centre.cluster.shared / "tiresias/checkpoints" / large / "step-5"
    centre.wait_until(first.exists, "it saves no first checkpoint", large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    assert "from step 5\n" in centre.output(large)
    assert "done at step 60" in centre.output(large)


def test_a_job_that_saves_too_late_is_not_left_parked(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    large = centre.train(gpus=16, seconds=3, habit="slow", until_preempted=True)
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_until(
        lambda: centre.reasons(large, "left running"), "the preemption does not end at the deadline", large
    )
    centre.wait_for_state(small, "COMPLETED", seconds=30)  # long before the supervisor's own limit of 90 s
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    assert "done at step 60" in centre.output(large)


def test_a_job_that_ends_while_it_is_being_preempted_has_ended(centre: Centre) -> None:
    large = centre.train(gpus=16, habit="ends")
    centre.wait_until_preemptable(large)
    small = centre.submit(user="bob")
    centre.wait_until(lambda: centre.reasons(large, "preempt"), "not preempted", large)
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "0"
    centre.wait_for_state(small, "RUNNING")
    centre.wait_until(lambda: centre.reasons(large, "ended"), "the preemption is not over", large)
    assert centre.explain(large)["job"]["state"] == "ENDED"


def test_a_job_cancelled_while_it_saves_has_ended(centre: Centre) -> None:
    large = centre.train(gpus=16, habit="ignores")
    centre.wait_until_preemptable(large)
    small = centre.submit(user="bob")
    centre.wait_until(lambda: centre.published(large).get("phase") == "saving", "it does not save", large)
    centre.cancel(large)
    centre.wait_for_state(small, "RUNNING")
    centre.wait_for_state(large, "CANCELLED")
    centre.wait_until(lambda: centre.reasons(large, "ended"), "the preemption is not over", large)


def test_a_user_who_requeues_a_job_that_is_being_preempted_does_no_harm(centre: Centre) -> None:
    large = centre.train(gpus=16, seconds=5, habit="ignores", end="until-requeued")
    centre.wait_until_preemptable(large)
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_until(lambda: centre.published(large).get("phase") == "saving", "it does not save", large)
    centre.scontrol("requeue", large, user="alice")
    centre.wait_for_state(small, "COMPLETED")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"
    assert len(centre.explain(large)["runs"]) == 2


def test_a_job_that_its_owner_holds_while_it_runs_stays_held_after_its_preemption(centre: Centre) -> None:
    large = centre.train(gpus=16, seconds=3, until_preempted=True)
    centre.wait_until_preemptable(large)
    centre.scontrol("hold", large, user="alice")
    small = centre.submit(command="sleep 1", user="bob")
    centre.wait_for_state(small, "COMPLETED")
    centre.wait_for_cycles(3)
    record = centre.show(large)
    assert (record["JobState"], record["Reason"]) == ("PENDING", "JobHeldUser")
    centre.scontrol("release", large, user="alice")
    assert centre.wait_for_state(large, "COMPLETED")["Restarts"] == "1"


def _epoch(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
