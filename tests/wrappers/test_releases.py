"""A training program and a supervisor of different releases: the job is preempted and resumed as with one release."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.releases import previous, speaking
from tiresias.protocol import control, versions
from tiresias.wrappers import isolated

PRESENT = isolated.LIBRARY


@pytest.mark.parametrize("older", ["program", "supervisor"])
def test_one_side_is_of_the_previous_release(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older: str
) -> None:
    before = previous(tmp_path / "previous")
    program, supervisor = (before, PRESENT) if older == "program" else (PRESENT, before)
    monkeypatch.setattr(isolated, "LIBRARY", supervisor)
    first = site.start(f"exec {site.train}", PYTHONPATH=str(program))
    first.preempt()
    written = {
        name: control.read(site.control() / name, site.control().stat().st_uid)
        for name in (control.PROGRAM, control.SUPERVISOR)
    }
    stated = {name for name, content in written.items() if versions.KEY in content}
    assert stated == {control.SUPERVISOR if older == "program" else control.PROGRAM}
    assert first.report().protocol == 1
    assert first.send(signal.SIGTERM).end() == control.EXIT_REQUEUE
    second = site.start(f"exec {site.train}", restart=1, PYTHONPATH=str(program))
    assert second.end() == 0
    assert "run 1 resumes from step" in second.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()


def test_both_sides_of_this_release_use_its_version(site: Any) -> None:
    job = site.start(f"exec {site.train}").preempt()
    assert job.report().protocol == versions.OWN.newest


def state_controller(site: Any, oldest: int, newest: int) -> None:
    folder = site.folder / "control" / control.CONTROLLER
    folder.mkdir(parents=True)
    (folder / control.PROTOCOL).write_text(json.dumps({versions.KEY: [oldest, newest]}))


def test_a_controller_that_the_supervisor_cannot_speak_with(site: Any) -> None:
    """The job runs to its end, its program saves as outside of a job, and the controller can read why."""
    state_controller(site, 9, 9)
    job = site.start(f"{site.train}; echo control=$TIRESIAS_CONTROL checkpoints=$TIRESIAS_CHECKPOINT_DIR")
    assert job.end() == 0
    log = job.log.read_text()
    assert log.count("the controller speaks version 9 of the control protocol") == 1
    assert "update slurm-tiresias where the job was submitted. This job will not be preempted" in log
    assert f"control= checkpoints={site.folder}/checkpoints/7" in log
    assert (site.folder / "result").read_text() == site.trained()
    assert json.loads((site.control() / control.SUPERVISOR).read_text()) == {"restart": 0, versions.KEY: [1, 2]}
    assert not (site.control() / control.PROGRAM).exists()


def test_a_controller_of_a_newer_release_with_a_common_version(site: Any) -> None:
    state_controller(site, 2, 9)
    job = site.start(f"exec {site.train}").preempt()
    assert "control protocol" not in job.log.read_text()


def test_a_program_that_the_supervisor_cannot_speak_with(site: Any, tmp_path: Path) -> None:
    job = site.start(f"exec {site.train}", PYTHONPATH=str(speaking(tmp_path / "newer", 8, 9)))
    job.until(lambda report: bool(report.refused))
    report = job.report()
    assert (report.ready, report.protocol) == (False, 0)
    assert report.refused == (
        "slurm-tiresias-checkpoint in the job's environment speaks version 8 to 9 of the control protocol, this controller 1 to 2: "
        "update this controller"
    )
    assert job.end() == 0
    assert job.log.read_text().count("control protocol") == 1
    assert "This job will not be preempted" in job.log.read_text()
    assert (site.folder / "result").read_text() == site.trained()
    assert json.loads((site.control() / control.PROGRAM).read_text()) == {"restart": 0, versions.KEY: [8, 9]}


def test_a_program_that_does_not_compare_versions(site: Any) -> None:
    """As one of a release without a common protocol version: the supervisor logs it, and requests no save."""
    job = site.start("trap 'echo passed on; exit 0' USR2; touch started; while :; do sleep 0.05; done")
    job.until(lambda report: (site.folder / "started").exists())
    report = {"restart": 0, versions.KEY: [8, 9], "ready": True, "step": 5}
    control.write(site.control(), control.PROGRAM, report)
    job.send(signal.SIGUSR2)
    assert job.end() == 0
    assert "passed on" in job.log.read_text()
    assert job.log.read_text().count("speaks version 8 to 9 of the control protocol") == 1
    assert job.report().state == "ended"
