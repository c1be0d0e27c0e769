"""Who is preempted, who never is, and what becomes of a job that does not save. Real Slurm, real jobs."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest

pytestmark = pytest.mark.sandbox
Centre = Any  # conftest.py


def test_a_preempted_job_resumes_at_once_and_ends_as_if_nothing_had_been(centre: Centre) -> None:
    before = totals(centre)
    whale = centre.train(gpus=16, seconds=4)
    centre.trains(whale)
    small = centre.submit(command="sleep 1", user="bob")
    assert centre.reaches(small, "COMPLETED")["Restarts"] == "0"
    record = centre.reaches(whale, "COMPLETED")
    assert record["Restarts"] == "1"
    first, second = centre.explain(whale)["runs"]
    gap = second["start"] - max(first["end"], _epoch(centre.show(small)["EndTime"]))
    assert gap <= 15, "Slurm's own wait for a requeued job is 121 s"
    assert [run["beneficiary"] for run in centre.explain(whale)["runs"]] == [small, ""]
    (had,) = centre.ask(op="history", job=whale)["jobs"]
    assert (had["runs"], had["preemptions"], had["saving"] > 0, had["parked"] > 0) == (2, 1, True, True)
    counted = {name: value - before[name] for name, value in totals(centre).items()}
    assert (counted["runs"], counted["preemptions"]) == (3, 1)
    assert {name: counted[name] for name in LOST} == pytest.approx({name: had[name] for name in LOST}, abs=0.01)
    assert counted["waited"] >= had["queued"] + had["parked"]
    output = centre.output(whale)
    assert "done at step 80" in output
    resumed = [int(line.split()[-1]) for line in output.splitlines() if line.startswith("from step")]
    assert len(resumed) == 2
    assert resumed[0] == 0 < resumed[1]


LOST = ("saving", "restoring", "redone")


def totals(centre: Centre) -> dict[str, float]:
    """Sums for metrics, of the partition."""
    rows = [row for row in centre.status()["totals"] if row["partition"] == "gpu"]
    return {name: sum(row[name] for row in rows) for name in ("runs", "preemptions", "waited", *LOST)}


def test_jobs_that_cannot_come_back_are_never_preempted(centre: Centre) -> None:
    plain = centre.submit(gpus=4)
    silent = centre.submit(gpus=2, by="tsbatch")
    unwilling = centre.train("--no-requeue", gpus=4)
    exempt = centre.train(gpus=2, env={"TIRESIAS_CHECKPOINT": "none"})
    with centre.srun("--gpus=4", "--ntasks=4", "--gpus-per-task=1", "sleep", "300") as allocation:
        jobs = [plain, silent, unwilling, exempt, allocation]
        for job in jobs:
            centre.reaches(job, "RUNNING")
        waiting = centre.train(user="bob")
        centre.until(lambda: all(centre.published(job).get("queue") == 1 for job in jobs), "not demoted", *jobs)
        centre.until(lambda: centre.published(waiting), "not seen", waiting)
        centre.cycles(3)
        assert [centre.said(job, "preempt") for job in jobs] == [[]] * 5
        assert [centre.show(job)["Priority"] == "0" for job in jobs] == [False] * 5, "one of them was held"
        for job in (plain, silent, exempt):
            assert "has not shown that it can checkpoint" in centre.why(job)
        assert "--no-requeue" in centre.why(unwilling)
        assert "srun or salloc" in centre.why(allocation)
        assert centre.published(waiting)["why"].startswith("waits")


def test_a_job_younger_than_min_run_is_not_preempted(centre: Centre) -> None:
    centre.restart(policy={"min_run": 600.0})
    whale = centre.train(gpus=16)
    centre.trains(whale)
    small = centre.submit(user="bob")
    centre.until(lambda: centre.published(whale)["queue"] == 1 and centre.published(small), "not demoted", whale)
    centre.cycles(3)
    assert centre.said(whale, "preempt") == []
    assert re.search(r"not preempted before \d\d:\d\d:\d\d: minimum run time not reached", centre.why(whale))
    assert centre.published(small)["state"] == "WAITING"
    outlook = centre.explain(small)["outlook"]
    assert (outlook["behind"], outlook["ahead"], outlook["free"]) == (16, 0, 0)
    assert "policy.min_run" in outlook["steps"][0]["what"]
    assert outlook["latest"] == outlook["steps"][0]["time"] > time.time()


def test_nobody_is_preempted_for_a_start_that_it_would_not_make_possible(centre: Centre) -> None:
    stone = centre.submit("--nodelist=gpu01", gpus=4)  # cannot be preempted
    centre.reaches(stone, "RUNNING")
    others = [centre.train(gpus=4) for _ in range(3)]
    for job in others:
        centre.trains(job)
    stuck = centre.submit("--nodelist=gpu01", gpus=4, user="bob")
    centre.until(lambda: all(centre.published(job)["queue"] == 1 for job in others), "not demoted", *others)
    centre.until(lambda: centre.published(stuck), "not seen", stuck)
    centre.cycles(3)
    assert [centre.said(job, "preempt") for job in others] == [[]] * 3
    assert "on no nodes that fit" in centre.why(stuck)


def test_a_job_that_never_commits_runs_on(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    whale = centre.train(gpus=16, habit="ignores")
    centre.trains(whale)
    small = centre.submit(user="bob")
    centre.until(lambda: centre.said(whale, "left running"), "the deadline is not kept", whale)
    assert "did not save within 2 s" in centre.why(whale)
    record = centre.show(whale)
    assert (record["JobState"], record["Restarts"], record["Priority"] != "0") == ("RUNNING", "0", True)
    centre.cycles(3)
    assert len(centre.said(whale, "preempt")) == 1, "it is not tried again in the same run"
    assert centre.published(small)["state"] == "WAITING"


def test_a_job_that_hangs_while_saving_goes_back_to_its_older_checkpoint(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    whale = centre.train(gpus=16, seconds=3, habit="hangs")
    centre.trains(whale)
    first = centre.cluster.shared / "tiresias/checkpoints" / whale / "step-5"
    centre.until(first.exists, "it saves no first checkpoint", whale)
    small = centre.submit(command="sleep 1", user="bob")
    centre.reaches(small, "COMPLETED")
    assert centre.reaches(whale, "COMPLETED")["Restarts"] == "1"
    assert "from step 5\n" in centre.output(whale)
    assert "done at step 60" in centre.output(whale)


def test_a_job_that_saves_too_late_is_not_left_parked(centre: Centre) -> None:
    centre.restart(preemption={"deadline": 2.0})
    whale = centre.train(gpus=16, seconds=3, habit="slow")
    centre.trains(whale)
    small = centre.submit(command="sleep 1", user="bob")
    centre.until(lambda: centre.said(whale, "left running"), "the deadline is not kept", whale)
    centre.reaches(small, "COMPLETED", seconds=30)  # without waiting for the supervisor's own patience, 90 s
    assert centre.reaches(whale, "COMPLETED")["Restarts"] == "1"
    assert "done at step 60" in centre.output(whale)


def test_a_job_that_ends_while_it_is_being_preempted_has_ended(centre: Centre) -> None:
    whale = centre.train(gpus=16, seconds=3, habit="ignores")
    centre.trains(whale)
    small = centre.submit(user="bob")
    centre.until(lambda: centre.said(whale, "preempt"), "not preempted", whale)
    assert centre.reaches(whale, "COMPLETED")["Restarts"] == "0"
    centre.reaches(small, "RUNNING")
    centre.until(lambda: centre.said(whale, "ended"), "the preemption is not over", whale)
    assert centre.explain(whale)["job"]["state"] == "ENDED"


def test_a_job_cancelled_while_it_saves_is_gone(centre: Centre) -> None:
    whale = centre.train(gpus=16, habit="ignores")
    centre.trains(whale)
    small = centre.submit(user="bob")
    centre.until(lambda: centre.published(whale).get("phase") == "saving", "it does not save", whale)
    centre.cancel(whale)
    centre.reaches(small, "RUNNING")
    centre.reaches(whale, "CANCELLED")
    centre.until(lambda: centre.said(whale, "ended"), "the preemption is not over", whale)


def test_a_user_who_requeues_a_job_that_is_being_preempted_does_no_harm(centre: Centre) -> None:
    whale = centre.train(gpus=16, seconds=5, habit="ignores")
    centre.trains(whale)
    small = centre.submit(command="sleep 1", user="bob")
    centre.until(lambda: centre.published(whale).get("phase") == "saving", "it does not save", whale)
    centre.scontrol("requeue", whale, user="alice")
    centre.reaches(small, "COMPLETED")
    assert centre.reaches(whale, "COMPLETED")["Restarts"] == "1"
    assert len(centre.explain(whale)["runs"]) == 2


def test_a_job_that_its_owner_holds_while_it_runs_stays_held_after_its_preemption(centre: Centre) -> None:
    whale = centre.train(gpus=16, seconds=3)
    centre.trains(whale)
    centre.scontrol("hold", whale, user="alice")
    small = centre.submit(command="sleep 1", user="bob")
    centre.reaches(small, "COMPLETED")
    centre.cycles(3)
    record = centre.show(whale)
    assert (record["JobState"], record["Reason"]) == ("PENDING", "JobHeldUser")
    centre.scontrol("release", whale, user="alice")
    assert centre.reaches(whale, "COMPLETED")["Restarts"] == "1"


def _epoch(stamp: str) -> float:
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
