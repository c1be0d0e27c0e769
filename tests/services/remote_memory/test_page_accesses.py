"""Pages that are unmapped and stay resident: their content, the protection of clean ones, and which were accessed."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.services.remote_memory.donors import region_settings
from tiresias.errors import Unavailable
from tiresias.services.remote_memory.region.leaving_pages import MappedRegion
from tiresias.services.remote_memory.region.page_accesses import PageAccesses, are_accesses_known
from tiresias.services.remote_memory.region.page_buffers import PageBuffer
from tiresias.services.remote_memory.region.remote_region import RemoteRegion
from tiresias.services.remote_memory.region.userfault import (
    copy_in,
    open_userfault,
    protect,
    read_faults,
    register,
    wake,
)

PAGE, PAGES = 4096, 64


class OwnRegion:
    """A region of this process, whose faults a thread resolves: all pages are resident.

    Attributes:
        writes: The pages of write faults.
    """

    def __init__(self) -> None:
        self.userfault, self.memory = open_userfault(), os.memfd_create("test")
        os.ftruncate(self.memory, PAGES * PAGE)
        self.map = mmap.mmap(self.memory, PAGES * PAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        register(self.userfault, self.address, PAGES * PAGE)
        self.region = MappedRegion(self.userfault, self.memory, self.address, PAGE)
        self.accesses = PageAccesses(os.getpid(), self.address)
        self.writes: list[int] = []
        self._fill()
        self._ended = threading.Event()
        self._handler = threading.Lock()  # as a region has one thread: no fault is resolved while a page is unmapped
        self._thread = threading.Thread(target=self._resolve)
        self._thread.start()

    def _fill(self) -> None:
        source = PageBuffer(PAGES * PAGE)
        for page in range(PAGES):
            source.view[page * PAGE : (page + 1) * PAGE] = bytes([page + 1]) * PAGE
        assert copy_in(self.userfault, self.address, source.address, PAGES * PAGE, protected=True)

    def _resolve(self) -> None:
        while not self._ended.wait(0.0001):
            with self._handler:
                for fault in read_faults(self.userfault):
                    self._resolve_one((fault.address - self.address) // PAGE, fault.write)

    def _resolve_one(self, page: int, write: bool) -> None:
        if write:
            self.writes.append(page)
            protect(self.userfault, self.address + page * PAGE, PAGE, on=False)
        else:
            wake(self.userfault, self.address + page * PAGE, PAGE)

    def unmap(self, page: int, count: int, changed: bool) -> None:
        with self._handler:
            self.region.unmap(page, memoryview(bytearray(count * PAGE)), changed=changed, clean=not changed)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.accesses.close()
        os.close(self.userfault)
        os.close(self.memory)


@pytest.fixture
def own() -> Iterator[OwnRegion]:
    if not are_accesses_known():
        pytest.skip("/proc/self/pagemap does not report mapped pages here")
    try:
        found = OwnRegion()
    except Unavailable as error:
        pytest.skip(str(error))
    yield found
    found.close()


def test_an_access_is_reported_and_the_content_stays(own: OwnRegion) -> None:
    assert own.accesses.of(8, 8) == [True] * 8
    own.unmap(8, 8, changed=False)
    assert own.accesses.of(7, 10) == [True] + [False] * 8 + [True]
    assert own.map[10 * PAGE] == 11
    assert own.accesses.of(8, 8) == [False, False, True] + [False] * 5
    assert own.map[8 * PAGE : 16 * PAGE] == b"".join(bytes([page + 1]) * PAGE for page in range(8, 16))


def test_a_write_to_a_clean_page_is_still_reported(own: OwnRegion) -> None:
    own.unmap(3, 1, changed=False)
    ctypes.memset(own.address + 3 * PAGE, 77, 10)
    assert own.writes == [3]
    assert own.map[3 * PAGE : 3 * PAGE + 11] == b"M" * 10 + b"\4"


def test_a_write_to_a_changed_page_is_no_fault_of_the_region(own: OwnRegion) -> None:
    ctypes.memset(own.address + 4 * PAGE, 1, 1)
    own.unmap(4, 1, changed=True)
    ctypes.memset(own.address + 4 * PAGE, 2, 1)
    assert own.writes == [4]


def test_no_write_is_lost_while_a_changed_page_is_unmapped(own: OwnRegion) -> None:
    """A thread writes to a page without the interpreter's lock while the page is unmapped again and again."""
    libc = ctypes.CDLL(None)
    rounds = 4000
    protect(own.userfault, own.address + 5 * PAGE, PAGE, on=False)

    def count() -> None:
        for number in range(1, rounds + 1):
            libc.memset(ctypes.c_void_p(own.address + 5 * PAGE + number % PAGE), number % 251, 1)

    thread = threading.Thread(target=count)
    thread.start()
    while thread.is_alive():
        own.unmap(5, 1, changed=True)
    thread.join()
    expected = bytearray([6]) * PAGE
    for number in range(1, rounds + 1):
        expected[number % PAGE] = number % 251
    assert own.map[5 * PAGE : 6 * PAGE] == bytes(expected)


def test_hot_pages_of_a_region_come_in_once(tmp_path: Path) -> None:
    if not are_accesses_known():
        pytest.skip("/proc/self/pagemap does not report mapped pages here")
    with RemoteRegion(region_settings(tmp_path, [], 8192), 2048 * PAGE) as region:
        array, random = region.array((8192, 512), "int64"), np.random.default_rng(1)
        array[:] = np.arange(8192)[:, None]
        hot = random.permutation(8192)[:256]
        for step in range(12_000):
            row = int(hot[step % 255]) if step % 4 else int(random.integers(8192))
            assert array[row, step % 512] == row
        before = region.statistics()
        assert before["observed_pages"] > 1000
        assert np.array_equal(array[hot, 7], hot)
        assert region.statistics()["faults"] - before["faults"] < 40
