"""Memory by page faults: arrays in a region have the content that arrays in memory have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.services.remote_memory.conftest import StartDonor
from tests.services.remote_memory.donors import region_settings, until
from tiresias.errors import Unavailable, UsageError
from tiresias.services.remote_memory.region.region_messages import FORGET, RANGE
from tiresias.services.remote_memory.region.remote_region import RemoteRegion
from tiresias.services.remote_memory.region.userfault import open_userfault

PAGE, PAGES, RESIDENT_PAGES = 4096, 1024, 128


@pytest.fixture(autouse=True)
def userfault() -> None:
    try:
        os.close(open_userfault())
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def region(tmp_path: Path, start_donor: StartDonor) -> Iterator[RemoteRegion]:
    with RemoteRegion(region_settings(tmp_path, [start_donor().address], PAGES), RESIDENT_PAGES * PAGE) as found:
        yield found


def resident_bytes(array: np.ndarray[Any, Any]) -> int:
    """Return the resident memory of the mapping of an array, as the kernel counts it."""
    address, inside = array.__array_interface__["data"][0], False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "Rss:":
            return int(line.split()[1]) << 10
    raise AssertionError("no mapping")


def test_an_array_holds_more_than_is_resident(region: RemoteRegion) -> None:
    array = region.array((PAGES, 512))
    assert not array.any()
    rng = np.random.default_rng(1)
    expected = np.zeros_like(array)
    for _ in range(3):
        expected[:] = rng.random(expected.shape)
        array[:] = expected
        assert resident_bytes(array) <= (RESIDENT_PAGES + 1) * PAGE
        assert np.array_equal(array, expected)
    found = region.statistics()
    assert found["resident_pages"] <= RESIDENT_PAGES
    assert found["pages_out"] > PAGES
    assert found["pages_in"] > PAGES


def test_random_changes_survive_a_killed_donor(tmp_path: Path, start_donor: StartDonor) -> None:
    donor, random = start_donor(), np.random.default_rng(2)
    with RemoteRegion(region_settings(tmp_path, [donor.address], PAGES), RESIDENT_PAGES * PAGE) as region:
        array = region.array(PAGES * PAGE // 8, "int64")
        expected = np.zeros(len(array), dtype="int64")
        killed_at = started_at = 0
        for number in range(1, 50_000):
            at = int(random.integers(0, len(array) - 700))
            if random.random() < 0.5:
                array[at : at + 700] = expected[at : at + 700] = number
            assert np.array_equal(array[at : at + 700], expected[at : at + 700])
            if not killed_at and number % 100 == 0 and region.statistics()["remote_pages"]:
                donor.kill()
                killed_at = number
            elif killed_at and number == killed_at + 300:
                donor.start()
                started_at = number
            elif started_at and number == started_at + 300:
                break
        assert started_at, "no page was remote"
        assert np.array_equal(array, expected)


def test_interleaved_streams_of_reads_and_writes_have_the_content_of_arrays(region: RemoteRegion) -> None:
    array, random = region.array((PAGES, 512), "int64"), np.random.default_rng(4)
    expected = np.zeros_like(array)
    for step in range(30):
        rows, writes = random.integers(0, PAGES - 40, 12), random.random(12) < 0.5
        for offset in range(int(random.integers(1, 40))):
            for row, write in zip(rows + offset, writes, strict=True):
                if write:
                    array[row, offset] = expected[row, offset] = step + 1
                assert array[row, 0] == expected[row, 0]
        if step % 10 == 9:
            assert np.array_equal(array, expected)
    found = region.statistics()
    assert found["resident_pages"] <= RESIDENT_PAGES
    assert found["ahead_pages"] > PAGES // 4


def test_copies_that_begin_at_their_end_bring_in_many_pages(region: RemoteRegion) -> None:
    array = region.array((PAGES, 512), "int64")
    for value in (1, 2):
        before = region.statistics()["faults"]
        for row in range(PAGES - 1, -1, -1):
            array[row] = value * row
        assert region.statistics()["faults"] - before < PAGES // 2
    assert (array[:, 7] == 2 * np.arange(PAGES)).all()


def test_pages_that_were_only_read_leave_without_a_write(region: RemoteRegion) -> None:
    array = region.array((PAGES, 512))
    array[:] = 1.0
    assert array.sum() == array.size
    before = region.statistics()
    assert array.sum() == array.size
    after = region.statistics()
    assert after["clean_pages"] - before["clean_pages"] > PAGES // 2
    assert after["pages_out"] - before["pages_out"] <= RESIDENT_PAGES


def test_forgotten_pages_are_zero_beside_pages_that_are_kept(region: RemoteRegion) -> None:
    array = region.array((PAGES, 512))
    expected = np.random.default_rng(4).random(array.shape)
    for first, count in ((0, 3), (10, 1), (100, 500), (PAGES - 2, 2)):
        array[:] = expected
        region._control.sendall(FORGET + RANGE.pack(first, count))
        assert region._answers.readline() == "{}\n"
        kept = expected.copy()
        kept[first : first + count] = 0.0
        assert np.array_equal(array, kept)


def test_threads_share_a_region(region: RemoteRegion) -> None:
    array = region.array((8, PAGES // 8, 512))

    def work(number: int) -> None:
        for step in range(5):
            array[number] += number + step

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        assert (array[number] == 5 * number + 10).all()


def test_system_calls_reach_pages_that_are_not_resident(region: RemoteRegion, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("faults of system calls are reported to privileged users alone")
    array = region.array(PAGES * PAGE, "uint8")
    content = np.random.default_rng(3).bytes(PAGES * PAGE)
    (tmp_path / "in").write_bytes(content)
    with (tmp_path / "in").open("rb") as file:
        assert file.readinto(array.data) == len(content)
    with (tmp_path / "out").open("wb") as file:
        file.write(array.data)
    assert (tmp_path / "out").read_bytes() == content


def test_arrays_lie_side_by_side_and_a_full_region_refuses_one(region: RemoteRegion) -> None:
    one, two = region.array(3, "uint8"), region.array((10, 10), "float32")
    one[:], two[:] = 7, 1.5
    assert one.tolist() == [7, 7, 7]
    with pytest.raises(UsageError, match="of the region are free"):
        region.array(PAGES * PAGE, "uint8")


def test_impossible_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="at least 524288 are needed"):
        RemoteRegion(region_settings(tmp_path, [], PAGES), 4096)
    with pytest.raises(UsageError, match="this machine has pages of"):
        RemoteRegion(region_settings(tmp_path, [], PAGES, page_bytes=8192, slab_bytes=1 << 20), 1 << 20)
    with pytest.raises(Unavailable, match="did not start"):
        RemoteRegion(region_settings(tmp_path / "none", [], PAGES), 1 << 20)


PROGRAM = """
import os, signal, sys
from pathlib import Path
from typing import Any
from tests.services.remote_memory.donors import region_settings
from tiresias.services.remote_memory.region.remote_region import RemoteRegion

region = RemoteRegion(region_settings(Path(sys.argv[2]), [], 1024), 1 << 20)
array = region.array(4 << 20, "uint8")
array[:] = 1
handler = region._process.pid
print(handler, flush=True)
if sys.argv[1] == "handler":
    os.kill(handler, signal.SIGKILL)
    array.sum()
elif sys.argv[1] == "step":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.kill(handler, signal.SIGTERM)
    print(array.sum(), flush=True)
elif sys.argv[1] == "child":
    if os.fork() == 0:
        array.sum()
        os._exit(0)
    print(os.WTERMSIG(os.wait()[1]), flush=True)
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


def run(what: str, folder: Path) -> tuple[int, list[int]]:
    command = [sys.executable, "-c", PROGRAM, what, str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[3], timeout=120, check=False)
    return done.returncode, [int(line) for line in done.stdout.split()]


def test_a_program_ends_when_the_process_of_its_pages_has_ended(tmp_path: Path) -> None:
    assert run("handler", tmp_path)[0] == -signal.SIGBUS


def test_a_signal_to_all_processes_of_a_step_is_the_programs(tmp_path: Path) -> None:
    code, printed = run("step", tmp_path)
    assert (code, printed[1]) == (0, 4 << 20)


def test_a_child_process_does_not_have_the_region(tmp_path: Path) -> None:
    code, printed = run("child", tmp_path)
    assert code == 0
    assert printed[1] == signal.SIGSEGV


def test_the_process_of_the_pages_ends_with_a_killed_program(tmp_path: Path) -> None:
    code, (handler,) = run("program", tmp_path)
    assert code == -signal.SIGKILL
    until(lambda: not Path(f"/proc/{handler}").exists() or _is_zombie(handler), "the handler has ended")


def _is_zombie(pid: int) -> bool:
    return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
