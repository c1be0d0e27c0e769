"""Lines in a job's output about its remote memory."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest

from tiresias.protocol import control, remote_memory_use
from tiresias.protocol.job_memory_reports import WAIT_S
from tiresias.protocol.remote_memory_use import RemoteMemoryUse, folder_of
from tiresias.wrappers.job import Job
from tiresias.wrappers.remote_memory_notes import POLL_S, RemoteMemoryNotes

ENV = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "gpu01"}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    folder = tmp_path / "control/7"
    control.make(folder, "")
    return Job("7", 0, "", folder, None, "USR2")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    found = folder_of(tmp_path / "run", "7")
    found.mkdir(parents=True)
    return found


def use(node: str, pages: int, age_s: float = 0.0) -> RemoteMemoryUse:
    now = time.time()
    return RemoteMemoryUse(node, now - age_s, now - age_s, 1 << 30, 2 * pages, pages, pages, 0, 0, 1.0)


def put(files: Path, content: RemoteMemoryUse) -> None:
    (files / "new").write_text(json.dumps(content.stated()))
    (files / "new").rename(files / "report.json")


def notes(job: Job, tmp_path: Path) -> RemoteMemoryNotes:
    return RemoteMemoryNotes(job, ENV, tmp_path / "run")


def test_a_job_without_remote_memory_has_no_line(job: Job, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = notes(job, tmp_path)
    found.begin()
    found.end()
    assert capfd.readouterr() == ("", "")


def test_a_refusal_is_logged_and_published(
    job: Job, files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (files / "refused").write_text("this node has the swap of job 6\n")
    found = notes(job, tmp_path)
    found.begin()
    found.end()
    text = capfd.readouterr().err
    assert text.count("\n") == 1
    assert "this job runs without it on node gpu01: this node has the swap of job 6" in text
    assert job.control is not None
    (published,) = remote_memory_use.read_all(job.control, job.control.stat().st_uid)
    assert published.refused == "this node has the swap of job 6"


def test_refusals_of_other_nodes_are_logged_once_during_the_run_and_at_its_end(
    job: Job, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert job.control is not None
    remote_memory_use.write(job.control, use("gpu03", 1)._replace(refused="of a run before", began=1.0))
    env = ENV | {"SLURM_JOB_NUM_NODES": "3", "TIRESIAS_REMOTE_MEM": "1G"}
    found = RemoteMemoryNotes(job, env, tmp_path / "run")
    found.begin()
    assert 0 < found.wait() <= POLL_S
    remote_memory_use.write(job.control, use("gpu02", 0)._replace(refused="most_mib"))
    found.poll()
    assert capfd.readouterr().err == ""  # it is not due
    later = time.monotonic() + POLL_S
    monkeypatch.setattr("time.monotonic", lambda: later)
    found.poll()
    assert "this job runs without it on node gpu02: most_mib" in capfd.readouterr().err
    monkeypatch.undo()
    remote_memory_use.write(job.control, use("gpu03", 0)._replace(refused="no donor"))
    found.end()
    text = capfd.readouterr().err
    assert "gpu02" not in text
    assert "this job runs without it on node gpu03: no donor" in text
    assert RemoteMemoryNotes(job, ENV, tmp_path / "run").wait() == math.inf  # on one node nothing is polled


def test_the_end_has_the_sums_of_all_nodes_of_this_run(
    job: Job, files: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert job.control is not None
    remote_memory_use.write(job.control, use("gpu01", 1))
    remote_memory_use.write(job.control, use("gpu02", 1 << 18))
    remote_memory_use.write(job.control, use("gpu03", 1 << 18, age_s=1000.0))  # of a run before
    found = notes(job, tmp_path)
    put(files, use("gpu01", 1 << 19))
    threading.Timer(WAIT_S / 4, put, (files, use("gpu01", 1 << 20, age_s=-10.0))).start()
    found.end()
    text = capfd.readouterr().err
    assert (
        "10 GiB out, 5 GiB in (5 GiB from donors, 0 MiB from the queue of the disk, 0 MiB from the disk), 2.0 s" in text
    )
    assert "on 2 nodes" in text


def test_a_server_that_hangs_does_not_keep_the_job(job: Job, files: Path, tmp_path: Path) -> None:
    put(files, use("gpu01", 1, age_s=5.0))
    began = time.monotonic()
    notes(job, tmp_path).end()
    assert WAIT_S <= time.monotonic() - began < WAIT_S + 5
