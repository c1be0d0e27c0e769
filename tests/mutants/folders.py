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
        ("slurm_plugin/state/*.py",),
        tuple(
            f"tests/slurm_plugin/test_{name}.py"
            for name in (
                "accounting", "act", "audit", "journal", "ledger", "observe", "own_folder", "owner", "past", "quarantine",
                "rebuild", "schema", "switches", "usage",
            )
        ),
    ),
    "slurm_plugin/moves": Folder(
        ("slurm_plugin/moves/*.py", "slurm_plugin/act.py", "slurm_plugin/transitions/*.py"),
        ("tests/slurm_plugin/test_a[cl]*.py", "tests/slurm_plugin/moves/test_*.py", "tests/slurm_plugin/test_fence.py"),
    ),
    "slurm_plugin/lead": Folder(
        ("slurm_plugin/lead/*.py",),
        tuple(f"tests/slurm_plugin/test_{name}.py" for name in ("fail_open", "fence", "leadership", "standby", "systemd")),
    ),
    "checkpoint": Folder(
        ("checkpoint/*.py", "wrappers/saved.py"), ("tests/checkpoint/test_*.py", "tests/wrappers/test_saved.py")
    ),
}  # fmt: skip
