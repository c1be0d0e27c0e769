"""The source files of a revision, of the working tree, or of any folder."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "checkpoint",
    "durable",
    "profiler",
    "protocol",
    "sandbox",
    "scheduler",
    "services",
    "simulator",
    "slurm_plugin",
    "src",
    "wrappers",
}
SUFFIXES = {
    ".py",
    ".md",
    ".c",
    ".h",
    ".sh",
    ".lua",
    ".toml",
    ".yml",
    ".yaml",
    ".service",
    ".timer",
    ".snippet",
    ".spec",
    ".cff",
}
NAMES = {"Makefile", "run", "postinst", "postrm", "prerm", "control", "own_program", "tiresias"}
LEFT_OUT = ("tests/words/",)  # banned.py and allowed.txt consist of the banned words


@dataclass(frozen=True)
class Tree:
    """The files of one state of the source.

    Attributes:
        name: What the columns of the output are called.
        texts: Content by path, of every file that people read or write.
    """

    name: str
    texts: dict[str, str]

    @property
    def programs(self) -> dict[str, str]:
        """The Python files of the packages, without the tests."""
        return {path: text for path, text in self.texts.items() if path.endswith(".py") and folder_of(path) in PACKAGES}

    def under(self, prefix: str) -> Tree:
        """Return the part of this tree below a path."""
        return Tree(self.name, {path: text for path, text in self.texts.items() if path.startswith(prefix)})

    def lines(self) -> dict[str, int]:
        """Return the number of lines of each top-level folder."""
        count: Counter[str] = Counter()
        for path, text in self.texts.items():
            count[folder_of(path)] += text.count("\n")
        return dict(sorted(count.items()))


def folder_of(path: str) -> str:
    """Return the top-level folder of a path, "." for files of the root."""
    return path.split("/")[0] if "/" in path else "."


def of_revision(revision: str) -> Tree:
    """Read a git revision."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    texts = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() and _counts(member.name) else None
            if content:
                texts[member.name] = content.read().decode(errors="replace")
    return Tree(revision, texts)


def of_work_tree() -> Tree:
    """Read the working tree: the files that git tracks, and those that it would."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return Tree("work tree", _read(ROOT, sorted(set(listed))))


def of_folder(folder: str) -> Tree:
    """Read any folder."""
    root = Path(folder)
    return Tree(root.name, _read(root, sorted(str(file.relative_to(root)) for file in root.rglob("*"))))


def _read(root: Path, paths: list[str]) -> dict[str, str]:
    files = {path: root / path for path in paths if _counts(path)}
    return {
        path: file.read_text(errors="replace")
        for path, file in files.items()
        if file.is_file() and not file.is_symlink()
    }


def _counts(path: str) -> bool:
    file = Path(path)
    return (file.suffix in SUFFIXES or file.name in NAMES) and not path.startswith(LEFT_OUT)
