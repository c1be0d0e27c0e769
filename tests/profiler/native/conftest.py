"""Programs in C, compiled once, run under the preloaded recorder; and what it recorded of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tiresias.profiler import build
from tiresias.profiler.recordings.recording import Recording, read

PROGRAMS = Path(__file__).parent / "programs"
CC = os.environ.get("CC", "cc")
TIMEOUT = 120.0

Compile = Callable[..., Path]


@pytest.fixture(scope="session")
def net() -> Path:
    if not (shutil.which("make") and shutil.which(CC)):
        pytest.skip("no make, or no C compiler")
    return build.libraries().net


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """compiled("name", *options): the executable of programs/name.c, or of the paths given as `sources`."""
    made: dict[tuple[str, ...], Path] = {}

    def get(name: str, *options: str, sources: tuple[Path, ...] = ()) -> Path:
        if not shutil.which(CC):
            pytest.skip("no C compiler")
        key = (name, *options)
        if key not in made:
            program = tmp_path_factory.mktemp(name) / name
            files = [str(file) for file in (PROGRAMS / f"{name}.c", *sources)]
            command = [CC, "-O2", "-Wall", "-Werror", *files, *options, "-pthread", "-ldl", "-o", str(program)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
            assert done.returncode == 0, done.stderr
            made[key] = program
        return made[key]

    return get


@dataclass
class Stage:
    """Runs programs under the recorder. `folder` is where they record, outside of which nothing is written."""

    net: Path
    folder: Path

    def run(self, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; it must succeed."""
        done = self.attempt(*command, **environment)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return done

    def attempt(self, *command: object, **environment: str) -> subprocess.CompletedProcess[str]:
        recording = {"LD_PRELOAD": str(self.net), "TIRESIAS_PROFILE_DIR": str(self.folder), **environment}
        words = [str(word) for word in command]
        return subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, **recording})

    def recordings(self) -> list[Recording]:
        """Oldest first."""
        found = [read(file, os.getuid()) for file in self.folder.glob("*.net")]
        return sorted(found, key=lambda each: each.clock.epoch)

    def only(self) -> Recording:
        (recording,) = self.recordings()
        return recording


@pytest.fixture
def stage(net: Path, tmp_path: Path) -> Stage:
    folder = tmp_path / "records"
    folder.mkdir()
    return Stage(net, folder)


Rows = list[tuple[int, int, int, int]]


@pytest.fixture
def rows() -> Callable[[Recording], Rows]:
    """(operation, flags, asked, done) of every record, by time."""

    def get(recording: Recording) -> Rows:
        return [_row(record) for record in recording.records]

    return get


@pytest.fixture
def expected() -> Callable[[str], Rows]:
    """The same from what a program printed."""

    def get(output: str) -> Rows:
        return [tuple(int(number) for number in line.split()) for line in output.splitlines()]  # type: ignore[misc]

    return get


def _row(record: Any) -> tuple[int, int, int, int]:
    return int(record["operation"]), int(record["flags"]), int(record["asked"]), int(record["done"])
