"""A region on real donors: every page is what was written, whatever happens to donors and the disk."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import DonorProcess, region_settings, until
from tests.services.remote_memory.frame_proxy import DOWN, UP, FrameProxy
from tests.services.remote_memory.random_operations import MemoryFile, campaign, small_disk
from tiresias.errors import UsageError
from tiresias.services.remote_memory.client.disk_pages import LocalDiskFull
from tiresias.services.remote_memory.client.remote_pages import RemotePages
from tiresias.services.remote_memory.messages import donor_messages as messages
from tiresias.services.wire.session_messages import Accepted, Challenge, Hello, Proof
from tiresias.services.wire.typed_messages import NUMBER_OF

PAGE, PAGES = 4096, 1024


def content(page: int, version: int, pages: int = 1) -> bytes:
    return b"".join(Random(1000 * version + page + at).randbytes(PAGE) for at in range(pages))


def write_all(region: RemotePages, version: int) -> None:
    for page in range(0, PAGES, 32):
        region.write(page, content(page, version, 32))


def check_all(region: RemotePages, version: int) -> None:
    for page in range(0, PAGES, 64):
        assert region.read(page, 64) == content(page, version, 64), page


def map_all(region: RemotePages) -> None:
    """Write until each slab is mapped, and every page is remote."""

    def mapped() -> bool:
        write_all(region, 0)
        return bool(region.statistics()["remote_pages"] == PAGES)

    until(mapped, "all slabs are mapped")


@pytest.fixture
def region(tmp_path: Path, start_donor: StartDonor) -> Iterator[tuple[RemotePages, list[DonorProcess]]]:
    donors = [start_donor() for _ in range(3)]
    with RemotePages(region_settings(tmp_path, [donor.address for donor in donors], PAGES)) as found:
        yield found, donors


Region = tuple[RemotePages, list[DonorProcess]]


def test_without_donors_a_region_is_its_disk(tmp_path: Path) -> None:
    with RemotePages(region_settings(tmp_path, [], PAGES)) as region:
        assert region.read(0, 2) == bytes(2 * PAGE)
        write_all(region, 1)
        check_all(region, 1)
        assert region.statistics()["read_remote"] == 0
    assert [each.name for each in tmp_path.iterdir()] == []


def test_hot_slabs_are_spread_and_read_from_donors(region: Region) -> None:
    found, donors = region
    map_all(found)
    assert found.statistics()["donors"] == 3
    assert sum(donor.statistics()["mapped"] for donor in donors) == found.statistics()["mapped_slabs"] == 4
    write_all(found, 1)
    before = found.statistics()
    check_all(found, 1)
    after = found.statistics()
    assert after["read_remote"] - before["read_remote"] == PAGES
    assert found.read(200, 400) == content(200, 1, 400)  # three slabs in one call


def test_a_cold_slab_is_not_mapped(tmp_path: Path, start_donor: StartDonor) -> None:
    with RemotePages(region_settings(tmp_path, [start_donor().address], PAGES, hot_slab=20.0)) as region:
        for second in range(3):
            region.write(second, content(second, 1))
            time.sleep(1.0)
        assert region.statistics()["mapped_slabs"] == 0
        map_all(region)


def test_killed_donors_are_read_from_the_disk_and_mapped_again(region: Region) -> None:
    found, donors = region
    map_all(found)
    write_all(found, 1)
    for donor in donors:
        donor.kill()
    check_all(found, 1)
    assert found.statistics()["mapped_slabs"] == 0
    write_all(found, 2)
    check_all(found, 2)
    for donor in donors:
        donor.start()
    map_all(found)
    assert found.statistics()["mapped_slabs"] == 4


def test_a_page_is_read_from_the_queue_before_the_disk_has_it(tmp_path: Path, start_donor: StartDonor) -> None:
    donor = start_donor()
    with RemotePages(region_settings(tmp_path, [donor.address], PAGES)) as region:
        map_all(region)
        for version in range(1, 20):
            region.write(0, content(0, version, 32))
            if version == 10:
                donor.kill()
            assert region.read(0, 32) == content(0, version, 32)


def test_a_stopped_donor_costs_one_timeout(tmp_path: Path, start_donor: StartDonor) -> None:
    donor = start_donor()
    with RemotePages(region_settings(tmp_path, [donor.address], PAGES, donor_timeout_s=0.3)) as region:
        map_all(region)
        donor.signal(signal.SIGSTOP)
        started = time.monotonic()
        write_all(region, 1)
        check_all(region, 1)
        assert time.monotonic() - started < 20
        assert region.statistics()["lost_donors"] == 1
        donor.signal(signal.SIGCONT)
        map_all(region)


def test_evicted_slabs_are_read_from_the_disk_and_mapped_when_hot(tmp_path: Path, start_donor: StartDonor) -> None:
    memory = MemoryFile(tmp_path / "meminfo")
    donor = start_donor(memory=str(memory.path))
    with RemotePages(region_settings(tmp_path, [donor.address], PAGES)) as region:
        map_all(region)
        write_all(region, 1)
        memory.set_available(0)
        until(lambda: donor.statistics()["held_bytes"] == 0, "the memory is given back")
        check_all(region, 1)
        until(lambda: region.statistics()["evicted"] == 4, "the client has received the evictions")
        memory.set_available(1 << 30)
        map_all(region)
        assert region.statistics()["lost_donors"] == 0


def test_a_page_that_is_read_from_the_disk_is_promoted(tmp_path: Path, start_donor: StartDonor) -> None:
    donor = start_donor()
    with RemotePages(region_settings(tmp_path, [donor.address], PAGES)) as region:
        write_all(region, 1)

        def all_remote() -> bool:
            check_all(region, 1)
            return bool(region.statistics()["remote_pages"] == PAGES)

        until(all_remote, "reads alone bring the pages to the donor")
        before = region.statistics()["read_disk"]
        check_all(region, 1)
        assert region.statistics()["read_disk"] == before


def test_a_damaged_page_is_read_from_the_disk(tmp_path: Path, start_donor: StartDonor) -> None:
    proxy = FrameProxy(start_donor().address)
    with RemotePages(region_settings(tmp_path, [proxy.address], PAGES)) as region:
        map_all(region)
        write_all(region, 1)
        proxy.damage = 1
        check_all(region, 1)
        assert region.statistics()["damaged"] == 1
    proxy.close()


def test_a_donor_that_reports_memory_which_it_has_not_is_passed_over(tmp_path: Path, start_donor: StartDonor) -> None:
    honest, full = start_donor(), start_donor(most_mib=0, ready_slabs=0)
    liar = FrameProxy(full.address, rewrite=lambda kind, body: body.replace(b'"slabs":0', b'"slabs":9'))
    with RemotePages(region_settings(tmp_path, [liar.address, honest.address], PAGES)) as region:
        map_all(region)
        assert region.statistics()["donors"] == 1
    liar.close()


def test_a_donor_of_another_key_or_version_is_not_used(tmp_path: Path, start_donor: StartDonor) -> None:
    donor = start_donor()
    other = FrameProxy(donor.address, rewrite=lambda kind, body: body.replace(b'"proof":"', b'"proof":"0'))
    with RemotePages(region_settings(tmp_path, [other.address], PAGES)) as region:
        write_all(region, 1)
        check_all(region, 1)
        assert region.statistics()["mapped_slabs"] == 0
    other.close()


def test_a_full_disk_refuses_a_write_and_keeps_the_old_content(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        if disk is None:
            pytest.skip("a tmpfs cannot be mounted here")
        (disk / "ballast").write_bytes(bytes((16 << 20) - (2 << 20)))
        settings = region_settings(disk, [], PAGES, queue_pages=64, disk_timeout_s=0.2)
        with RemotePages(settings) as region:
            stored = written_until_full(region)
            assert 256 <= stored < PAGES
            for page in range(0, PAGES, 32):
                expected = content(page, 1, 32) if page < stored else bytes(32 * PAGE)
                assert region.read(page, 32) == expected
            assert region.statistics()["disk_failing"]
            (disk / "ballast").unlink()
            until(lambda: not region.statistics()["queued_pages"], "the queue is written")
            write_all(region, 2)
            check_all(region, 2)


def written_until_full(region: RemotePages) -> int:
    """Return how many pages a full disk and its queue took."""
    for page in range(0, PAGES, 32):
        try:
            region.write(page, content(page, 1, 32))
        except LocalDiskFull:
            return page
    return PAGES


@pytest.mark.parametrize(
    ("page", "size", "message"),
    [(0, 100, "whole pages"), (PAGES, PAGE, "pages 1024 to 1025 of a region of 1024"), (-1, PAGE, "pages -1 to 0")],
)
def test_impossible_ranges_are_refused(tmp_path: Path, page: int, size: int, message: str) -> None:
    with RemotePages(region_settings(tmp_path, [], PAGES)) as region:
        with pytest.raises(UsageError, match=message):
            region.write(page, bytes(size))
        with pytest.raises(UsageError, match=message):
            region.read_into(page, bytearray(size))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pages": 0}, "a region of 0 pages"),
        ({"page_bytes": 1000}, "pages of 1000 bytes"),
        ({"slab_bytes": 5000}, "slabs of 5000 bytes"),
        ({"queue_pages": 1}, "a queue of 1 pages"),
        ({"key": b"x"}, "a key has 32 bytes"),
        ({"donors": ("here",)}, "no address of the form host:port"),
        ({"donors": ("a:1", "a:1")}, "listed twice"),
    ],
)
def test_impossible_settings_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(region_settings(tmp_path, [], PAGES), **change)  # type: ignore[arg-type]


def test_random_operations_with_faults_read_no_wrong_byte(tmp_path: Path) -> None:
    found = campaign(12_000, seed=7, folder=tmp_path, disk=None, fault_every=600)
    assert found["wrong_bytes"] == 0
    assert sum(found["faults"].values()) > 5


TO_DONOR = (Hello, Proof, messages.QueryMemory, messages.MapSlab, messages.WritePages, messages.ReadPages,
            messages.ReportActivity, messages.SlabsEvicted)  # fmt: skip
TO_CLIENT = (Challenge, Accepted, messages.FreeMemory, messages.SlabMapped, messages.PagesWritten, messages.PagesRead,
             messages.CheckActivity, messages.EvictSlabs)  # fmt: skip
MESSAGES = [(UP, kind) for kind in TO_DONOR] + [(DOWN, kind) for kind in TO_CLIENT]


ENOUGH, SHORT, CHANGE_S = 66 << 20, 63 << 20, 1.5  # with a headroom of 64 MiB


def stress(region: RemotePages, memory: MemoryFile, done: threading.Event, deadline_s: float = 50.0) -> None:
    """Write and read all pages while the donor's memory becomes short again and again, until `done`."""
    started, version = time.monotonic(), 0
    while not done.is_set():
        passed = time.monotonic() - started
        assert passed < deadline_s, "the message was not seen"
        version += 1
        write_all(region, version)
        check_all(region, version)
        memory.set_available(SHORT if int(passed / CHANGE_S) % 3 == 2 else ENOUGH)
    write_all(region, version + 1)
    check_all(region, version + 1)


@pytest.mark.parametrize(("direction", "kind"), MESSAGES, ids=[kind.__name__ for _, kind in MESSAGES])
def test_a_donor_killed_at_a_message_loses_no_page(
    tmp_path: Path, start_donor: StartDonor, direction: str, kind: type[object]
) -> None:
    memory = MemoryFile(tmp_path / "meminfo")
    donor, done = start_donor(memory=str(memory.path), poll_s=0.5, ready_slabs=0), threading.Event()

    def kill(where: str, number: int) -> None:
        if (where, number) == (direction, NUMBER_OF[kind]) and not done.is_set():
            donor.kill()
            done.set()

    proxy = FrameProxy(donor.address, kill)
    with RemotePages(region_settings(tmp_path, [proxy.address], PAGES)) as region:
        stress(region, memory, done)
        donor.start()
        memory.set_available(1 << 30)
        map_all(region)
    proxy.close()


CLIENT = """
import json, sys, threading
from pathlib import Path
from tests.services.remote_memory.donors import region_settings
from tests.services.remote_memory.random_operations import MemoryFile
from tests.services.remote_memory.test_remote_pages import PAGES, stress
from tiresias.services.remote_memory.client.remote_pages import RemotePages

disk, address, memory = sys.argv[1:]
with RemotePages(region_settings(Path(disk), [address], PAGES)) as region:
    stress(region, MemoryFile(Path(memory)), threading.Event(), 60.0)
"""


@pytest.mark.parametrize(("direction", "kind"), MESSAGES, ids=[kind.__name__ for _, kind in MESSAGES])
def test_a_client_killed_at_a_message_keeps_no_memory(
    tmp_path: Path, start_donor: StartDonor, direction: str, kind: type[object]
) -> None:
    memory = MemoryFile(tmp_path / "meminfo")
    donor, seen = start_donor(memory=str(memory.path), poll_s=0.5, ready_slabs=0), threading.Event()
    clients: list[subprocess.Popen[bytes]] = []

    def kill(where: str, number: int) -> None:
        if (where, number) == (direction, NUMBER_OF[kind]):
            clients[0].kill()
            seen.set()

    proxy = FrameProxy(donor.address, kill)
    command = [sys.executable, "-c", CLIENT, str(tmp_path), proxy.address, str(memory.path)]
    clients.append(subprocess.Popen(command, cwd=Path(__file__).parents[3]))
    assert seen.wait(60), "the message was not seen"
    clients[0].wait(30)
    until(lambda: donor.statistics()["mapped"] == 0, "the slabs are free")
    assert not [each for each in tmp_path.iterdir() if "region" in each.name]
    proxy.close()
