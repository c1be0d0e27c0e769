"""The order of folders, the absence of cycles between their units, and what runs on the standard library alone.

`python tests/layers/import_graph.py` prints the graph that these tests look at.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("import_graph", Path(__file__).with_name("import_graph.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
import_graph = sys.modules["import_graph"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(import_graph)

ALL = set(import_graph.FOLDERS)
MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "scheduler": set(),
    "simulator": {"scheduler"},
    "profiler": {"protocol"},  # the names of the environment variables
    "checkpoint": {"protocol"},
    "wrappers": {"protocol"},
    "slurm_plugin": {"durable", "scheduler", "protocol", "profiler"},
    "durable": set(),
    "services": {"durable", "protocol"},
    "sandbox": ALL,
}


class Allowed(NamedTuple):
    """An import beyond MAY_IMPORT that is right where it is.

    Attributes:
        unit: The importing file or folder.
        modules: The beginning of the imported modules.
        reason: Why neither a move to protocol/ nor a command replaces it.
    """

    unit: str
    modules: str
    reason: str


ALLOWED = (
    Allowed(
        "wrappers/newest_checkpoint.py",
        "checkpoint.store",
        "The supervisor accepts a checkpoint by the store's own rule of a commit. A second implementation of the rule could differ "
        "from it; the store itself writes and deletes, and is no interface between processes.",
    ),
    Allowed(
        "wrappers/images/",
        "checkpoint",
        "Images of processes are checkpoints of the store, written and restored by its own rules, in processes that the supervisor "
        "starts for jobs with that option alone.",
    ),
    Allowed(
        "wrappers/trial/",
        "profiler",
        "A trial run is the profiler at work on the job's nodes: one process starts the recorder, others analyse. Only a summary "
        "leaves them, as a file that protocol/profile_summary.py describes.",
    ),
    Allowed(
        "simulator/tenant_file.py",
        "protocol.site_configuration",
        "The tables of virtual clusters are those of the site's configuration, and one reader parses both on every Python.",
    ),
    Allowed(
        "simulator/elastic/server_training.py",
        "protocol.parameter_assignment",
        "Simulated parameter servers hold the blocks that the agents of the parameter service assign, by one algorithm.",
    ),
    Allowed(
        "services/remote_memory/job_swap/leaf_donors.py",
        "scheduler.slurm_topology",
        "The prolog prefers donors by Slurm's topology, as the controller places jobs by it. A second parser could differ from it; "
        "this one is pure and has no imports beyond the standard library.",
    ),
    Allowed(
        "simulator/presets.py",
        "protocol.site_configuration",
        "A preset is a part of the site's configuration, and one reader parses both on every Python.",
    ),
)
# What every job starts: none of it loads the store or the profiler before the work that needs them.
STARTED_BY_JOBS = ("supervisor", "tsbatch", "tsrun")
STANDARD_LIBRARY_ONLY = {"protocol", "wrappers", "checkpoint", "durable"}
EXCEPT = {("checkpoint/command.py", "rich")}  # a view; nothing that runs in a job imports it
FRAMEWORKS = {  # each adapter is imported by programs that use its framework, and by no other module
    "checkpoint/adapters/encoding.py": {"numpy", "torch"},
    "checkpoint/adapters/torch.py": {"numpy", "torch"},
    "checkpoint/adapters/ddp.py": {"torch"},
    "checkpoint/adapters/rank_waits.py": {"torch"},
    "checkpoint/adapters/wait_clocks.py": {"torch"},
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
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_every_folder_has_a_place_in_the_order() -> None:
    assert MAY_IMPORT.keys() == ALL
    assert not import_graph.cycles(import_graph.between_folders())


@pytest.mark.parametrize("folder", sorted(ALL))
def test_a_folder_imports_only_what_it_may(folder: str) -> None:
    used = set()
    for each in import_graph.imports(folder):
        there, module = each.module[0], ".".join(each.module)
        if there in ALL - {folder} - MAY_IMPORT[folder]:
            found = [one for one in ALLOWED if str(each.file).startswith(one.unit) and module.startswith(one.modules)]
            assert found, f"{each.file}:{each.line} imports {module}"
            used |= {*found}
    assert used == {one for one in ALLOWED if one.unit.startswith(f"{folder}/")}, "an allowed import that no file needs"


@pytest.mark.parametrize("program", STARTED_BY_JOBS)
def test_a_job_loads_neither_store_nor_profiler_at_its_start(program: str) -> None:
    code = f"import sys, tiresias.wrappers.{program}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] if not name.startswith("tiresias.") else name for name in done.stdout.split()}
    assert f"tiresias.wrappers.{program}" in loaded
    assert not [name for name in loaded if name.startswith(("tiresias.checkpoint", "tiresias.profiler", "numpy"))]


@pytest.mark.parametrize("folder", sorted(ALL))
def test_no_cycle_between_the_units_of_a_folder(folder: str) -> None:
    assert import_graph.cycles(import_graph.between_units(folder)) == []


def test_a_cycle_is_found_wherever_the_import_stands(tmp_path: Path) -> None:
    """At the top, in a function, under TYPE_CHECKING; and each import is found that a folder may not have."""
    top = tmp_path / "top"
    for unit, text in {
        "a": "import tiresias.top.b.inner",
        "b": "def f():\n    from tiresias.top import c",
        "c": "if TYPE_CHECKING:\n    from tiresias.top.a.inner import Name",
        "d": "from tiresias.top.a import inner",
    }.items():
        (top / unit).mkdir(parents=True)
        (top / unit / "inner.py").write_text(text + "\n")
    (top / "e.py").write_text("from tiresias.top.d.inner import x\nfrom tiresias.other import y\n")
    (tmp_path / "other").mkdir()
    graph = import_graph.between_units("top", tmp_path)
    assert graph == {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": {"d"}}
    assert import_graph.cycles(graph) == [["a", "b", "c"]]
    assert import_graph.between_folders(tmp_path, ("other", "top")) == {"other": set(), "top": {"other"}}


def test_the_command_prints_the_graph_and_its_exit_code_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert import_graph.main(["protocol"]) == 0
    printed = capsys.readouterr().out
    assert "  slurm_plugin -> durable, profiler, protocol, scheduler\n" in printed
    assert "  versions -> files\n" in printed
    assert printed.endswith("\n0 cycles\n")


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
