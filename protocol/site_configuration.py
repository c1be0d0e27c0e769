"""The site's configuration: where its file is, how it is read, and the folders that hold where it names none.

The controller checks every key (slurm_plugin). Wrappers read the same files with `read` and use the few keys that they need.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

FILE = Path("/etc/tiresias/tiresias.toml")
CONTROL = "/shared/tiresias/control"
CHECKPOINTS = "/shared/tiresias/checkpoints"
RUN = "/run/tiresias"


def drop_ins(file: Path) -> list[Path]:
    """Return the files of `conf.d` beside `file`; a later one replaces the keys of an earlier one. Raises OSError."""
    return sorted((file.parent / "conf.d").glob("*.toml"))


def parse(path: Path) -> dict[str, Any]:
    """Return the content of one file.

    Raises:
        OSError: The file cannot be read.
        ImportError: This Python is older than 3.11 and has no tomli.
        ValueError, RecursionError: The file is not TOML, or not UTF-8.
    """
    text = path.read_bytes().decode()
    # By name, so that type checkers on any Python need neither of the two; after the file was read: few hosts have one.
    reader = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    found: dict[str, Any] = reader.loads(text)
    return found


def read(file: Path = FILE) -> dict[str, Any] | None:
    """Return the configuration with its drop-ins merged table by table; None where `file` cannot be read."""
    document = _parse(file)
    for drop_in in drop_ins(file) if document is not None else ():
        for name, value in (_parse(drop_in) or {}).items():
            before = (document := document or {}).get(name)
            document[name] = before | value if isinstance(before, dict) and isinstance(value, dict) else value
    return document


def control_root() -> Path:
    """Return the root of the control folders: `paths.control`, else the default."""
    paths = (read() or {}).get("paths")
    found = paths.get("control") if isinstance(paths, dict) else None
    return Path(found if isinstance(found, str) else CONTROL)


def _parse(path: Path) -> dict[str, Any] | None:
    try:
        return parse(path)
    except (ImportError, OSError, ValueError):
        return None
