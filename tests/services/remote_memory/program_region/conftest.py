"""Programs with a region of remote memory, and the configuration of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.services.remote_memory.donors import JOB, SERVICE_KEY, SLAB_MIB
from tiresias.errors import Unavailable
from tiresias.services.remote_memory.messages.job_key import job_key
from tiresias.services.remote_memory.region.__main__ import remem_source
from tiresias.services.remote_memory.region.region_ability import require_userfault

ROOT = Path(__file__).parents[4]
PROGRAMS = Path(__file__).parent / "programs"
CC = os.environ.get("CC", "cc")
TIMEOUT_S = 250.0
LAUNCHER = (sys.executable, "-m", "tiresias.services.remote_memory.region", "run")
# Without a privilege, and without the device that gives users a userfaultfd: the kernel reports no faults of system calls.
UNPRIVILEGED = ("bwrap", "--dev-bind", "/", "/", "--dev", "/dev", "--cap-drop", "ALL")

Compile = Callable[..., Path]


class Launch:
    """Runs programs whose large blocks are in a region.

    Attributes:
        file: The configuration.
        before: Words before the launcher.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.before = folder, folder / "region.json", tuple[str, ...]()
        self.content: dict[str, Any] = {"size_mib": 256, "resident_mib": 2, "disk": str(folder), "least_kib": 1536}
        self.configure()

    def configure(self, **content: Any) -> None:
        """Write the configuration, with changed keys; None removes one."""
        self.content |= content
        self.file.touch(mode=0o600)
        self.file.write_text(json.dumps({key: value for key, value in self.content.items() if value is not None}))

    def use(self, *donors: str) -> None:
        """Use donors, with the job's key in a file."""
        key = self.folder / "job.key"
        key.touch(mode=0o600)
        key.write_text(job_key(SERVICE_KEY, JOB).hex())
        self.configure(donors=list(donors), job=JOB, key_file=str(key), slab_mib=SLAB_MIB)

    def command(self, *program: object) -> list[str]:
        return [*self.before, *LAUNCHER, str(self.file), "--", *map(str, program)]

    def attempt(self, *program: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*program), capture_output=True, text=True, timeout=TIMEOUT_S, cwd=ROOT, env=env(**environment)
        )

    def run(self, *program: object, **environment: str) -> str:
        """Run to the end; it must succeed. Returns what it printed."""
        done = self.attempt(*program, **environment)
        assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
        self.line = done.stderr
        return done.stdout


def env(**changed: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **changed}


@pytest.fixture(scope="session")
def native() -> Path:
    """Return the folder of the libraries."""
    if not (shutil.which("make") and shutil.which(CC)):
        pytest.skip("no make, or no C compiler")
    return remem_source().built()


@pytest.fixture
def launch(native: Path, tmp_path: Path) -> Launch:
    try:
        require_userfault()
    except Unavailable as error:
        pytest.skip(str(error))
    folder = tmp_path / "launch"
    folder.mkdir()
    return Launch(folder)


@pytest.fixture
def unprivileged(launch: Launch) -> Launch:
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap takes the privileges away")
    launch.before = UNPRIVILEGED
    return launch


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """compiled("name", *options): the executable of programs/name.c."""
    made: dict[tuple[str, ...], Path] = {}

    def get(name: str, *options: str) -> Path:
        if not shutil.which(CC):
            pytest.skip("no C compiler")
        key = (name, *options)
        if key not in made:
            program = tmp_path_factory.mktemp(name) / name
            words = [CC, "-O2", "-Wall", "-Werror", "-fno-builtin-malloc", str(PROGRAMS / f"{name}.c"), *options]
            done = subprocess.run(
                [*words, "-pthread", "-ldl", "-o", str(program)], capture_output=True, text=True, timeout=TIMEOUT_S
            )
            assert done.returncode == 0, done.stderr
            made[key] = program
        return made[key]

    return get
