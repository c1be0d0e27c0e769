"""Other releases of the training side and the supervisor, importable: the previous one, and one of other protocol versions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.checkout import require_git

ROOT = Path(__file__).parents[1]
PREVIOUS = "d6b22a344d1d6c2b488e6a06919b092d189a41cb"  # the last commit that states no version of the control protocol
FOLDERS = ("checkpoint", "profiler", "wrappers", "src")


def previous(folder: Path) -> Path:
    """A folder for PYTHONPATH. Skips the test where the history does not reach back: a copy without .git, a shallow clone."""
    require_git()
    found = subprocess.run(["git", "archive", PREVIOUS, *FOLDERS], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"the history does not have {PREVIOUS:.7}; tests/protocol/test_versions.py reads recorded files")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-x"], cwd=folder, input=found.stdout, check=True)
    return folder / "src"


def speaking(folder: Path, oldest: int, newest: int) -> Path:
    """A folder for PYTHONPATH with this release's training side, as if it spoke these versions of the protocol."""
    package = folder / "tiresias"
    for name in ("checkpoint", "protocol"):
        shutil.copytree(ROOT / name, package / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "errors.py"):
        shutil.copy(ROOT / "src/tiresias" / name, package)
    file = package / "protocol/versions.py"
    text = file.read_text()
    assert "\nOWN = Versions(" in text
    file.write_text(f"{text}\n\nOWN = Versions({oldest}, {newest})\nrefusal.__defaults__ = (OWN,)\n")
    return folder
