"""Which sources are mutated, and which fast tests have to notice. No test here starts a Slurm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Folder:
    """Globs, relative to the repository.

    Attributes:
        sources: Files that are mutated.
        tests: Files of tests; those marked `sandbox` or `slow` are left out.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def source_files(self, root: Path) -> list[Path]:
        return sorted(path for path in _found(root, self.sources) if path.name != "__init__.py")

    def test_files(self, root: Path) -> list[str]:
        return sorted(str(path.relative_to(root)) for path in _found(root, self.tests))


def _found(root: Path, globs: tuple[str, ...]) -> Iterator[Path]:
    for glob in globs:
        yield from root.glob(glob)


FOLDERS = {
    "scheduler": Folder(("scheduler/**/*.py",), ("tests/scheduler/**/test_*.py",)),
    "slurm_plugin/state": Folder(
        ("slurm_plugin/state/*.py", "slurm_plugin/accounting/*.py"),
        (
            "tests/slurm_plugin/state/test_*.py",
            "tests/slurm_plugin/accounting/test_*.py",
            "tests/slurm_plugin/transitions/test_*.py",
            "tests/slurm_plugin/observation/test_observer.py",
            "tests/slurm_plugin/sockets/test_history_pages.py",
        ),
    ),
    "slurm_plugin/transitions": Folder(
        ("slurm_plugin/transitions/*.py", "slurm_plugin/act.py"),
        (
            "tests/slurm_plugin/transitions/test_*.py",
            "tests/slurm_plugin/failover/test_fence.py",
        ),
    ),
    "durable": Folder(
        ("durable/*.py", "slurm_plugin/failover/*.py"),
        (
            "tests/slurm_plugin/lead/test_*.py",
            "tests/slurm_plugin/failover/test_*.py",
            "tests/slurm_plugin/sockets/test_systemd.py",
        ),
    ),
    "checkpoint": Folder(
        ("checkpoint/*.py", "wrappers/newest_checkpoint.py"),
        (
            "tests/checkpoint/test_*.py",
            "tests/wrappers/test_newest_checkpoint.py",
        ),
    ),
}
