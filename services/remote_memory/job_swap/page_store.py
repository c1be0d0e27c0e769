"""What a swap device reads from and writes to, and the store on local disk alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

from tiresias.errors import UsageError


class PageStore(Protocol):
    """Bytes of a fixed size. Several threads call it at the same time, for ranges that do not overlap."""

    def read(self, offset: int, into: memoryview) -> None:
        """Fill `into` from byte `offset` on; what was never written is zero.

        Raises:
            OSError: The bytes are lost.
        """
        ...

    def write(self, offset: int, data: memoryview) -> None:
        """Store `data` from byte `offset` on.

        Raises:
            OSError: They are not stored.
        """
        ...

    def statistics(self) -> dict[str, Any]:
        """Return where the bytes came from and went, for the log of the job's end."""
        ...

    def close(self) -> None:
        """Release the store; its content ends."""
        ...


class DiskStore:
    """A file without a name on local disk: it ends with the process.

    Args:
        folder: Where it is.
        size: Bytes; they are reserved at once, so that a full disk is noticed now and not by a write.

    Raises:
        UsageError: The folder does not take a file of that size.
    """

    def __init__(self, folder: Path, size: int) -> None:
        try:
            self._file = os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
            os.posix_fallocate(self._file, 0, size)
        except OSError as error:
            raise UsageError(f"{folder} takes no swap of {size} bytes: {error.strerror}") from error

    def read(self, offset: int, into: memoryview) -> None:
        """Fill `into`."""
        while into:
            count = os.preadv(self._file, [into], offset)
            if not count:
                raise OSError(f"byte {offset} is beyond the end")
            offset, into = offset + count, into[count:]

    def write(self, offset: int, data: memoryview) -> None:
        """Store `data`."""
        while data:
            count = os.pwritev(self._file, [data], offset)
            offset, data = offset + count, data[count:]

    def statistics(self) -> dict[str, Any]:
        """Return nothing: there is one place."""
        return {}

    def close(self) -> None:
        """End the file."""
        os.close(self._file)
