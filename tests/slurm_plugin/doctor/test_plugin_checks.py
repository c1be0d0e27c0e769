"""What the doctor reports of implementations of installed packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tiresias.scheduler.registry import installed
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor.plugin_checks import findings

Install = Callable[[str, str, str], None]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with one entry point: its group, its name and the code of its module."""

    def install(group: str, name: str, code: str) -> None:
        info = tmp_path / "acme_checked-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-checked\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tiresias.{group}]\n{name} = acme_{group}_{name}:found\n")
        (tmp_path / f"acme_{group}_{name}.py").write_text(code)
        monkeypatch.syspath_prepend(str(tmp_path))
        installed.cache_clear()

    yield install
    installed.cache_clear()


CONFLICTS = [
    ("policies", "las"),
    ("admission", "shared"),
    ("sizing", "fixed"),
    ("placement", "spread"),
    ("eviction", "by_rank"),
    ("trace_formats", "philly"),
]


@pytest.mark.parametrize(("group", "name"), CONFLICTS)
def test_a_name_that_is_built_in_is_reported(group: str, name: str, package: Install) -> None:
    package(group, name, "found = 1")
    (found,) = findings()
    assert found.level is Level.RISK
    assert f"{group}: {name!r} of package acme-checked: the name is built in" in found.words


@pytest.mark.parametrize("group", ["sizing", "eviction", "admission"])
def test_an_object_without_the_method_is_reported(group: str, package: Install) -> None:
    package(group, "checked", "found = 1")
    (found,) = findings()
    assert f"{group}: 'checked' of package acme-checked: it has no method " in found.words
