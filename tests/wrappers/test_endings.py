"""The time limit, and what a run leaves in the log when it ends: one line for each event."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.wrappers.fake_squeue import FakeSqueue
from tiresias.protocol import control
from tiresias.wrappers import exit_status, registered_ranks, run_messages, time_limit

Site = Any  # conftest.py
PYTHON = shlex.quote(sys.executable)


def limited(seconds: float) -> dict[str, str]:
    """Slurm's variables of a run that ends in so many seconds."""
    now = int(time.time())
    return {"SLURM_JOB_START_TIME": str(now), "SLURM_JOB_END_TIME": str(int(now + seconds))}


def near_its_limit(site: Site, scontrol: str) -> dict[str, str]:
    """Return the variables of a run that saves at once for its limit, whose `scontrol` is this shell command."""
    program = site.folder / "scontrol"
    program.write_text(f"#!/bin/sh\n{scontrol}\n")
    program.chmod(0o755)
    path = {"PATH": f"{site.folder}:{os.environ['PATH']}"}
    return {"TIRESIAS_PARK_TIMEOUT": "0.2"} | path | limited(time_limit.LEAST + 2)


def test_it_saves_before_its_time_limit(site: Site) -> None:
    job = site.start(site.train.replace("300", "100000"), **limited(time_limit.LEAST + 3))
    job.until(lambda report: report.state == "parked")
    assert job.report().why == "limit"
    assert "the time limit is near: checkpoint signal sent to" in job.log.read_text()
    job.until_logged(f"run 0 saved step {job.report().step} before its time limit")
    assert job.send(signal.SIGTERM).end() == 99
    last = site.start(site.train, restart=1)
    last.until_logged(f"run 1 resumes from step {job.report().step}")


def test_at_its_limit_a_job_asks_for_its_requeue_itself(site: Site) -> None:
    """When no requeue came. Without scontrol it logs that and waits for its end: the checkpoint stays."""
    words = {"TIRESIAS_PARK_TIMEOUT": "0.2", "PATH": str(site.folder)} | limited(time_limit.LEAST + 2)
    job = site.start(site.train.replace("300", "100000"), **words)
    job.until_logged("no requeue came, and the job's own request failed: there is no scontrol here")
    assert job.report().state == "parked"
    assert job.send(signal.SIGTERM).end() == 99


def test_the_last_task_of_an_array_requeues_itself_alone(site: Site) -> None:
    """Its SLURM_JOB_ID is that of the array: `scontrol requeue` of that one requeues all tasks."""
    words = near_its_limit(site, 'echo "$@" > called')
    array = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    job = site.start(site.train.replace("300", "100000"), **words, **array)
    job.until_logged("requeued by itself")
    assert (site.folder / "called").read_text() == "requeue 7_3\n"
    assert job.send(signal.SIGTERM).end() == control.EXIT_REQUEUE


@pytest.mark.slow
def test_a_job_preempted_shortly_before_its_limit_requests_its_requeue_too(site: Site) -> None:
    """The controller may not come back in time."""
    words = {"PATH": str(site.folder)} | limited(time_limit.LEAST + 10)
    job = site.start(site.train.replace("300", "100000"), **words).preempt()
    assert job.report().why == ""
    job.until_logged("no requeue came, and the job's own request failed: there is no scontrol here")
    assert job.send(signal.SIGTERM).end() == 99


def test_a_requeue_that_slurm_does_not_receive_is_requested_again(site: Site) -> None:
    """slurmctld does not answer: it ends no job meanwhile, and gets the request before it ends this one."""
    words = near_its_limit(site, "[ -e up ] || { echo 'Unable to contact slurm controller' >&2; exit 1; }")
    job = site.start(site.train.replace("300", "100000"), **words)
    job.until_logged("the job's own request failed: Unable to contact slurm controller; trying again")
    (site.folder / "up").touch()
    job.until_logged("requeued by itself")
    assert job.send(signal.SIGTERM).end() == 99


def test_it_saves_before_an_end_that_squeue_reports(site: Site) -> None:
    """As with Slurm 22.05, whose jobs have no SLURM_JOB_END_TIME."""
    end = FakeSqueue(site.folder).reports("16", time_limit.LEAST + 10)
    words = {"PATH": f"{site.folder}:{os.environ['PATH']}", "SQUEUE_STATES": "PD"}
    job = site.start(site.train.replace("300", "100000"), job="16", **words)
    job.until(lambda report: report.state == "parked")
    assert job.report().why == "limit"
    assert time.time() < end - 20
    assert job.send(signal.SIGTERM).end() == 99


def test_it_saves_before_an_end_that_moved_to_an_earlier_time(site: Site) -> None:
    """When the controller has signalled it. The script has the signal, too."""
    path = {"PATH": f"{site.folder}:{os.environ['PATH']}"}
    job = site.start(
        f"trap 'echo trapped' URG; {site.train.replace('300', '100000')} & wait; wait",
        job="16",
        **path,
        **limited(3600),
    )
    job.until(lambda report: report.ready and report.end is not None and report.end > time.time() + 3000)
    end = FakeSqueue(site.folder).reports("16", time_limit.LEAST + 2)
    job.send(signal.SIGURG)
    job.until(lambda report: report.end == end).until(lambda report: report.state == "parked")
    assert job.report().why == "limit"
    assert "the time limit was changed by -59 min: the run ends in" in job.log.read_text()
    assert "trapped" in job.log.read_text()
    assert job.send(signal.SIGTERM).end() == 99


@pytest.mark.parametrize("then", ["exec sleep 1000", "exit 1", "cat /dev/zero | head -c 300000; exit 0", "kill -9 $$"])
def test_a_squeue_that_reports_no_end_changes_nothing(site: Site, then: str) -> None:
    squeue = FakeSqueue(site.folder, then)
    words = {"PATH": f"{site.folder}:{os.environ['PATH']}"}
    job = site.start(site.train.replace("300", "100000"), job="16", **words)
    job.until(lambda report: report.ready and bool(squeue.calls))
    job.preempt()
    assert job.report().why == ""
    assert job.send(signal.SIGTERM).end() == 99
    assert "squeue" not in job.log.read_text()


def test_a_script_that_cannot_save_gets_its_whole_time(site: Site) -> None:
    job = site.start("sleep 3; echo whole", **limited(5))
    assert job.end() == 0
    assert job.log.read_text() == "whole\n"


@pytest.mark.parametrize(
    ("env", "end"),
    [
        ({}, None),
        ({"SLURM_JOB_START_TIME": "100", "SLURM_JOB_END_TIME": "160"}, 160.0),
        ({"SLURM_JOB_START_TIME": "100", "SLURM_JOB_END_TIME": str(100 + 365 * 86400)}, float("inf")),
        ({"SLURM_JOB_START_TIME": "100", "SLURM_JOB_END_TIME": "-5"}, None),
        ({"SLURM_JOB_START_TIME": "100", "SLURM_JOB_END_TIME": "x"}, None),
        ({"SLURM_JOB_START_TIME": "160", "SLURM_JOB_END_TIME": "160"}, None),
        ({"SLURM_JOB_START_TIME": "1", "SLURM_JOB_END_TIME": "9" * 5000}, None),
    ],
)
def test_the_end_time_from_slurm(env: dict[str, str], end: float | None) -> None:
    assert time_limit.end_time(env) == end


@pytest.mark.parametrize(
    ("length", "save", "seconds"),
    [(60, None, 30), (1200, None, 120), (86400, None, 300), (86400, 5.0, 75), (86400, 600.0, 1860), (1200, 600.0, 600)],
)
def test_how_long_before_the_end(length: float, save: float | None, seconds: float) -> None:
    """A known save makes it exact; it never takes more than half of the time."""
    assert time_limit.lead(length, save) == seconds


def test_a_run_that_was_cut_off_is_reported(site: Site) -> None:
    """A node that failed: no process could report anything."""
    job = site.start(site.train).until(lambda report: report.ready)
    for name in registered_ranks.names(site.control() / control.RANKS):
        os.kill(int(name.split("-")[-2]), signal.SIGKILL)
    job.process.kill()
    job.end()
    last = site.start(site.train, restart=1)
    assert last.end() == 0
    assert "run 1 begins; run 0 was cut off before it could save" in last.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


def test_a_rank_that_is_killed_ends_the_job_with_a_line(site: Site) -> None:
    """As the kernel does when memory runs out."""
    job = site.start(f"exec {site.train}").until(lambda report: report.ready)
    os.kill(int(registered_ranks.names(site.control() / control.RANKS)[0].split("-")[-2]), signal.SIGKILL)
    assert job.end() == -9
    line = "run 0 ended with signal 9: a process was killed, as the kernel does when memory runs out; there is no checkpoint"
    assert line in job.log.read_text()
    assert job.report().state == "ended"


def test_what_the_next_run_does_again(site: Site) -> None:
    """It saved at step 20 and was killed at step 49, which it had reported."""
    program = (
        "import os; from tiresias.checkpoint import Checkpointer; c = Checkpointer.from_env(); f = c.restore()\n"
        "c.should_stop(f.step if f else 0)\nif not f: c.save(20, {}); os.kill(os.getpid(), 9)"
    )
    script = f"exec {PYTHON} -c {shlex.quote(program)}"
    assert site.start(script).end() == -9
    report = control.read(site.control() / control.PROGRAM, os.getuid())
    control.write(site.control(), control.PROGRAM, report | {"at": 49})
    job = site.start(script, restart=1)
    assert job.end() == 0
    found = job.report()
    assert (found.resumed, found.redone) == (20, 29)
    assert found.restore is not None
    assert 0 < found.restore < 60


@pytest.mark.parametrize(
    ("code", "terminated", "words"),
    [
        (1, False, "exit code 1"),
        (139, False, "SIGSEGV"),
        (143, True, "Slurm sent SIGTERM"),
        (255, False, "exit code 255"),
        (-11, False, "signal 11: a process died of SIGSEGV"),
    ],
)
def test_the_words_of_an_end(code: int, terminated: bool, words: str) -> None:
    assert words in run_messages.ended(code, terminated)


# a job that does not come back


def test_a_job_without_requeue_releases_its_gpus_once_it_saved_for_its_limit(site: Site) -> None:
    words = {"TIRESIAS_NO_REQUEUE": "1"} | limited(time_limit.LEAST + 2)
    job = site.start(site.train.replace("300", "100000"), **words)
    assert job.end() == control.EXIT_REQUEUE
    assert time.time() < float(words["SLURM_JOB_END_TIME"]) - 10, "it held its GPUs"
    assert job.report().state == "ended"
    assert "The job ends here and releases its GPUs; its checkpoints are in" in job.log.read_text()
    assert "waits for the requeue" not in job.log.read_text()


def test_a_job_whose_requeue_slurm_refuses_for_good_ends(site: Site) -> None:
    scontrol = site.folder / "scontrol"
    scontrol.write_text("#!/bin/sh\necho 'Requested operation is presently disabled for job 7' >&2; exit 1\n")
    scontrol.chmod(0o755)
    words = {"TIRESIAS_PARK_TIMEOUT": "0.2", "PATH": f"{site.folder}:{os.environ['PATH']}"} | limited(
        time_limit.LEAST + 2
    )
    job = site.start(site.train.replace("300", "100000"), **words)
    assert job.end() == control.EXIT_REQUEUE
    assert time.time() < float(words["SLURM_JOB_END_TIME"]) - 10, "it held its GPUs"
    assert "Slurm does not requeue it: Requested operation is presently disabled" in job.log.read_text()


@pytest.mark.parametrize(("codes", "state"), [({}, "ended"), ({"TIRESIAS_FINAL_CODES": "3"}, "parked")])
def test_an_exit_code_that_forbids_a_requeue(site: Site, codes: dict[str, str], state: str) -> None:
    """The script saved on request, and ends with 93 nevertheless."""
    job = site.start(f"{site.train}; exit 93", **codes).until(lambda report: report.ready)
    job.send(signal.SIGUSR2).until(lambda report: report.state == state)
    if state == "ended":
        assert job.end() == 93
        assert "exit code 93, which TIRESIAS_FINAL_CODES lists" in job.log.read_text()
    else:
        assert job.send(signal.SIGTERM).end() == control.EXIT_REQUEUE


@pytest.mark.parametrize(
    ("given", "codes"),
    [(None, {93}), ("93, 3", {93, 3}), ("none", set()), ("0,99,7", {7}), ("x,5", {5}), ("\u0663", set())],
)
def test_which_exit_codes_forbid_it(given: str | None, codes: set[int], capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_status.final_codes({"TIRESIAS_FINAL_CODES": given} if given else {}) == codes
    assert ("is not an exit code" in capfd.readouterr().err) == (given in ("x,5", "\u0663"))


# a save that hangs


def test_a_late_save_is_logged(site: Site) -> None:
    job = site.start(site.train, TIRESIAS_SAVE_DEADLINE="0.3").until(lambda report: report.ready)
    program = int(registered_ranks.names(site.control() / control.RANKS)[0].split("-")[-2])
    os.kill(program, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until_logged("the program has not saved in time (1 processes here and 0 on other nodes")
    assert "the job keeps its GPUs, and is not asked to save again in this run" in job.log.read_text()
    os.kill(program, signal.SIGCONT)
    job.until(lambda report: report.state == "parked")
    assert job.log.read_text().count("has not saved in time") == 1
    assert job.send(signal.SIGTERM).end() == control.EXIT_REQUEUE


@pytest.mark.parametrize(
    ("step", "limit_in", "report"),
    [
        (-1, None, "the job keeps its GPUs, and is not asked"),
        (20, None, "requeues the job to its checkpoint of step 20, and later steps are lost"),
        (20, 14.6, "the time limit ends this job in 15 s, and what it did after step 20 is lost"),
        (-1, -3.0, "the time limit ends this job in 0 s, and all its work is lost"),
    ],
)
def test_what_follows_from_a_late_save(step: int, limit_in: float | None, report: str) -> None:
    assert report in run_messages.late_words(8, 24, step, limit_in)


def test_a_run_after_its_time_limit_logs_it(site: Site) -> None:
    job = site.start(site.train.replace("300", "100000"), **limited(time_limit.LEAST + 1))
    job.until(lambda report: report.state == "parked").send(signal.SIGTERM).end()
    last = site.start("true", restart=1)
    assert last.end() == 0
    assert "run 1 begins with a new time limit; run 0 saved before its own was over" in last.log.read_text()


def test_out_of_memory_is_read_where_slurm_keeps_jobs_in_cgroups(tmp_path: Path) -> None:
    job = tmp_path / "system.slice/slurmstepd.scope/job_7"
    job.mkdir(parents=True)
    (job / "memory.events").write_text("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n")
    own = tmp_path / "cgroup"
    own.write_text("0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n")
    assert run_messages.out_of_memory(own, tmp_path) == 2
    own.write_text("0::/user.slice\n")
    assert run_messages.out_of_memory(own, tmp_path) == 0
    assert run_messages.out_of_memory(tmp_path / "none", tmp_path) == 0
