"""Whatever a file holds, the reader returns its intact parts, or reports in one line that it is no recording."""

from __future__ import annotations

import os
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.profiler.recording import EPOCH, Network
from tiresias.profiler.analysis import analyze
from tiresias.profiler.recordings import layout
from tiresias.profiler.recordings.recording import LIMIT, BadRecording, read


def two(sends: int = 3) -> Network:
    net = Network()
    link = net.connect(net.process("gpu01", 10), net.process("gpu02", 20))
    for number in range(sends):
        net.send(link, 0.1 * (sends - number), 1000 + number)
    return net


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return two().write(tmp_path)[0]


def placed(kind: np.dtype[Any], field: str) -> tuple[int, int]:
    """Offset and size of a field, in bytes."""
    assert kind.fields is not None
    member, offset = kind.fields[field][:2]
    return offset, member.itemsize


def change(file: Path, field: str, value: int) -> None:
    content = bytearray(file.read_bytes())
    offset, size = placed(layout.HEADER, field)
    content[offset : offset + size] = value.to_bytes(size, "little")
    file.write_bytes(content)


def test_layout_is_that_of_the_writer_in_c() -> None:
    assert (layout.HEADER.itemsize, layout.CHANNEL.itemsize, layout.RING.itemsize, layout.RECORD.itemsize) == (
        4096,
        128,
        64,
        32,
    )
    assert layout.END.itemsize == 44
    assert placed(layout.CHANNEL, "local")[0] == 32


def test_records_come_in_the_order_of_time(file: Path) -> None:
    recording = read(file, owner=os.getuid())
    assert recording.name == "gpu01:10"
    assert recording.program == "python3"
    assert recording.records["asked"].tolist() == [1002, 1001, 1000]
    assert recording.seconds == pytest.approx([EPOCH + 0.1, EPOCH + 0.2, EPOCH + 0.3], abs=1e-6)
    assert recording.notes == ()


def test_without_a_tick_rate_times_are_nanoseconds(file: Path) -> None:
    change(file, "tsc_hz", 0)
    change(file, "monotonic", 10**9)
    recording = read(file)
    ticks = recording.records["time"].astype(float)
    assert recording.seconds == pytest.approx(EPOCH + (ticks - 1e9) / 1e9, abs=1e-6)


def test_many_rings_are_one_sequence(tmp_path: Path) -> None:
    net = two(3000)
    recording = read(net.write(tmp_path)[0])
    assert len(recording.records) == 3000
    assert (np.diff(recording.seconds) >= 0).all()


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        ("flags", 1, "more connections than entries in its table"),
        ("dropped", 7, "7 records were dropped"),
        ("channels", 1 << 31, "2147483648 of 64 channels"),
        ("rings", 100, "100 of 3 rings"),
        ("ring_capacity", 1 << 31, None),
        ("channel_capacity", 1 << 31, "ring: 0 of 1 entries, the file ends"),
        ("ring_records", (1 << 32) - 1, None),
        ("realtime", (1 << 64) - 1, None),
        ("tsc", (1 << 64) - 1, None),
        ("tsc_hz", 1, None),
        ("monotonic", (1 << 64) - 1, None),
    ],
)
def test_a_lie_in_the_header_is_noted(file: Path, field: str, value: int, note: str | None) -> None:
    change(file, field, value)
    recording = read(file)
    assert note is None or any(note in each for each in recording.notes), recording.notes
    analyze([recording])


def test_a_full_ring_counts_what_it_dropped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    ring = 4096 + 64 * 128
    content[ring : ring + 8] = (1024 + 5).to_bytes(8, "little")
    file.write_bytes(content)
    recording = read(file)
    assert recording.dropped == 5
    assert len(recording.records) == 3  # the others were reserved and never written


def test_records_that_cannot_be_are_left_out(tmp_path: Path) -> None:
    net = two()
    process = net.processes[0]
    process.record(0.5, channel=9, operation=layout.SEND, asked=1)
    process.record(0.5, channel=0, operation=99, asked=1)
    process.record(0.5, channel=0, operation=layout.SEND, asked=1 << 63)
    recording = read(net.write(tmp_path)[0])
    assert len(recording.records) == 3
    assert recording.notes == ("3 records make no sense and are left out",)


def test_names_of_a_users_making_cannot_speak_to_the_terminal(tmp_path: Path) -> None:
    net = Network()
    net.process("gpu\x1b[2J\n01", 1)
    path = tmp_path / "a.net"
    path.write_bytes(net.processes[0].content())
    assert read(path).name == "gpu?[2J?01:1"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not a recording"),
        (b"hello", "is not a recording"),
        (b"TIRENET\0" + bytes(100), "ends within its header"),
        (b"TIRENET\0" + (2).to_bytes(4, "little") + bytes(4084), "has format 2"),
    ],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "x.net"
    path.write_bytes(content)
    with pytest.raises(BadRecording, match=words):
        read(path)


def test_only_plain_files_of_the_owner(file: Path, tmp_path: Path) -> None:
    link, pipe = tmp_path / "link.net", tmp_path / "pipe.net"
    link.symlink_to(file)
    os.mkfifo(pipe)  # no writer: opening it must not wait
    for path, words in ((link, "cannot be read"), (pipe, "not a plain file"), (tmp_path, "not a plain file")):
        with pytest.raises(BadRecording, match=words):
            read(path)
    with pytest.raises(BadRecording, match="belongs to user"):
        read(file, owner=os.getuid() + 1)


def test_memory_is_bounded_whatever_the_header_claims(file: Path) -> None:
    for field, value in (("ring_capacity", 1 << 20), ("rings", 1 << 20), ("ring_records", 1 << 20)):
        change(file, field, value)
    content = bytearray(file.read_bytes())
    for at in range(4096 + 64 * 128, len(content) - 8, 8):
        content[at : at + 8] = (1 << 20).to_bytes(8, "little")
    file.write_bytes(content)
    os.truncate(file, 2 << 30)
    tracemalloc.start()
    recording = read(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * LIMIT
    assert (
        any("64 MiB are read" in note or "entries" in note for note in recording.notes)
        or len(recording.records) < 1 << 21
    )


FUZZ = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
WHOLE = two(40).processes[0].content()
FIELDS = sorted(set(layout.HEADER.names or ()) - {"magic", "version", "header_size", "record_size", "channel_size"})


def survives(path: Path, content: bytes) -> None:
    """It is read and analyzed, or refused in words. No numpy warning either: they tell of numbers out of bounds."""
    path.write_bytes(content)
    message = ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            analyze([read(path)])
        except BadRecording as error:
            message = str(error)
    assert "\n" not in message


@FUZZ
@given(length=st.integers(0, len(WHOLE)))
def test_cut_anywhere(tmp_path: Path, length: int) -> None:
    survives(tmp_path / "f.net", WHOLE[:length])


@FUZZ
@given(values=st.dictionaries(st.sampled_from(FIELDS), st.integers(0, (1 << 64) - 1), min_size=1, max_size=5))
def test_any_header(tmp_path: Path, values: dict[str, int]) -> None:
    content = bytearray(WHOLE)
    for name, value in values.items():
        offset, size = placed(layout.HEADER, name)
        size = min(size, 8)
        content[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
    survives(tmp_path / "f.net", bytes(content))


@FUZZ
@given(at=st.integers(8 + 20, len(WHOLE) - 1), noise=st.binary(min_size=1, max_size=2000))
def test_noise_anywhere(tmp_path: Path, at: int, noise: bytes) -> None:
    survives(tmp_path / "f.net", WHOLE[:at] + noise + WHOLE[at + len(noise) :])


@FUZZ
@given(noise=st.binary(max_size=4096))
def test_nothing_but_noise(tmp_path: Path, noise: bytes) -> None:
    survives(tmp_path / "f.net", layout.MAGIC + noise)


@FUZZ
@given(seed=st.integers(0, 2**32 - 1))
def test_noise_for_records(tmp_path: Path, seed: int) -> None:
    start = 4096 + 64 * 128 + 64
    noise = np.random.default_rng(seed).bytes(1024 * 32)
    content = bytearray(WHOLE)
    content[start - 64 : start - 56] = (1024).to_bytes(8, "little")
    content[start : start + len(noise)] = noise
    survives(tmp_path / "f.net", bytes(content))
