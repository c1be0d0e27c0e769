"""A squeue for tests that need no Slurm: it notes its calls, and prints what the test has written."""

from __future__ import annotations

import time
from pathlib import Path

SCRIPT = """#!/bin/sh
{ echo "$@"; env; } > "$0.called" && cat "$0.called" >> "$0.calls" && echo >> "$0.calls"
%s
cat "$0.output"
"""


class FakeSqueue:
    """The program `squeue` in a folder for PATH.

    Args:
        folder: Where it is made.
        then: A shell command before it prints, such as `exit 1`.
    """

    def __init__(self, folder: Path, then: str = ":") -> None:
        self.path = folder / "squeue"
        self._output, self._calls = folder / "squeue.output", folder / "squeue.calls"
        self._output.write_text("")
        self.path.write_text(SCRIPT % then)
        self.path.chmod(0o755)

    def prints(self, output: str) -> None:
        self._output.write_text(output)

    def reports(self, job: str, seconds: float) -> float:
        """Print the row of a run that ends in so many seconds; return the end."""
        end = int(time.time() + seconds)
        self.prints(f"{job}|{end - 3600}|{end}\n")
        return float(end)

    @property
    def calls(self) -> list[str]:
        """The arguments and the environment of each call."""
        return self._calls.read_text().split("\n\n")[:-1] if self._calls.exists() else []
