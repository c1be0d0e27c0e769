"""The source folders of this checkout, and whether git can list its files: a release has no history, a machine may have no git."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE_FOLDERS = tuple(sorted(each.name for each in (ROOT / "src/tiresias").iterdir() if each.is_symlink()))


def without_git() -> str:
    """Return why git cannot list the files; empty if it can."""
    if not (ROOT / ".git").exists():
        return "git lists the files, and this is no clone: it has no .git"
    return "" if shutil.which("git") else "git lists the files, and it is not here: apt-get install git"


def require_git() -> None:
    """Skip the test if git cannot list the files."""
    if reason := without_git():
        pytest.skip(reason)
