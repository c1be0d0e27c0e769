"""Reading back what trainers and Slurm wrote, with hand-written logs."""

from __future__ import annotations

import json
from pathlib import Path

from tiresias.sandbox.replay import invariants
from tiresias.sandbox.replay.replay_results import NEVER, JobLog, JobResult, JobRun, slurm_runs
from tiresias.sandbox.trainer_state import TrainerState
from tiresias.simulator.trace import TraceJob

START = {
    "event": "start", "time": 10.0, "restart": 0, "first_step": 0, "redone": 0, "nodes": 1, "gpus": 1, "slowdown": 1.0
}  # fmt: skip
STOP = {"event": "stop", "time": 15.0, "step": 50}
AGAIN = START | {"time": 20.0, "restart": 1, "first_step": 50}
FINISH = {"event": "finish", "time": 30.0, "step": 150, "steps": 150, "curve": "00"}
JOB = TraceJob("7", 0.0, 1, 100.0, "", "", "", "")


def write(path: Path, *events: dict[str, object], tail: str = "") -> JobLog:
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + tail)
    return JobLog(path)


def test_a_log_is_followed_as_it_grows(tmp_path: Path) -> None:
    log = write(tmp_path / "7.jsonl", START, tail='{"event": "st')
    log.follow()
    assert log.running
    with log.path.open("w") as file:
        file.write("".join(json.dumps(event) + "\n" for event in (START, STOP, AGAIN)))
    log.follow()
    assert log.runs[0].end == 15.0
    assert log.running
    assert not log.finished
    with log.path.open("a") as file:
        file.write(json.dumps(FINISH) + "\n")
    log.follow()
    assert log.finished
    assert (log.finish, log.steps, log.runs[1].end, log.runs[1].last_step) == (30.0, 150, 30.0, 150)


def test_no_log_yet(tmp_path: Path) -> None:
    log = JobLog(tmp_path / "7.jsonl")
    log.follow()
    assert not log.running
    assert not log.finished


def run(start: float, end: float, redone: int = 0) -> JobRun:
    return JobRun(0, start, 0, redone, 1, 1.0, end, 1)


def finished(*runs: JobRun, curve: str = "") -> JobResult:
    return JobResult(JOB, "12", 0.0, runs, runs[-1].end, 150, curve)


def right_curve() -> str:
    state = TrainerState.fresh(JOB.job_id)
    state.advance(150)
    return state.curve_text


def test_a_sound_job_breaks_nothing() -> None:
    counts = invariants.count([finished(run(1, 2), run(2, 3), curve=right_curve())], {})
    assert counts == {
        "lost": 0,
        "run_twice": 0,
        "steps_redone": 0,
        "killed_runs": 0,
        "curves_differ": 0,
        "runs": 2,
        "slurm_runs": 0,
    }


def test_each_fault_is_counted() -> None:
    twice = finished(run(1, 3), run(2, 4), curve=right_curve())
    killed = finished(run(1, NEVER), run(2, 4, redone=9), curve=right_curve())
    lost = finished(run(1, NEVER))
    wrong = finished(run(1, 2), curve="0" * 16)
    counts = invariants.count([twice, killed, lost, wrong], {})
    faults = ("lost", "run_twice", "steps_redone", "killed_runs", "curves_differ")
    assert [counts[name] for name in faults] == [1, 1, 9, 2, 1]


def test_slurms_log(tmp_path: Path) -> None:
    log = tmp_path / "jobcomp.log"
    log.write_text(
        "JobId=12 UserId=bob(2002) Name=a=b JobState=REQUEUED StartTime=2026-11-21T03:16:03 EndTime=2026-11-21T03:16:08 \n"
        "JobId=13 UserId=bob(2002) Name=x JobState=CANCELLED StartTime=Unknown EndTime=2026-11-21T03:16:09 \n"
        "JobId=12 UserId=bob(2002) Name=x JobState=COMPLETED StartTime=2026-11-21T03:17:00 EndTime=2026-11-21T03:18:00 \n"
    )
    runs = slurm_runs(log)
    assert [(each.end - each.start, each.state) for each in runs["12"]] == [(5, "REQUEUED"), (60, "COMPLETED")]
    assert "13" not in runs
    assert slurm_runs(tmp_path / "none") == {}
