"""A real donor: its clients are isolated, its memory is zero, and a bad client harms itself only."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import JOB, SERVICE_KEY, SLAB_MIB, connected, until
from tests.services.remote_memory.random_operations import MemoryFile
from tiresias.services.remote_memory.messages import donor_messages as messages
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.wire.channel import Channel, ConnectionLost, address_of, frame_of
from tiresias.services.wire.frames import VERSION
from tiresias.services.wire.handshake import NotAuthenticated
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.session_messages import Refused

SLAB_BYTES = SLAB_MIB << 20
PAGE = bytes(range(256)) * 16


def mapped(channel: Channel) -> int:
    answer = channel.request(messages.MapSlab(1, SLAB_BYTES))
    assert isinstance(answer, messages.SlabMapped), answer
    return answer.handle


def write(channel: Channel, handle: int, offset: int, data: bytes) -> Any:
    return channel.request(messages.WritePages(2, handle, offset), data)


def read(channel: Channel, handle: int, offset: int, size: int) -> Any:
    buffer = bytearray(size)
    answer = channel.request(
        messages.ReadPages(3, handle, offset, size), place=lambda content, length: memoryview(buffer)
    )
    return bytes(buffer) if isinstance(answer, messages.PagesRead) else answer


def test_pages_are_read_as_they_were_written(start_donor: StartDonor) -> None:
    channel = connected(start_donor())
    assert channel.request(messages.QueryMemory(7)) == messages.FreeMemory(7, 32)
    handle = mapped(channel)
    assert read(channel, handle, 0, SLAB_BYTES) == bytes(SLAB_BYTES)
    assert write(channel, handle, 8192, PAGE) == messages.PagesWritten(2)
    assert read(channel, handle, 4096, 12288) == bytes(4096) + PAGE + bytes(4096)


def test_a_client_reaches_its_own_slabs_only(start_donor: StartDonor) -> None:
    donor = start_donor()
    one, same_job, other = connected(donor), connected(donor), connected(donor, "job-2")
    handle = mapped(one)
    write(one, handle, 0, PAGE)
    for intruder in (same_job, other):
        assert isinstance(read(intruder, handle, 0, 4096), Refused)
        assert isinstance(write(intruder, handle, 0, bytes(4096)), Refused)
        intruder.send(messages.ReturnSlab(handle))
        intruder.send(messages.SlabsEvicted((handle,)))
        intruder.send(messages.ReportActivity(1, (handle,), (0,)))
        assert intruder.request(messages.QueryMemory(1)).slabs == 31
    assert read(one, handle, 0, 4096) == PAGE


@pytest.mark.parametrize("how", ["returned", "disconnected"])
def test_memory_is_zero_when_it_is_lent_again(start_donor: StartDonor, how: str) -> None:
    donor = start_donor(most_mib=2)
    channel = connected(donor)
    first = [mapped(channel) for _ in range(2)]
    for handle in first:
        write(channel, handle, 0, b"\xff" * SLAB_BYTES)
    assert channel.request(messages.QueryMemory(1)).slabs == 0
    assert isinstance(channel.request(messages.MapSlab(1, SLAB_BYTES)), Refused)
    if how == "returned":
        for handle in first:
            channel.send(messages.ReturnSlab(handle))
    else:
        channel.close()
        channel = connected(donor)
        until(lambda: channel.request(messages.QueryMemory(1)).slabs == 2, "the slabs are free")
    second = [mapped(channel) for _ in range(2)]
    assert not set(first) & set(second)
    assert all(read(channel, handle, 0, SLAB_BYTES) == bytes(SLAB_BYTES) for handle in second)


def test_a_client_without_the_key_of_its_job_is_refused(start_donor: StartDonor) -> None:
    donor = start_donor()
    for job, key in (("job-2", job_key(SERVICE_KEY, JOB)), (JOB, bytes(32)), (JOB, SERVICE_KEY)):
        with pytest.raises((NotAuthenticated, ConnectionLost)):
            Channel.connect(donor.address, agent_identity(job, 0, 0), key, 10)
    with pytest.raises(ConnectionLost, match="statistics are for the service"):
        _expect_end(connected(donor), messages.ReadDonorStatistics())


def _expect_end(channel: Channel, content: Any, *payload: bytes) -> None:
    answer = channel.request(content, *payload)
    assert isinstance(answer, Refused), answer
    raise ConnectionLost(answer.text)


@pytest.mark.parametrize(
    ("content", "payload", "reason"),
    [
        (messages.ReadPages(1, 1, SLAB_BYTES - 4096, 8192), 0, "of a slab of"),
        (messages.ReadPages(1, 1, 2**62, 1), 0, "of a slab of"),
        (messages.ReadPages(1, 1, 0, 1 << 40), 0, "the limit is"),
        (messages.WritePages(1, 1, SLAB_BYTES - 1), 2, "of a slab of"),
        (messages.WritePages(1, 1, 0), 5 << 20, "the limit is|reset by peer|Broken pipe"),  # its rest is not received
        (messages.QueryMemory(1), 1, "with a payload"),
        (messages.SlabMapped(1, 1), 0, "from a client"),
    ],
)
def test_a_bad_request_ends_its_own_connection(
    start_donor: StartDonor, content: Any, payload: int, reason: str
) -> None:
    donor = start_donor()
    good, bad = connected(donor), connected(donor)
    handle = mapped(good)
    write(good, handle, 0, PAGE)
    with pytest.raises(ConnectionLost, match=reason):
        _expect_end(bad, content, bytes(payload))
    assert read(good, handle, 0, 4096) == PAGE


def test_other_sizes_and_versions_are_refused_in_one_line(start_donor: StartDonor) -> None:
    donor = start_donor()
    answer = connected(donor).request(messages.MapSlab(1, 2 * SLAB_BYTES))
    assert answer == Refused("fatal", f"this donor's slabs have {SLAB_BYTES} bytes, not {2 * SLAB_BYTES}", step=1)
    with socket.create_connection(address_of(donor.address)) as raw:
        raw.sendall(b"TP" + bytes([VERSION + 1, 1]) + bytes(12))
        assert f"version {VERSION + 1} of the protocol, this is version {VERSION}".encode() in raw.recv(4096)


def test_a_client_that_reads_no_answers_loses_its_connection(start_donor: StartDonor) -> None:
    donor = start_donor()
    slow, good = connected(donor), connected(donor)
    handle, own = mapped(slow), mapped(good)
    write(good, own, 0, PAGE)
    slow.set_timeout(5)
    requests = [frame_of(messages.ReadPages(1, handle, 0, SLAB_BYTES))] * 100_000
    with pytest.raises(ConnectionLost):
        slow.send_frames(requests)
    assert read(good, own, 0, 4096) == PAGE
    until(lambda: donor.statistics()["mapped"] == 1, "the slab of the slow client is free")


def test_a_write_that_stops_in_the_middle_holds_up_no_other(start_donor: StartDonor) -> None:
    donor = start_donor(stall_timeout_s=0.5)
    stalled, good = connected(donor), connected(donor)
    handle, own = mapped(stalled), mapped(good)
    stalled.send_frames([_part_of_a_write(handle)])
    assert write(good, own, 0, PAGE) == messages.PagesWritten(2)
    until(lambda: donor.statistics()["mapped"] == 1, "the stalled connection is closed")
    assert read(good, own, 0, 4096) == PAGE


def _part_of_a_write(handle: int) -> bytes:
    return frame_of(messages.WritePages(1, handle, 0), 8192) + b"x" * 100


def test_the_least_active_slabs_are_evicted_and_released_after_the_answer(
    start_donor: StartDonor, tmp_path: Path
) -> None:
    memory = MemoryFile(tmp_path / "meminfo")
    memory.set_available(608 << 20)
    donor = start_donor(
        memory=str(memory.path), headroom_mib=600, ready_slabs=0, eviction_timeout_s=30, activity_timeout_s=30, poll_s=2
    )
    one, two = connected(donor), connected(donor, "job-2")
    active, lazy = [mapped(one) for _ in range(4)], [mapped(two) for _ in range(4)]
    memory.set_available(597 << 20)  # 3 slabs beside the headroom and the growth of the next 0.25 s
    for channel, handles, activity in ((one, active, 50_000), (two, lazy, 1_000)):
        asked = channel.receive()
        assert set(asked.handles) == set(handles)
        channel.send(messages.ReportActivity(asked.round, asked.handles, (activity,) * len(asked.handles)))
    evicted = two.receive()
    assert isinstance(evicted, messages.EvictSlabs)
    assert set(evicted.handles) == set(lazy)
    assert donor.statistics()["mapped"] == 8
    two.send(messages.SlabsEvicted(evicted.handles))
    until(lambda: donor.statistics()["mapped"] == 4, "the slabs are released")


def test_a_client_that_does_not_answer_keeps_no_memory(start_donor: StartDonor, tmp_path: Path) -> None:
    memory = MemoryFile(tmp_path / "meminfo")
    donor = start_donor(memory=str(memory.path), eviction_timeout_s=0.2, activity_timeout_s=0.1)
    channel = connected(donor)
    handles = [mapped(channel) for _ in range(4)]
    memory.set_available(0)
    until(lambda: donor.statistics()["mapped"] == 0, "all slabs are released")
    until(lambda: donor.statistics()["held_bytes"] == 0, "their memory is returned")
    evicted: set[int] = set()
    while evicted < set(handles):
        content = channel.receive()
        evicted |= set(content.handles) if isinstance(content, messages.EvictSlabs) else set()
    assert isinstance(read(channel, handles[0], 0, 4096), Refused)
    assert channel.request(messages.QueryMemory(9)) == messages.FreeMemory(9, 0)


def test_a_donor_that_ends_frees_its_port_and_returns_zero(start_donor: StartDonor) -> None:
    donor = start_donor()
    mapped(connected(donor))
    donor.end()
    donor.start()
    assert donor.statistics()["mapped"] == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slab_mib": 0}, "slab_mib = 0; give a whole number from 1 on"),
        ({"most_mib": -1}, "most_mib = -1; give a whole number"),
        ({"poll_s": 0}, "poll_s = 0; give seconds from 0.001 to 3600"),
        ({"listen": "here"}, "listen has the form host:port"),
        ({"colour": 1}, "unknown key colour; allowed: listen, service_key_file"),
        ({"memory": "/dev"}, "/dev: no folder of a memory cgroup"),
        ({"memory": "/no/such/file"}, "/no/such/file: No such file or directory"),
        ({"service_key_file": "/no/such/file"}, "/no/such/file: "),
    ],
)
def test_a_wrong_configuration_is_one_line_and_exit_2(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    key, config = tmp_path / "key", tmp_path / "config.json"
    for file, text in ((key, SERVICE_KEY.hex()), (config, "")):
        file.touch(mode=0o600)
        file.write_text(text)
    config.write_text(json.dumps({"listen": "127.0.0.1:0", "service_key_file": str(key)} | change))
    command = [sys.executable, "-m", "tiresias.services.remote_memory.donor", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.fixture
def memory_cgroup(tmp_path: Path) -> Iterator[Path]:
    folder = Path("/sys/fs/cgroup/memory") / f"tiresias-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(str(LIMIT_MIB << 20))
    except OSError as error:
        pytest.skip(f"no memory cgroup (version 1) can be created here: {error}")
    yield folder
    until(lambda: not (folder / "cgroup.procs").read_text(), "the processes of the cgroup have ended")
    folder.rmdir()


LIMIT_MIB, HEADROOM_MIB, LENT_MIB = 1024, 256, 640
ALLOCATE = """
import mmap, sys, time
size = int(sys.argv[1])
memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start = time.perf_counter()
for at in range(0, size, 4096):
    memory[at] = 1
print(time.perf_counter() - start)
"""


def allocation_seconds(cgroup: Path, size: int) -> float:
    command = [
        "sh",
        "-c",
        'echo $$ > "$0" && exec "$@"',
        str(cgroup / "cgroup.procs"),
        sys.executable,
        "-c",
        ALLOCATE,
        str(size),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return float(done.stdout)


@pytest.mark.long  # what else runs decides how fast the donor's thread gets a processor
@pytest.mark.xdist_group("job swap")
def test_memory_is_given_back_to_a_process_that_allocates(memory_cgroup: Path, start_donor: StartDonor) -> None:
    donor = start_donor(
        cgroup=memory_cgroup,
        memory=str(memory_cgroup),
        headroom_mib=HEADROOM_MIB,
        most_mib=LENT_MIB,
        slab_mib=16,
        poll_s=0.005,
    )
    channel = connected(donor)
    while channel.request(messages.QueryMemory(1)).slabs:
        answer = channel.request(messages.MapSlab(1, 16 << 20))
        assert isinstance(answer, messages.SlabMapped)
    threading.Thread(target=_answer_evictions, args=(channel,), daemon=True).start()
    assert donor.statistics()["held_bytes"] >= LENT_MIB << 20
    allocation_seconds(memory_cgroup, LENT_MIB << 20)
    found = donor.statistics()
    assert donor.process is not None
    assert donor.process.poll() is None, "the donor was killed"
    assert found["evicted"] > 0
    assert found["lowest_available_bytes"] > 0
    assert (memory_cgroup / "memory.failcnt").read_text().strip() == "0", "the process had to wait for memory"


def _answer_evictions(channel: Channel) -> None:
    try:
        while True:
            content = channel.receive()
            if isinstance(content, messages.CheckActivity):
                channel.send(messages.ReportActivity(content.round, content.handles, (0,) * len(content.handles)))
            elif isinstance(content, messages.EvictSlabs):
                channel.send(messages.SlabsEvicted(content.handles))
    except ConnectionLost:
        return


def test_the_kernel_ends_a_donor_before_a_job(start_donor: StartDonor) -> None:
    donor = start_donor()
    until(lambda: Path(f"/proc/{donor.pid}/oom_score_adj").read_text().strip() == "1000", "the score is set")


def test_a_stopped_donor_serves_again(start_donor: StartDonor) -> None:
    donor = start_donor()
    channel = connected(donor)
    handle = mapped(channel)
    donor.signal(signal.SIGSTOP)
    threading.Timer(0.3, donor.signal, (signal.SIGCONT,)).start()
    started = time.monotonic()
    assert write(channel, handle, 0, PAGE) == messages.PagesWritten(2)
    assert time.monotonic() - started > 0.2
