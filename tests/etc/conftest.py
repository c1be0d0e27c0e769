"""The packages, built once for all tests of them (which run in one worker: the xdist group "packages")."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = {"deb": "dpkg-deb", "rpm": "rpmbuild"}


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Those that this machine can build, by kind."""
    kinds = [kind for kind, tool in TOOLS.items() if shutil.which(tool)]
    words = [sys.executable, str(ROOT / "etc/packages/build.py"), str(tmp_path_factory.mktemp("packages")), *kinds]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(kinds, map(Path, done.stdout.split()), strict=True))


@pytest.fixture
def deb(packages: dict[str, Path]) -> Path:
    if "deb" not in packages:
        pytest.skip("dpkg-deb is not here")
    return packages["deb"]


@pytest.fixture
def rpm(packages: dict[str, Path]) -> Path:
    if "rpm" not in packages:
        pytest.skip("rpmbuild is not here: apt-get install rpm")
    return packages["rpm"]
