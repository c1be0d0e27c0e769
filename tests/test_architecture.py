"""The house rules that a reviewer cannot see in one file: who may import whom, and what runs on the standard library alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ALL = {"scheduler", "simulator", "slurm_plugin", "wrappers", "checkpoint", "profiler", "sandbox"}
MAY_IMPORT = {
    "scheduler": set(),
    "simulator": {"scheduler"},
    "slurm_plugin": {"scheduler", "profiler", "checkpoint"},
    "wrappers": {"checkpoint", "profiler"},
    "checkpoint": set(),
    "profiler": set(),
    "sandbox": ALL,
}
STANDARD_LIBRARY_ONLY = {"wrappers", "checkpoint"}
EXCEPT = {("checkpoint/command.py", "rich")}  # a view; nothing that runs in a job imports it
FRAMEWORKS = {  # each adapter is imported by programs that use its framework, and by nothing of ours
    "checkpoint/adapters/encoding.py": {"numpy", "torch"},
    "checkpoint/adapters/torch.py": {"numpy", "torch"},
    "checkpoint/adapters/ddp.py": {"torch"},
    "checkpoint/adapters/fsdp.py": {"torch"},
    "checkpoint/adapters/lightning.py": {"lightning"},
    "checkpoint/adapters/hf.py": {"torch", "transformers"},
    "checkpoint/adapters/submitit.py": {"submitit"},
}


def imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("folder", sorted(ALL))
def test_imports_run_downwards_only(folder: str) -> None:
    seen = 0
    for file in (ROOT / folder).rglob("*.py"):
        for name in imports(file):
            package, _, rest = name.partition(".")
            if package == "tiresias" and (part := rest.partition(".")[0]) in ALL - {folder}:
                seen += 1
                assert part in MAY_IMPORT[folder], f"{file.relative_to(ROOT)} imports {name}"
    assert seen or not MAY_IMPORT[folder] - {"profiler"}, (
        "found no import at all: is this test looking at the right place?"
    )


@pytest.mark.parametrize("folder", sorted(STANDARD_LIBRARY_ONLY))
def test_what_runs_in_jobs_needs_the_standard_library_only(folder: str) -> None:
    for file in (ROOT / folder).rglob("*.py"):
        where = str(file.relative_to(ROOT))
        for package in {name.partition(".")[0] for name in imports(file)}:
            known = package in sys.stdlib_module_names or package == "tiresias" or (where, package) in EXCEPT
            known = known or package in FRAMEWORKS.get(where, ())
            assert known, f"{where} imports {package}"


def test_only_adapters_import_adapters() -> None:
    for file in (file for folder in ALL for file in (ROOT / folder).rglob("*.py") if "adapters" not in file.parts):
        assert not any(name.startswith("tiresias.checkpoint.adapters") for name in imports(file)), file


def test_only_the_worker_imports_pyslurm() -> None:
    users = [file.name for folder in ALL for file in (ROOT / folder).rglob("*.py") if "pyslurm" in {*imports(file)}]
    assert users == ["pyslurm_worker.py"]
    assert "SPDX-License-Identifier: GPL-2.0-or-later" in (ROOT / "slurm_plugin/backends/pyslurm_worker.py").read_text()
