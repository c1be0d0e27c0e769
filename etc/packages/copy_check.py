"""The compiled copy refuses to run where it is out of date: `compiled.py` puts this module into the copy, which calls `refuse`.

A copy is for the Python that compiled it, for the sources that it was made from as long as they are there, and for the version that
is installed, if any.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

COMPILED_FOLDERS = ("scheduler", "simulator")
NOTES = "compiled_copy.json"


def write_notes(package: Path, sources: Path) -> None:
    """Write what a copy is for, in the copy `package` of `sources`, which have the folders of the package."""
    notes = {"python": sys.implementation.cache_tag, "sources": str(sources), "digest": digest(sources)}
    (package / NOTES).write_text(json.dumps(notes))


def refuse(package: Path, version: str) -> None:
    """Exit with one line if the copy in the folder `package`, of this version of Tiresias, is out of date."""
    notes = json.loads((package / NOTES).read_text())
    if reason := _reason(notes, version, _installed_version(package)):
        sys.exit(f"the compiled copy in {package.parent} {reason}; make it again with etc/packages/compiled.py")


def _reason(notes: dict[str, str], version: str, installed: str | None) -> str:
    if notes["python"] != sys.implementation.cache_tag:
        return f"is for {notes['python']}, and this is {sys.implementation.cache_tag}"
    if installed not in (None, version):
        return f"is version {version}, and {installed} is installed"
    sources = Path(notes["sources"])
    if sources.is_dir() and digest(sources) != notes["digest"]:
        return f"is older than its sources in {sources}"
    return ""


def digest(sources: Path) -> str:
    """Return a hash of the sources in COMPILED_FOLDERS."""
    found = hashlib.sha256()
    for file in _files(sources):
        found.update(str(file.relative_to(sources)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()


def _files(sources: Path) -> Iterable[Path]:
    return sorted(file for folder in COMPILED_FOLDERS for file in (sources / folder).rglob("*.py"))


def _installed_version(package: Path) -> str | None:
    """Return the version of the other Tiresias that this Python would import; None: there is none."""
    others = [folder for folder in sys.path if Path(folder).resolve() != package.parent.resolve()]
    found = PathFinder.find_spec(package.name, others)
    if not found or not found.origin:
        return None
    match = re.search(r'^__version__ = "(.*)"', Path(found.origin).read_text(), re.MULTILINE)
    return match[1] if match else None
