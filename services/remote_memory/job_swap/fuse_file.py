"""One file whose reads and writes go to a page store, served by threads over /dev/fuse without a library.

The buffers are allocated before the first request. A thread takes a request, calls the store and answers; requests of other
threads are in flight meanwhile.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.job_swap import fuse_protocol as protocol
from tiresias.services.remote_memory.job_swap.fuse_protocol import FuseError, FuseRequest
from tiresias.services.remote_memory.job_swap.page_store import PageStore

THREADS = 4
_READ_AGAIN = (errno.EINTR, errno.EAGAIN, errno.ENOENT)  # ENOENT: the request was interrupted before it was taken


class SwapTraffic:
    """What one thread has served.

    Attributes:
        pages_in: Pages that were read.
        pages_out: Pages that were written.
        failed: Requests that the store did not fulfil.
        seconds: For which the store read and wrote.
    """

    __slots__ = ("failed", "pages_in", "pages_out", "seconds")

    def __init__(self) -> None:
        self.pages_in = self.pages_out = self.failed = 0
        self.seconds = 0.0


class FuseFile:
    """The served file.

    Args:
        device: An open descriptor of /dev/fuse, which is closed at the end.
        store: The content.
        file_bytes: Its size.
        threads: Requests in flight.
    """

    def __init__(self, device: int, store: PageStore, file_bytes: int, threads: int = THREADS) -> None:
        self._device, self._store, self._file_bytes = device, store, file_bytes
        self._traffic = [SwapTraffic() for _ in range(threads)]
        self._threads = [
            threading.Thread(target=self._serve, args=(each,), name="swap requests", daemon=True)
            for each in self._traffic
        ]

    def start(self) -> None:
        """Start the threads; they end when the kernel ends the connection."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until the kernel has ended the connection."""
        for thread in self._threads:
            thread.join()
        os.close(self._device)

    def traffic(self) -> dict[str, int | float]:
        """Return the sums of all threads."""
        return {name: sum(getattr(each, name) for each in self._traffic) for name in SwapTraffic.__slots__}

    def _serve(self, traffic: SwapTraffic) -> None:
        request_buffer = memoryview(bytearray(protocol.REQUEST_BYTES + protocol.PAGE_BYTES))
        page_buffer = memoryview(bytearray(protocol.MAX_BYTES))
        while True:
            try:
                count = os.readv(self._device, [request_buffer])
            except OSError as error:
                if error.errno in _READ_AGAIN:
                    continue
                if error.errno != errno.ENODEV:
                    log_line(f"remote memory: /dev/fuse: {error.strerror}")
                return
            self._fulfil(protocol.parse(request_buffer[:count]), page_buffer, traffic)

    def _fulfil(self, request: FuseRequest, page_buffer: memoryview, traffic: SwapTraffic) -> None:
        if request.operation in protocol.WITHOUT_ANSWER:
            return
        began = time.perf_counter()
        try:
            result = self._result(request, page_buffer, traffic)
        except FuseError as error:
            self._answer(request, (), error.number)
        except Exception as error:  # any failure of the store is an error of this request, not of the device
            traffic.failed += 1
            log_line(f"remote memory: swap request failed: {error}")
            self._answer(request, (), errno.EIO)
        else:
            traffic.seconds += time.perf_counter() - began
            self._answer(request, (result,))

    def _result(self, request: FuseRequest, page_buffer: memoryview, traffic: SwapTraffic) -> bytes | memoryview:
        if request.operation == protocol.READ:
            offset, size = self._range(request)
            self._store.read(offset, page_buffer[:size])
            traffic.pages_in += size // protocol.PAGE_BYTES
            return page_buffer[:size]
        if request.operation == protocol.WRITE:
            offset, size = self._range(request)
            self._store.write(offset, request.arguments[protocol.READ_ARGUMENTS.size :][:size])
            traffic.pages_out += size // protocol.PAGE_BYTES
            return protocol.WRITE_OUT.pack(size, 0)
        return protocol.metadata_answer(request, self._file_bytes)

    def _range(self, request: FuseRequest) -> tuple[int, int]:
        _, offset, size, *_ = protocol.READ_ARGUMENTS.unpack_from(request.arguments)
        if size > protocol.MAX_BYTES or offset + size > self._file_bytes:
            raise FuseError(errno.EINVAL)
        return offset, size

    def _answer(self, request: FuseRequest, parts: tuple[bytes | memoryview, ...], error: int = 0) -> None:
        header = protocol.answer_header(request.unique, sum(map(len, parts)), error)
        with suppress(OSError):  # the request was aborted
            os.writev(self._device, [header, *parts])


def open_device(opener: Callable[[str, int], int] = os.open) -> int:
    """Return a descriptor of /dev/fuse.

    Raises:
        OSError: There is none, or no right to it.
    """
    return opener("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
