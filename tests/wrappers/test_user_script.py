"""The scripts of killed supervisors are removed at the next start of a job of the same user, and nothing else is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiresias.wrappers import batch_script, user_script
from tiresias.wrappers.user_script import NAME, UserScript

BATCH = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    file = tmp_path / "batch"
    file.write_bytes(batch_script.compose(BATCH.encode(), sys.executable, "/library", {}))
    return file


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    return folder


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def leftover(temporary: Path, pid: int, host: str = os.uname().nodename) -> Path:
    folder = temporary / f"tiresias-{host}-{pid}-0123456789ab"
    folder.mkdir(mode=0o700)
    (folder / NAME).write_text("#!/bin/sh\n")
    return folder


def start(batch: Path, temporary: Path) -> UserScript:
    return user_script.extract(batch, temporary)


def test_a_killed_supervisor_leaves_no_script_after_the_next_start(site: Any, temporary: Path) -> None:
    first = site.start("sleep 300", TMPDIR=str(temporary)).until(lambda report: report.state == "running")
    first.until(lambda report: bool(list(temporary.iterdir())))
    first.send(signal.SIGKILL).end()
    assert [path.name for path in temporary.rglob("*") if path.is_file()] == [NAME]
    assert site.start("exit 0", restart=1, TMPDIR=str(temporary)).end() == 0
    assert list(temporary.iterdir()) == []


def test_the_script_of_a_running_supervisor_stays(batch: Path, temporary: Path) -> None:
    """Also where its process has a number of another PID namespace."""
    own, other = start(batch, temporary), start(batch, temporary)
    assert sorted(temporary.iterdir()) == sorted((own.folder, other.folder))
    number = subprocess.Popen(["true"])
    number.wait()
    renamed = own.folder.rename(temporary / f"tiresias-{os.uname().nodename}-{number.pid}-0123456789ab")
    start(batch, temporary)
    assert (renamed / NAME).exists()
    os.close(own.lock)
    start(batch, temporary)
    assert not renamed.exists()


@pytest.mark.parametrize(
    "prepare",
    [
        lambda folder, pid: leftover(folder, pid, host="another-host"),
        lambda folder, pid: leftover(folder, os.getpid()),
        lambda folder, pid: leftover(folder, pid).rename(folder / "tiresias-notes"),
        lambda folder, pid: (leftover(folder, pid) / "data").mkdir(),
    ],
    ids=["another host", "running", "another name", "other files"],
)
def test_what_is_no_leftover_stays(
    batch: Path, temporary: Path, dead_pid: int, prepare: Callable[[Path, int], object]
) -> None:
    prepare(temporary, dead_pid)
    [before] = temporary.iterdir()
    start(batch, temporary).remove()
    assert list(temporary.iterdir()) == [before]


def test_a_symbolic_link_is_not_followed(batch: Path, temporary: Path, tmp_path: Path, dead_pid: int) -> None:
    target = leftover(tmp_path, dead_pid)
    (temporary / target.name).symlink_to(target)
    start(batch, temporary).remove()
    assert (target / NAME).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder to another user")
def test_the_folder_of_another_user_stays(batch: Path, temporary: Path, dead_pid: int) -> None:
    folder = leftover(temporary, dead_pid)
    os.chown(folder, 65533, 65533)
    start(batch, temporary).remove()
    assert (folder / NAME).exists()
