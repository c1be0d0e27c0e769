"""The manager's report: its types, its sums, and the readers of each file."""

from __future__ import annotations

import grp
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.example_service import ALICE, BOB, CAROL, ExampleService
from tests.slurm_plugin.sockets.test_published_types import faults
from tiresias.errors import UsageError
from tiresias.protocol.service_report import JOBS, REPORT, USERS, PublishedServiceJob, ServiceReport, user_file
from tiresias.services.parameter_service.manager.report_folder import ReportFolder

READ = "import os, sys; os.setgroups([]); os.setgid(4000); os.setuid(int(sys.argv[1])); open(sys.argv[2]).read()"


@pytest.fixture
def example(tmp_path: Path) -> Iterator[ExampleService]:
    found = ExampleService(tmp_path / "state")
    yield found
    found.close()


def may_read(folder: Path, name: str, uid: int) -> bool:
    """Whether a user may read a file of the folder, in which the program starts: the folders above it do not count."""
    words = [sys.executable, "-c", READ, str(uid), name]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode or "PermissionError" in done.stderr, done.stderr
    return not done.returncode


def test_types_and_states(example: ExampleService) -> None:
    report, jobs = example.shown()
    assert [*faults(report, ServiceReport)] == []
    assert [fault for job in jobs for fault in faults(job, PublishedServiceJob)] == []
    states = {job["name"]: job["state"] for job in jobs}
    assert states == {
        "vgg19-a": "assigned", "vgg19-b": "assigned", "alexnet-1": "moving", "lm": "profiled", "new": "registered",
    }  # fmt: skip
    assert {each["state"] for each in report["aggregators"]} == {"running", "waiting", "requested", "ending"}


def test_sums(example: ExampleService) -> None:
    report, jobs = example.shown()
    totals = report["totals"]
    assert (totals["users"], totals["jobs"], totals["servers"], totals["reverts"]) == (3, 5, 9, 1)
    assert totals["aggregators"] == len([each for each in report["aggregators"] if each["state"] != "ending"])
    assert totals["ratio"] == totals["aggregators"] / 9
    held = sum(each["declared_bytes"] for each in report["aggregators"])
    assert held == totals["declared_bytes"] == sum(job["declared_bytes"] for job in jobs)
    assert sum(each["jobs"] for each in report["aggregators"]) >= 4
    for each in report["aggregators"]:
        assert each["work_s"] + each["free_s"] == pytest.approx(each["cycle_s"])


def test_speeds(example: ExampleService) -> None:
    found = {job["name"]: job for job in example.shown()[1]}
    assert found["vgg19-a"]["measured_s"] == pytest.approx(0.412)
    assert found["vgg19-a"]["loss"] == pytest.approx((0.412 - 0.4) / 0.412)
    assert found["vgg19-b"]["measured_s"] is None
    assert found["vgg19-b"]["loss"] is not None
    assert (found["alexnet-1"]["reverts"], found["lm"]["loss"], found["new"]["iteration_s"]) == (1, None, None)


def test_a_job_that_registers_anew_has_its_new_sizes(example: ExampleService) -> None:
    before = example.shown()[0]["totals"]["declared_bytes"]
    example.jobs.end("lm")
    example.jobs.register("lm", CAROL, bytes(32), 2, 4)
    example.jobs.init("lm", {"embedding": 10, "rnn": 20})
    report, jobs = example.shown()
    assert next(job for job in jobs if job["name"] == "lm")["declared_bytes"] == 30
    assert report["totals"]["declared_bytes"] == before - 33_311_600 + 30


def test_no_file_for_all_names_a_job_or_a_user(example: ExampleService, tmp_path: Path) -> None:
    report, jobs = example.shown()
    folder = tmp_path / "report"
    ReportFolder(folder).write(report, jobs)
    public = (folder / REPORT).read_text()
    assert not [one for job in jobs for one in (f'"{job["name"]}"', str(job["uid"])) if one in public]
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in (".", USERS, REPORT, JOBS)}
    assert modes == {".": 0o755, USERS: 0o711, REPORT: 0o644, JOBS: 0o600}
    assert json.loads((folder / JOBS).read_text())["jobs"] == jobs


def test_the_group_of_administrators_reads_all_jobs(example: ExampleService, tmp_path: Path) -> None:
    gid = max((gid for gid in os.getgroups() if gid != os.getegid()), default=os.getegid())
    ReportFolder(tmp_path / "report", grp.getgrgid(gid).gr_name).write(*example.shown())
    found = (tmp_path / "report" / JOBS).stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o640, gid)
    assert stat.S_IMODE((tmp_path / "report" / REPORT).stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read a file as another user")
def test_each_user_reads_the_own_jobs_alone(example: ExampleService, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    ReportFolder(folder).write(*example.shown())
    users = (ALICE, BOB, CAROL)
    assert [[may_read(folder, user_file(owner), uid) for owner in users] for uid in users] == [
        [True, False, False], [False, True, False], [False, False, True],
    ]  # fmt: skip
    assert [may_read(folder, REPORT, ALICE), may_read(folder, JOBS, ALICE)] == [True, False]
    found = json.loads((folder / user_file(ALICE)).read_text())["jobs"]
    assert [job["name"] for job in found] == ["vgg19-a", "vgg19-b"]


def test_files_are_replaced_where_they_change_and_removed_with_the_last_job(
    example: ExampleService, tmp_path: Path
) -> None:
    folder = tmp_path / "report"
    written = ReportFolder(folder)
    written.write(*example.shown())
    (folder / USERS / "9.json").write_text("of an earlier manager")
    before = {name: (folder / name).stat().st_ino for name in (REPORT, JOBS, user_file(CAROL))}
    example.jobs.end("alexnet-1")
    written.write(*example.shown())
    assert sorted(path.name for path in (folder / USERS).iterdir()) == [f"{ALICE}.json", f"{CAROL}.json"]
    after = {name: (folder / name).stat().st_ino for name in (REPORT, JOBS, user_file(CAROL))}
    assert [name for name, inode in after.items() if inode != before[name]] == [REPORT, JOBS]
    ReportFolder(folder).write(*example.shown())  # of the next manager
    assert (folder / user_file(CAROL)).stat().st_ino != before[user_file(CAROL)]


def test_an_unknown_group_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^report_group: there is no group there-is-none$"):
        ReportFolder(tmp_path, "there-is-none")
