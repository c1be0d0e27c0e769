"""Detection of checkpoints in a job's program: in the script, and in the files that it names. Their imports are not followed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from itertools import islice

_USES = re.compile(rb"\btiresias(\.|\s+import\s+)checkpoint\b")
_WORD = re.compile(r"[^\s'\"=;|&<>()`]+")
WORDS, BYTES = 200, 1 << 20  # looked at: of the script, of a file


def seen_in(name: str, script: bytes, arguments: Sequence[str]) -> str:
    """Return the script's name, or that of the first file that names tiresias.checkpoint; "" without one."""
    if _USES.search(_code(script)):
        return name
    named = dict.fromkeys([*_words(script), *arguments])
    return next((path for path in islice(named, WORDS) if _USES.search(_code(_text(path)))), "")


def _words(script: bytes) -> Iterator[str]:
    """Of the script, as paths: variables that are known here are put in, and after -m a module's file."""
    before = ""
    for word in _WORD.findall(_code(script).decode(errors="surrogateescape")):
        path = os.path.expanduser(os.path.expandvars(word))  # noqa: PTH111
        yield f"{path.replace('.', '/')}.py" if before == "-m" else path
        before = word


def _code(text: bytes) -> bytes:
    """Without the lines that are comments to a shell and to Python."""
    return b"\n".join(line for line in text.split(b"\n") if not line.lstrip().startswith(b"#"))


def _text(path: str) -> bytes:
    """Nothing of what is no plain file, or is too large to be a program's text."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            found = os.fstat(file.fileno())
            return file.read(BYTES) if stat.S_ISREG(found.st_mode) and found.st_size <= BYTES else b""
    except (OSError, ValueError):  # ValueError: a NUL in it
        return b""
