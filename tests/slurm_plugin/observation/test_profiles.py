"""Which summaries the controller accepts, for which jobs, and how often it reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, as_object
from tiresias.slurm_plugin.backends.interface import SlurmJob
from tiresias.slurm_plugin.observation.profiles import FINAL_POLL_S, PROVISIONAL_POLL_S, Profiles

Make = Callable[..., SlurmJob]
SCRIPT = "0123456789abcdef"
KEY = Key("train", SCRIPT, 4)
SPREAD, UNKNOWN = Summary("spread", ("small tensors",), skew=0.1, job="7"), Summary("unknown", trials=1)


def write(root: Path, summary: Summary, key: Key = KEY, uid: int | None = None) -> Path:
    folder = control.profiles_folder(root, os.getuid() if uid is None else uid)
    folder.mkdir(parents=True, exist_ok=True)
    control.write(folder, key.file, as_object(key, summary))
    return folder / key.file


@pytest.fixture
def waiting(pending: Make) -> SlurmJob:
    return pending(gpus=4, name="train", script=SCRIPT, uid=os.getuid())


def test_all_jobs_of_a_kind_have_its_profile(tmp_path: Path, waiting: SlurmJob) -> None:
    write(tmp_path, SPREAD)
    other, bare = replace(waiting, id="3", gpus=8), replace(waiting, id="4", script="")
    found = Profiles(tmp_path).poll([waiting, replace(waiting, id="2"), other, bare], 0.0)
    assert found == {"1": SPREAD, "2": SPREAD}


def test_it_is_read_again_soon_until_it_is_settled_and_then_seldom(tmp_path: Path, waiting: SlurmJob) -> None:
    profiles = Profiles(tmp_path)
    assert profiles.poll([waiting], 0.0) == {}
    write(tmp_path, UNKNOWN)
    assert profiles.poll([waiting], PROVISIONAL_POLL_S - 1) == {}
    assert profiles.poll([waiting], PROVISIONAL_POLL_S) == {"1": UNKNOWN}
    write(tmp_path, SPREAD)
    assert profiles.poll([waiting], 2 * PROVISIONAL_POLL_S) == {"1": SPREAD}
    write(tmp_path, UNKNOWN)
    assert profiles.poll([waiting], 2 * PROVISIONAL_POLL_S + FINAL_POLL_S - 1) == {"1": SPREAD}
    assert profiles.poll([waiting], 2 * PROVISIONAL_POLL_S + FINAL_POLL_S) == {"1": UNKNOWN}


def test_a_kind_without_jobs_is_forgotten(tmp_path: Path, waiting: SlurmJob) -> None:
    profiles = Profiles(tmp_path)
    profiles.poll([waiting], 0.0)
    profiles.poll([], 1.0)
    write(tmp_path, SPREAD)
    assert profiles.poll([waiting], 2.0) == {"1": SPREAD}


def test_what_is_not_the_users_own_small_plain_file_is_not_accepted(tmp_path: Path, waiting: SlurmJob) -> None:
    file = write(tmp_path, SPREAD)
    os.link(file, tmp_path / "elsewhere")
    good = file.read_bytes()

    def seen() -> bool:
        return bool(Profiles(tmp_path).poll([waiting], 0.0))

    def link() -> None:
        file.symlink_to(tmp_path / "elsewhere")

    assert seen()
    for make in (
        link,
        lambda: os.mkfifo(file),
        file.mkdir,
        lambda: file.write_bytes(good + b" " * control.MAX_BYTES),
        lambda: file.write_bytes(b"[" * 10_000),
        lambda: file.write_bytes(good.replace(b"spread", b"first!")),
    ):
        file.unlink()
        make()
        assert not seen()
        if file.is_dir() and not file.is_symlink():
            file.rmdir()
            file.touch()


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes files of other users")
def test_a_user_cannot_speak_for_another(tmp_path: Path, waiting: SlurmJob) -> None:
    file = write(tmp_path, SPREAD)
    os.chown(file, 12345, -1)
    assert Profiles(tmp_path).poll([waiting], 0.0) == {}
    file.unlink()
    write(tmp_path, SPREAD, uid=12345)
    assert Profiles(tmp_path).poll([waiting], 0.0) == {}
