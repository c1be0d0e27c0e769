"""etc/packages/copy_check.py: an outdated compiled copy refuses to run, in one line."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tiresias

VERSION = tiresias.__version__
PACKAGES = Path(__file__).parents[2] / "etc/packages"


class Copy:
    """A package that is made from sources as a compiled copy is, without compiling it.

    Attributes:
        sources: What it is made from.
        folder: What PYTHONPATH names.
    """

    def __init__(self, root: Path, compiled: Any) -> None:
        self.sources, self.folder = root / "sources", root / "copy"
        module = self.sources / "scheduler/las.py"
        module.parent.mkdir(parents=True)
        module.write_text("ORDER = 1\n")
        package(self.folder, VERSION)
        compiled.ROOT = self.sources
        compiled.add_check(self.folder / "tiresias")
        self.command = compiled.add_command(self.folder)

    def run(self, *others: Path) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(map(str, [self.folder, *others]))
        words = [sys.executable, "-S", "-c", "import tiresias; print(tiresias.__version__)"]
        return subprocess.run(words, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)

    def refusal(self, *others: Path) -> str:
        done = self.run(*others)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert str(self.folder) in line
        assert line.endswith("make it again with etc/packages/compiled.py")
        return line


def package(folder: Path, version: str) -> Path:
    init = folder / "tiresias/__init__.py"
    init.parent.mkdir(parents=True)
    init.write_text(f'__version__ = "{version}"\n')
    return folder


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    monkeypatch.syspath_prepend(str(PACKAGES))
    compiled = importlib.import_module("compiled")
    monkeypatch.setattr(compiled, "ROOT", compiled.ROOT)
    return Copy(tmp_path, compiled)


def test_a_new_copy_runs(copy: Copy, tmp_path: Path) -> None:
    for others in [(), (package(tmp_path / "installed", VERSION),)]:
        done = copy.run(*others)
        assert (done.stdout, done.stderr) == (f"{VERSION}\n", "")


def test_another_version_is_installed(copy: Copy, tmp_path: Path) -> None:
    line = copy.refusal(package(tmp_path / "installed", "99.3"))
    assert f"is version {VERSION}, and 99.3 is installed" in line


def test_its_sources_have_changed(copy: Copy) -> None:
    (copy.sources / "scheduler/las.py").write_text("ORDER = 2\n")
    assert f"is older than its sources in {copy.sources}" in copy.refusal()


def test_a_copy_runs_without_its_sources(copy: Copy) -> None:
    copy.sources.rename(copy.sources.with_name("moved"))
    assert copy.run().stdout == f"{VERSION}\n"


def test_it_is_for_another_python(copy: Copy) -> None:
    notes = copy.folder / "tiresias/compiled_copy.json"
    notes.write_text(json.dumps(json.loads(notes.read_text()) | {"python": "cpython-39"}))
    assert "is for cpython-39, and this is cpython-3" in copy.refusal()


def test_its_command_runs_it_with_the_python_that_made_it(copy: Copy) -> None:
    (copy.folder / "tiresias/__main__.py").write_text("import sys; print(sys.executable, *sys.argv[1:])\n")
    done = subprocess.run([copy.command, "simulate", "a b"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [sys.executable, "simulate", "a", "b"]
