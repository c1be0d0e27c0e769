"""The user's script inside the batch script that tsbatch made: where it begins, and how to start it by its own interpreter."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tiresias.protocol.batch_script_statements import INSERTED, MARKER

NAME = "slurm_script"  # what Slurm itself calls a batch script on the node


class UserScript(NamedTuple):
    """The user's script, extracted from the batch script.

    Attributes:
        folder: Private and temporary, holds nothing else.
        command: The command that starts it, without the script's arguments.
        kind: The script's hash.
    """

    folder: Path
    command: list[str]
    kind: str = ""

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / NAME

    def remove(self) -> None:
        """Remove the extracted script."""
        self.path.unlink(missing_ok=True)
        self.folder.rmdir()


def extract(batch_script: Path, parent: Path) -> UserScript:
    """Write the user's script to a private file in a new folder of `parent`. Raises OSError or ValueError."""
    from tiresias.protocol.job_kind import script_hash  # here: tsbatch imports this module and needs no hash

    text = own(batch_script.read_bytes())
    if not text:
        raise ValueError(f"{batch_script} was not made by tsbatch")
    folder = parent / f"tiresias-{os.getpid()}-{os.urandom(6).hex()}"
    folder.mkdir(mode=0o700)
    path = folder / NAME
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o700)
    with os.fdopen(file, "wb") as stream:
        stream.write(text)
    return UserScript(folder, [*interpreter(text), str(path)], script_hash(text))


def own(batch_script: bytes) -> bytes:
    """The user's script in a batch script of tsbatch, b"" where it is none. The first of the two markers counts."""
    first, _, rest = batch_script.partition(b"\n")
    above, marker, below = rest.partition(INSERTED)
    if marker and MARKER not in above:
        return first + b"\n" + below
    return batch_script.partition(MARKER)[2]


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
