"""Libraries in C: those installed next to their source, or else built once from it.

Where a variable of the environment names a folder they are taken from there: a site builds them once for all its nodes, by
`make -C SOURCE OUT=DIR`. Else a build lands in the user's cache, in a folder whose name carries a hash of the source and of the
machine, by one rename: two builds at the same time do not disturb each other. It takes `make` and a C compiler.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import TiresiasError

TIMEOUT_S = 300.0  # a build takes two


class NativeSource(NamedTuple):
    """The source of libraries.

    Attributes:
        folder: Where it is, with a Makefile.
        library: The library that each build makes.
        variable: Names a folder with built libraries.
        name: What they are, in words.
        variant: What shapes a build besides the source and the machine.
    """

    folder: Path
    library: str
    variable: str
    name: str
    variant: str = ""

    def place(self) -> Path:
        """Return where the libraries are, or where they are to be built.

        Raises:
            TiresiasError: The variable names a folder without them.
        """
        if not (named := os.environ.get(self.variable)):
            return self.folder if (self.folder / self.library).exists() else _cache() / self._fingerprint()
        found = Path(named).absolute()
        if not (found / self.library).exists():
            raise TiresiasError(f"{found}: holds no {self.library}; build it there, or unset {self.variable}")
        return found

    def built(self) -> Path:
        """Return the folder of the libraries, which are built if need be.

        Raises:
            TiresiasError: That is not possible.
        """
        found = self.place()
        if not (found / self.library).exists():
            self._build(found)
        return found

    def problem(self) -> str:
        """Return why `built` would fail on this host, in one line; "" where they are built or can be. Builds nothing."""
        try:
            if not (self.place() / self.library).exists():
                self._require_tools()
        except TiresiasError as error:
            return str(error)
        return ""

    def _fingerprint(self) -> str:
        words = f"{platform.machine()} {platform.libc_ver()} {self.variant}"
        digest = hashlib.sha256(words.encode())
        for file in sorted([*self.folder.rglob("*.[ch]"), *self.folder.glob("*.map"), self.folder / "Makefile"]):
            digest.update(file.name.encode() + file.read_bytes())
        return digest.hexdigest()[:16]

    def _require_tools(self) -> None:
        if missing := [*_missing_tools()]:
            raise TiresiasError(
                f"{self.name} are not built, and this host lacks {' and '.join(missing)}: install what is missing, "
                f"or name a folder with built libraries in {self.variable}"
            )

    def _build(self, final: Path) -> None:
        self._require_tools()
        final.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=final.parent, prefix=".build-") as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            self._compile(made)
            with suppress(OSError):  # another build was faster
                made.rename(final)

    def _compile(self, into: Path) -> None:
        command = ["make", "-s", "-B", "-C", str(self.folder), f"OUT={into}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S)
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
            first = next((line for line in lines if "error" in line.lower()), lines[0])
            raise TiresiasError(f"building {self.name} failed: {first} (run it by hand: {' '.join(command)})")


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tiresias" / "native"


def _missing_tools() -> Iterator[str]:
    compiler = os.environ.get("CC", "cc")
    if not shutil.which("make"):
        yield "make"
    if not shutil.which(compiler.partition(" ")[0]):
        yield f"a C compiler ({compiler})"
    elif not _has_header("stdio.h"):
        yield "the C library's headers (Debian: libc6-dev)"


def _has_header(name: str) -> bool:
    words = [*os.environ.get("CC", "cc").split(), "-E", "-"]
    try:
        done = subprocess.run(
            words, input=f"#include <{name}>\n".encode(), capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
