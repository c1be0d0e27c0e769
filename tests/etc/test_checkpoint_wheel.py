"""slurm-tiresias-checkpoint: what is in the wheel, what it imports, and how it shares an environment with slurm-tiresias."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tiresias
from tests import installed
from tests.checkout import require_git

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "etc/packages/checkpoint"
FOLDER = "slurm_tiresias_checkpoint/tiresias"
SMALL, FULL = "slurm-tiresias-checkpoint", "slurm-tiresias"
# Prints the modules outside of the standard library that an import brings.
FOREIGN = """
import sys
before = set(sys.modules)
import {module}
added = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(added - sys.stdlib_module_names - {{"tiresias"}}))
"""
pytestmark = [pytest.mark.ci, pytest.mark.slow, pytest.mark.xdist_group("checkpoint-wheel")]


def run(*words: object, **env: str) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> dict[str, Path]:
    return {SMALL: installed.build("wheel", PROJECT, tmp_path_factory.mktemp("wheels")), FULL: wheel}


class Environment:
    """A virtual environment without any distribution; the pip of the tests' own Python installs into it."""

    def __init__(self, folder: Path, wheels: dict[str, Path]) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        self.python, self._wheels = folder / "bin/python", wheels

    def pip(self, *words: object) -> str:
        return run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", self.python, *words)

    def install(self, name: str) -> None:
        self.pip("install", "--quiet", "--no-index", "--no-deps", "--no-compile", self._wheels[name])

    def remove(self, name: str) -> None:
        self.pip("uninstall", "--quiet", "--yes", name)

    def code(self, text: str, *options: str, **env: str) -> str:
        return run(self.python, *options, "-c", text, **env)

    def home(self) -> str:
        """The folder in site-packages that tiresias.checkpoint is imported from."""
        return Path(self.code("import tiresias.checkpoint as c; print(c.__file__)")).parents[2].name


@pytest.fixture
def environment(tmp_path: Path, wheels: dict[str, Path]) -> Environment:
    return Environment(tmp_path / "venv", wheels)


def test_it_has_the_package_and_no_more(wheels: dict[str, Path]) -> None:
    require_git()
    found = {name for name in zipfile.ZipFile(wheels[SMALL]).namelist() if ".dist-info/" not in name}
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "checkpoint", "protocol"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    package = {"__init__.py", "errors.py", "py.typed", *(name for name in listed if (ROOT / name).exists())}
    assert found == {"slurm-tiresias-checkpoint.pth", *(f"{FOLDER}/{name}" for name in package)}


def test_it_needs_no_distribution_and_shares_no_file(wheels: dict[str, Path]) -> None:
    small, full = (set(zipfile.ZipFile(wheels[name]).namelist()) for name in (SMALL, FULL))
    assert not small & full
    (metadata,) = (name for name in small if name.endswith("/METADATA"))
    text = zipfile.ZipFile(wheels[SMALL]).read(metadata).decode()
    required = [line for line in text.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert not required
    assert f"Version: {tiresias.__version__}\n" in text


def test_it_imports_the_standard_library_only(environment: Environment) -> None:
    environment.install(SMALL)
    assert environment.pip("list", "--format=freeze") == f"{SMALL}=={tiresias.__version__}"
    for module in ("checkpoint", "checkpoint.checkpointer", "checkpoint.store", "checkpoint.adapters.hook"):
        assert environment.code(FOREIGN.format(module=f"tiresias.{module}")) == "[]"
    assert environment.code("from tiresias.checkpoint import *; print(Checkpointer.__name__)") == "Checkpointer"
    assert environment.code("import tiresias; print(tiresias.__version__)") == tiresias.__version__


@pytest.mark.parametrize("first", [SMALL, FULL])
def test_the_full_distribution_wins_and_either_may_be_removed(environment: Environment, first: str) -> None:
    second = FULL if first == SMALL else SMALL
    environment.install(first)
    environment.install(second)
    assert environment.home() == "site-packages"
    environment.remove(first)
    assert environment.home() == ("site-packages" if second == FULL else "slurm_tiresias_checkpoint")
    environment.install(first)
    environment.remove(second)
    assert environment.home() == ("site-packages" if first == FULL else "slurm_tiresias_checkpoint")


def test_the_full_distribution_later_on_the_path_wins(
    environment: Environment, wheels: dict[str, Path], tmp_path: Path
) -> None:
    """As in a user's folder, or a virtual environment with the system's packages."""
    for name in (SMALL, FULL):
        zipfile.ZipFile(wheels[name]).extractall(tmp_path / name)
    path = f"{tmp_path / SMALL / 'slurm_tiresias_checkpoint'}:{tmp_path / FULL}"
    text = (
        "from tiresias.wrappers import isolated; import tiresias.checkpoint as c; print(isolated.LIBRARY, c.__file__)"
    )
    found = environment.code(text, PYTHONPATH=path)
    assert found == f"{tmp_path / FULL} {tmp_path / FULL / 'tiresias/checkpoint/__init__.py'}"
