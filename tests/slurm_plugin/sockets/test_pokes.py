"""What hooks of slurmctld append wakes the daemon at once; the hook of a job's end."""

from __future__ import annotations

import contextlib
import errno
import itertools
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.slurm_plugin.sockets import poke_socket
from tiresias.slurm_plugin.sockets.file_watch import FileWatch
from tiresias.slurm_plugin.sockets.poke_socket import PokeSocket

HOOK = Path(__file__).parents[3] / "etc/poke.sh"


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[tuple[PokeSocket, Path]]:
    listener = PokeSocket(folder / "poke.sock")
    try:
        yield listener, folder / "arrivals"
    finally:
        listener.close()


def append(file: Path) -> None:
    with file.open("a") as opened:
        opened.write(".")


def test_each_arrival_wakes_once(tmp_path: Path) -> None:
    """The daemon empties the file, which the kernel reports as well: that is no arrival."""
    with listening(tmp_path) as (listener, arrivals):
        for _ in range(3):
            writer = threading.Timer(0.05, append, [arrivals])
            writer.start()
            assert listener.wait(30)
            writer.join()
            assert not listener.wait(0.05)


def test_the_kernel_reports_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poke_socket, "ARRIVALS_POLL_S", 0.0)  # it would poll all the time
    with listening(tmp_path) as (listener, arrivals):
        take, polls = listener._arrivals.take, itertools.count()
        monkeypatch.setattr(listener._arrivals, "take", lambda: take() if next(polls) >= 0 else b"")
        assert not listener.wait(0.2)
        assert next(polls) <= 2
        append(arrivals)
        assert listener.wait(math.inf)


def test_a_submission_wakes_when_slurmctld_lists_the_job_and_an_end_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with listening(tmp_path) as (listener, arrivals):
        for content, pauses in (("e", []), ("ee.e", [poke_socket.SUBMISSION_S])):
            arrivals.write_text(content)
            assert listener.wait(5)
            assert slept == pauses
            assert arrivals.read_text() == ""


def test_an_arrival_is_found_where_the_kernel_reports_no_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> FileWatch:
        raise OSError(errno.EMFILE, "too many watches")

    monkeypatch.setattr(poke_socket, "FileWatch", refused)
    with listening(tmp_path) as (listener, arrivals):
        threading.Timer(0.05, append, [arrivals]).start()
        assert listener.wait(30)


def test_a_file_that_is_not_there_cannot_be_watched(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(FileNotFoundError):
        FileWatch(tmp_path / "missing")
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "it left a descriptor open"


def test_the_hook_appends_a_byte_and_sends_a_datagram_only_where_there_is_no_file(tmp_path: Path) -> None:
    def end_of_a_job() -> None:
        environment = {"PATH": os.environ["PATH"], "TIRESIAS_POKE_SOCKET": f"{tmp_path}/poke.sock"}
        subprocess.run(["sh", HOOK], env=environment, check=True)

    end_of_a_job()
    assert not list(tmp_path.iterdir()), "without a controller it makes no file"
    with listening(tmp_path) as (listener, arrivals):
        end_of_a_job()
        assert arrivals.stat().st_size == 1
        assert listener.wait(5)
        assert not listener.wait(0)
        arrivals.unlink()
        end_of_a_job()
        assert not arrivals.exists()
        assert listener.wait(5), "by the datagram"


def test_a_system_that_forbids_calls_of_the_c_library_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)  # its import raises ImportError
    with pytest.raises(OSError, match="inotify cannot be called"):
        FileWatch(tmp_path)
