"""Builds the libraries of C into the wheel of slurm-tiresias, and names the platforms that they run on.

TIRESIAS_NATIVE=     the default: built here, by make and the C compiler; without them the wheel holds their source alone
TIRESIAS_NATIVE=0    the source alone; the libraries are built at first use
TIRESIAS_NATIVE=DIR  those of that folder (etc/packages/wheel.py builds them for old systems)
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("profiler/native", "services/remote_memory/native")
OF_REMOTE_MEMORY = "libtiresias_remem"
OLDEST_GLIBC = (2, 17)  # below it tags have other names
GLIBC = re.compile(rb"GLIBC_(\d+)\.(\d+)")


class NativeLibraries(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """A wheel with libraries is for one kind of machine, and for any Python."""
        native = os.environ.get("TIRESIAS_NATIVE", "")
        if version == "editable" or native == "0":
            return
        libraries = sorted((Path(native) if native else self._built()).glob("libtiresias_*.so"))
        if native and not libraries:
            raise FileNotFoundError(f"TIRESIAS_NATIVE={native}: holds no libtiresias_*.so")
        if libraries:
            build_data["force_include"].update({str(file): f"tiresias/{place(file)}/{file.name}" for file in libraries})
            build_data.update(pure_python=False, tag=f"py3-none-{platform_tag(libraries)}")

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_scratch", ""), ignore_errors=True)

    def _built(self) -> Path:
        """A folder with the libraries, empty where they cannot be built."""
        self._scratch = tempfile.mkdtemp(prefix="tiresias-native-")
        problem = next(filter(None, map(self._problem, SOURCES)), "")
        if problem:
            self.app.display_warning(f"the wheel has no libraries of C, they are built at first use: {problem}")
            return Path(self._scratch, "none")
        _strip(Path(self._scratch))
        return Path(self._scratch)

    def _problem(self, source: str) -> str:
        """Build one folder; return what prevents it, "" where nothing does."""
        out = f"OUT={self._scratch}"
        words = ["make", "-s", "-B", "-C", str(Path(self.root, source)), out, "CFLAGS=-O2"]  # no -g: it names folders
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"make: {error.strerror}"
        return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["make failed"])[0]


def place(library: Path) -> str:
    """The source that a library is built from, next to which it is installed."""
    return SOURCES[library.name.startswith(OF_REMOTE_MEMORY)]


def platform_tag(libraries: list[Path]) -> str:
    """Of the C library that they need: manylinux_2_17_x86_64 and its like; where that is another one, this machine's own.

    libtiresias_verbs.so needs libibverbs too, but is loaded by programs alone that have loaded it.
    """
    needed = [(int(one), int(two)) for file in libraries for one, two in GLIBC.findall(file.read_bytes())]
    if not needed:
        return re.sub(r"[^A-Za-z0-9]", "_", sysconfig.get_platform())
    major, minor = max(OLDEST_GLIBC, *needed)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


def _strip(folder: Path) -> None:
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *map(str, folder.glob("*.so"))], check=True)
