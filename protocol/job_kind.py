"""The kind of a job: its name, script and number of GPUs. What was learned from one job holds for later ones of its kind."""

from __future__ import annotations

import re
from typing import NamedTuple

_SCRIPT = re.compile("[0-9a-f]{16}")  # a `script_hash`


class Key(NamedTuple):
    """Which jobs are of a kind. script: `script_hash` of it; gpus: of the whole job."""

    name: str
    script: str
    gpus: int

    @property
    def file(self) -> str:
        """Names are any bytes that a user likes, so that only their hash makes a file's name."""
        return f"{self.script}-{self.gpus}-{digest(self.name.encode(errors='replace'))}.json"


def script_of(file: str) -> str:
    """Return the `script_hash` in `Key.file`."""
    return file.partition("-")[0]


def same_script(file: str) -> str:
    """Return the pattern (glob) of `Key.file` for the same name and script with any number of GPUs."""
    script, _, name = file.split("-", 2)
    return f"{script}-*-{name}"


def script_hash(script: bytes) -> str:
    """Return the hash that identifies a script."""
    return digest(script)


def hash_of_script(value: object) -> str:
    """Return the value where it may be a `script_hash`, else "": users write the files that have it."""
    return value if isinstance(value, str) and _SCRIPT.fullmatch(value) else ""


def digest(text: bytes) -> str:
    """Return 16 hexadecimal digits of the SHA-256."""
    import hashlib  # here: most programs that import this module compute no hash

    return hashlib.sha256(text).hexdigest()[:16]
