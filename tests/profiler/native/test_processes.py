"""Processes that fork, exec, die, close everything or send from hundreds of threads: they behave as ever, and nothing is lost."""

from __future__ import annotations

import stat
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.profiler.native.conftest import Compile, Stage
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import Recording


def asked(recording: Recording) -> list[int]:
    sizes: list[int] = recording.records["asked"].tolist()
    return sizes


@pytest.mark.parametrize("how", ["fork", "clone"])
def test_a_child_has_a_file_of_its_own(stage: Stage, compiled: Compile, how: str) -> None:
    stage.run(compiled("processes"), how)
    parent, child = stage.recordings()
    assert asked(parent) == [1, 3]
    assert asked(child) == [2]
    assert parent.pid != child.pid
    assert parent.channels[0]["local"] == child.channels[0]["local"], "the same connection"


@pytest.mark.parametrize("how", ["vfork", "spawn"])
def test_a_child_in_borrowed_memory_changes_nothing(stage: Stage, compiled: Compile, how: str) -> None:
    stage.run(compiled("processes"), how)
    recording = stage.only()
    assert asked(recording) == [1, 3]
    assert len(recording.channels) == 1
    assert recording.channels["closed"][0] == 0


def test_a_program_that_becomes_another_one(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("processes"), "exec")
    assert [asked(each) for each in stage.recordings()] == [[1], [3]]
    assert len({each.pid for each in stage.recordings()}) == 1


def test_a_program_that_closes_all_descriptors(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("processes"), "close-all")
    assert asked(stage.only()) == [1, 3]


def test_what_was_recorded_survives_a_kill(stage: Stage, compiled: Compile) -> None:
    assert stage.attempt(compiled("processes"), "kill").returncode == -9
    assert asked(stage.only()) == [1, 2, 3]


def test_files_are_their_owners_alone(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("processes"), "fork")
    assert {stat.S_IMODE(file.stat().st_mode) for file in stage.folder.iterdir()} == {0o600}


def test_two_hundred_threads(stage: Stage, compiled: Compile) -> None:
    sent = int(stage.run(compiled("processes"), "threads").stdout)
    recording = stage.only()
    assert recording.dropped == 0
    per_connection = Counter(recording.records["channel"].tolist())
    assert sum(per_connection.values()) == sent
    assert set(per_connection.values()) == {500}, "every thread sends on a connection of its own"
    assert set(asked(recording)) == {6}


def test_rings_of_threads_that_have_ended_are_used_again(stage: Stage, compiled: Compile) -> None:
    sent = int(stage.run(compiled("processes"), "short-threads", TIRESIAS_PROFILE_BYTES="262144").stdout)
    recording = stage.only()
    assert (len(recording.records), recording.dropped) == (sent, 0)


@pytest.mark.parametrize("place", [None, "/dev/shm"])
def test_signal_handlers_that_send(stage: Stage, compiled: Compile, place: str | None) -> None:
    """They interrupt the making of the file too, which many kernels then undo on a file system in memory."""
    with tempfile.TemporaryDirectory(dir=place) as name:
        handlers_that_send(replace(stage, folder=Path(name)), compiled)


def handlers_that_send(stage: Stage, compiled: Compile) -> None:
    sent, handled = (int(number) for number in stage.run(compiled("processes"), "signals").stdout.split())
    recording = stage.only()
    assert handled > 100
    assert recording.dropped < 0.5 * handled, "those that interrupted the making of the file"
    recorded = Counter(asked(recording))
    assert set(recorded) == {0, 7}
    assert recorded[0] <= sent
    assert recorded[7] <= handled
    assert recorded.total() + recording.dropped == sent + handled, "each record is in the file or counted as dropped"
    for channel in set(recording.records["channel"].tolist()):
        sizes = recording.records["asked"][recording.records["channel"] == channel]
        assert len(set(sizes.tolist())) == 1, "nothing of one record got into another"


def test_a_full_file_drops_and_counts(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("processes"), "many", 20_000, TIRESIAS_PROFILE_BYTES="262144")
    recording = stage.only()
    assert (stage.folder / recording.path.name).stat().st_size == 262144
    assert len(recording.records) == 7 * 1024
    assert recording.dropped == 20_000 - 7 * 1024
    assert np.all(np.diff(recording.records["time"].astype(np.int64)) >= 0)


def test_the_stop_file_ends_recording(stage: Stage, compiled: Compile) -> None:
    stage.run(compiled("processes"), "many", 20_000, stage.folder / "stop")
    assert len(stage.only().records) == 10_000 + 1
    (file,) = stage.folder.glob("*.net")
    header = np.frombuffer(file.read_bytes()[:4096], layout.HEADER)[0]
    assert int(header["flags"]) == 2
    stage.run(compiled("processes"), "many", 10)
    stage.only()  # a process that begins later records nothing


def test_more_connections_than_the_table_holds(stage: Stage, compiled: Compile) -> None:
    """32 channels in a file of 128 KiB: the rest are left out, and the file records it."""
    stage.run(compiled("processes"), "threads", TIRESIAS_PROFILE_BYTES="131072")
    recording = stage.only()
    assert len(recording.channels) == 32
    header = np.frombuffer(recording.path.read_bytes()[:4096], layout.HEADER)[0]
    assert int(header["flags"]) == 1
