"""The supervisor where the control folder or the checkpoint folder is missing, of another user, or of an older job."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tiresias.checkpoint import Store
from tiresias.protocol import control
from tiresias.wrappers import job as jobs


def test_a_control_root_that_cannot_be_used_costs_no_job(site: Any) -> None:
    (site.folder / "file").write_text("")
    site.roots["TIRESIAS_CONTROL_ROOT"] = str(site.folder / "file")
    job = site.start(site.train)
    assert job.end() == 0
    assert (site.folder / "result").read_text() == site.trained()
    assert job.log.read_text().count("this job will not be preempted") == 1


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_control_folder_of_someone_else_is_refused(site: Any, what: str) -> None:
    mine = site.control().parent
    mine.parent.mkdir()
    (site.folder / "elsewhere").mkdir()
    mine.symlink_to(site.folder / "elsewhere") if what == "link" else mine.write_text("")
    job = site.start("env | grep TIRESIAS_CONTROL=")
    assert job.end() == 1
    assert "is not a folder of yours; this job will not be preempted" in job.log.read_text()
    assert not list((site.folder / "elsewhere").iterdir())


@pytest.mark.parametrize("how", ["exec", ""])
def test_a_job_without_its_control_folder_continues_at_the_signal(site: Any, how: str) -> None:
    """The signal would kill a script that has no trap for it, and no report of a save could arrive."""
    job = site.start(f"{how} {site.train}").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    job.send(signal.SIGUSR2)
    assert job.end() == 0
    assert "the control folder is unavailable: the script continues" in job.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


@pytest.mark.slow
def test_a_control_folder_that_was_removed_is_made_again_by_the_program(site: Any) -> None:
    """In its next word on how far it came. The supervisor finds it there when preemption is requested."""
    job = site.start(site.train.replace("300", "100000"), TIRESIAS_SUBMISSION="a").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    job.until(lambda _: (site.control() / control.PROGRAM).exists())
    job.send(signal.SIGUSR2).until(lambda report: report.state == "parked")
    assert job.report().step >= 0
    assert job.send(signal.SIGTERM).end() == 99


def test_a_lost_request_is_repeated(site: Any) -> None:
    """The control folder went away just then."""
    job = site.start(site.train).until(lambda report: report.ready)
    program = int(next((site.control() / control.RANKS).iterdir()).name.split("-")[-2])
    os.kill(program, signal.SIGSTOP)
    job.send(signal.SIGUSR2).until(lambda report: report.state == "saving")
    stop = control.stop_file(site.control(), 0)
    job.until(lambda _: stop.exists())
    stop.unlink()
    job.until(lambda _: stop.exists())
    os.kill(program, signal.SIGCONT)
    job.until(lambda report: report.state == "parked")
    assert job.send(signal.SIGTERM).end() == 99


def test_the_folder_of_an_older_job_in_the_place_of_its_own_does_not_count(site: Any) -> None:
    """Its mount is back. That one had saved, and had been asked to stop."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    older = site.control().rename(site.folder / "older")
    job = site.start(site.train, TIRESIAS_SUBMISSION="b").until(lambda report: report.ready)
    shutil.rmtree(site.control())
    older.rename(site.control())
    job.send(signal.SIGUSR2)
    assert job.end() == 0
    assert "the control folder is unavailable: the script continues" in job.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


def test_a_control_folder_that_is_back_is_used_again(site: Any) -> None:
    job = site.start(site.train).until(lambda report: report.ready)
    away = site.control().rename(site.folder / "away")
    job.send(signal.SIGUSR2).until_logged("the control folder is unavailable")
    away.rename(site.control())
    assert job.preempt().send(signal.SIGTERM).end() == 99
    assert site.start(site.train, restart=1).end() == 0
    assert (site.folder / "result").read_text() == site.trained()


def test_a_program_that_saved_while_its_control_folder_was_away_did_not_finish(site: Any) -> None:
    """Though the script went on after it, and ended well: the program's report is unavailable."""
    job = site.start(f"{site.train} || mv {site.control()} {site.folder}/away; exit 0").until(
        lambda report: report.ready
    )
    job.send(signal.SIGUSR2).until_logged("waits for the requeue")
    (site.folder / "away").rename(site.control())
    assert job.send(signal.SIGTERM).end() == 99
    assert site.start(site.train, restart=1).end() == 0
    assert (site.folder / "result").read_text() == site.trained()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_a_folder_that_another_user_made_first_is_refused(site: Any) -> None:
    checkpoints = site.folder / "checkpoints"
    for path in (site.control().parent, checkpoints / "7", checkpoints / f"7-{os.getuid()}"):
        path.mkdir(parents=True)
        os.chown(path, 12345, 12345)
    job = site.start(site.train, restart=1)
    assert job.end() == 0
    assert job.log.read_text().count("is not a folder of yours") == 2
    assert (site.folder / "result").read_text() == site.trained()


def test_an_older_job_with_the_same_id_is_not_resumed(site: Any) -> None:
    site.start(site.train).preempt().send(signal.SIGTERM).end()
    job = site.start(site.train)
    assert job.end() == 0
    assert "run 0 starts from the beginning" in job.log.read_text().split("left by an older job", 1)[1]
    assert Store(site.folder / "checkpoints" / "7.1").steps()


def test_an_older_job_is_detected_by_its_submission_in_any_run(site: Any) -> None:
    """The first run of the new one was ended before its supervisor started."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    job = site.start(site.train, restart=1, TIRESIAS_SUBMISSION="b")
    assert job.end() == 0
    assert "run 1 starts from the beginning" in job.log.read_text().split("left by an older job", 1)[1]
    assert Store(site.folder / "checkpoints" / "7.1").steps()


def test_a_job_whose_requeue_slurm_forgot_is_resumed(site: Any) -> None:
    """slurmctld was killed and counts no restart: it is the same submission all the same."""
    site.start(site.train, TIRESIAS_SUBMISSION="a").preempt().send(signal.SIGTERM).end()
    job = site.start(site.train, TIRESIAS_SUBMISSION="a")
    assert job.end() == 0
    assert "left by an older job" not in job.log.read_text()
    assert "run 0 resumes from step" in job.log.read_text()


def test_each_folder_names_its_own_job(site: Any) -> None:
    """The control folder was away in the first run, and what an older job left there is back in the second."""
    site.start("true", TIRESIAS_SUBMISSION="a").end()
    away = site.control().rename(site.folder / "away")
    site.start(site.train, TIRESIAS_SUBMISSION="b").preempt().send(signal.SIGTERM).end()
    shutil.rmtree(site.control())
    away.rename(site.control())
    job = site.start(site.train, restart=1, TIRESIAS_SUBMISSION="b")
    assert job.end() == 0
    assert "run 1 resumes from step" in job.log.read_text().split(f"{site.control()} was left by an older job", 1)[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_an_id_that_another_user_had_before_gets_a_checkpoint_folder(tmp_path: Path) -> None:
    roots = {
        "TIRESIAS_CONTROL_ROOT": str(tmp_path / "control"),
        "TIRESIAS_CHECKPOINT_ROOT": str(tmp_path / "checkpoints"),
    }
    foreign = tmp_path / "checkpoints" / "7"
    foreign.mkdir(parents=True)
    os.chown(foreign, 12345, 12345)
    first = jobs.from_env({"SLURM_JOB_ID": "7", **roots})
    assert first.checkpoints == tmp_path / "checkpoints" / f"7-{os.getuid()}"
    foreign.rmdir()
    again = jobs.from_env({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "1", **roots})
    assert again.checkpoints == first.checkpoints, "its checkpoints are there"


@pytest.mark.parametrize("restart", [0, 1])
def test_a_run_that_slurmctld_forgot_reports_nothing_any_more(site: Any, restart: int) -> None:
    """A killed slurmctld starts the job again while the forgotten run goes on: the controller needs the report of the later one,
    which has the same restart count, or another one where Slurm has requeued the forgotten run."""
    forgotten = site.start(site.train, SLURM_JOB_START_TIME="1000").until(lambda report: report.ready)
    place = site.control() / control.SUPERVISOR
    report = control.read(place, os.getuid())
    later = {"state": "parked", "start": 1005, "restart": restart}
    control.write(place.parent, place.name, report | later)  # by the later run
    assert forgotten.end() == 0
    assert control.read(place, os.getuid()) == report | later


@pytest.mark.parametrize("later", [{"start": 1000}, {"start": 0}, {}])
def test_a_report_that_is_not_of_a_later_run_is_replaced(site: Any, later: dict[str, int]) -> None:
    job = site.start(site.train, SLURM_JOB_START_TIME="1000").until(lambda report: report.ready)
    place = site.control() / control.SUPERVISOR
    report = {key: value for key, value in control.read(place, os.getuid()).items() if key != "start"}
    control.write(place.parent, place.name, report | later)
    assert job.end() == 0
    assert control.read(place, os.getuid())["state"] == "ended"
