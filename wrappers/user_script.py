"""The user's script inside the batch script that tsbatch made: where it begins, and how to start it by its own interpreter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

MARKER = b"#---- tiresias: the user's script stands below, unchanged ----\n"
NAME = "slurm_script"  # what Slurm itself calls a batch script on the node


class UserScript(NamedTuple):
    """folder: private and temporary, holds nothing else; command: what to start, without the script's arguments."""

    folder: Path
    command: list[str]

    def remove(self) -> None:
        (self.folder / NAME).unlink(missing_ok=True)
        self.folder.rmdir()


def extract(batch_script: Path, parent: Path) -> UserScript:
    """Write what stands below the marker to a private file in a new folder of `parent`. Raises OSError or ValueError."""
    _, marker, text = batch_script.read_bytes().partition(MARKER)
    if not marker:
        raise ValueError(f"{batch_script} was not made by tsbatch")
    folder = parent / f"tiresias-{os.getpid()}-{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    path = folder / NAME
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    with os.fdopen(file, "wb") as stream:
        stream.write(text)
    return UserScript(folder, [*interpreter(text), str(path)])


def interpreter(text: bytes) -> list[str]:
    """The words of the `#!` line as the kernel splits them (execve(2)): the interpreter and at most one argument.

    It is started by name because a node's temporary folder may be mounted noexec.
    """
    line = text.partition(b"\n")[0]
    if not line.startswith(b"#!"):
        raise ValueError("the script does not start with #!")
    words = [os.fsdecode(word) for word in line[2:].strip(b" \t\r").split(None, 1)]
    if not words:
        raise ValueError("the script's #! line names no interpreter")
    return words
