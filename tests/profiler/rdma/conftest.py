"""The programs of the guests, compiled here: the recorder's libraries and test programs; and their recordings."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.profiler.rdma import guest
from tiresias.profiler import build
from tiresias.profiler.recordings.recording import Recording, read

PROGRAMS = Path(__file__).parent / "programs"
Prepare = Callable[..., Path]


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory) -> Prepare:
    """prepare("folder", program=("source", *options)): a guest's folder with the recorder and these programs."""
    if reason := guest.missing():
        pytest.skip(reason)
    if not (shutil.which("make") and shutil.which("cc")):
        pytest.skip("no make, or no C compiler")
    libraries = [file for file in build.libraries() if file]
    if build.libraries().verbs is None:
        pytest.skip("no libtiresias_verbs.so: it needs rdma-core's headers (Debian: libibverbs-dev)")

    def get(name: str, **programs: tuple[str, ...]) -> Path:
        folder = tmp_path_factory.mktemp(name)
        for library in libraries:
            shutil.copy(library, folder)
        for program, (source, *options) in programs.items():
            command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", str(PROGRAMS / f"{source}.c"), *options]
            done = subprocess.run([*command, "-o", str(folder / program)], capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
        return folder

    return get


@pytest.fixture(scope="session")
def recordings() -> Callable[[Path, str], list[Recording]]:
    """recordings(folder, name): of what a guest ran as `recorded NAME ...`."""

    def get(folder: Path, name: str) -> list[Recording]:
        return [read(file, os.getuid()) for file in sorted((folder / "records" / name).glob("*.net"))]

    return get
