"""One line to the job's log."""

from __future__ import annotations

import os
from contextlib import suppress


def log_line(text: str) -> None:
    """`tiresias: text` on standard error, in one write so that lines of several processes do not mix. A closed log is no error."""
    with suppress(OSError):
        os.write(2, f"tiresias: {text}\n".encode(errors="backslashreplace"))
