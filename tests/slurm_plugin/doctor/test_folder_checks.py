"""Folders as admins leave them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.slurm_plugin.cluster.finding import Finding, Level
from tiresias.slurm_plugin.config import Paths
from tiresias.slurm_plugin.doctor import folder_checks


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    for name in ("control", "checkpoints"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o1777)
    return Paths(tmp_path / "state", tmp_path / "run", tmp_path / "control", tmp_path / "checkpoints")


def bad(paths: Paths, several_hosts: bool = False) -> list[Finding]:
    return [found for found in folder_checks.findings(paths, several_hosts) if found.level is not Level.FINE]


def test_good_folders_have_no_finding_and_stay_unchanged(paths: Paths, tmp_path: Path) -> None:
    assert not bad(paths)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["checkpoints", "control"]


def test_a_folder_that_is_not_there(paths: Paths) -> None:
    (found,) = bad(replace(paths, control=Path("/nowhere/control")))
    assert found.level is Level.BLOCKS
    assert found.words == "/nowhere/control: not a folder"
    assert found.remedy.startswith("install -d -m 1777 /nowhere/control")


@pytest.mark.parametrize(("mode", "level"), [(0o0755, Level.RISK), (0o0777, Level.BLOCKS)])
def test_users_could_not_write_or_could_remove_each_others(paths: Paths, mode: int, level: Level) -> None:
    """A root of its own for each user is one way to keep checkpoints apart (docs/explanation/security.md)."""
    paths.checkpoints.chmod(mode)
    (found,) = bad(paths)
    assert found.level is level
    assert found.remedy.endswith(f"chmod 1777 {paths.checkpoints}")


def test_folders_that_the_site_makes_for_its_users(paths: Paths) -> None:
    paths.control.chmod(0o755)
    (found,) = bad(paths)
    assert (found.level, found.about) == (Level.BLOCKS, "control folders")
    assert "the site created none" in found.words
    (paths.control / str(os.getuid())).mkdir(mode=0o750)
    assert not bad(paths)
    (paths.control / "424242").mkdir()
    (found,) = bad(paths)
    assert found.words.endswith("folders not owned by the user in their name: 424242")


def test_anyone_could_forge_the_journal(paths: Paths) -> None:
    paths.state.mkdir()
    paths.state.chmod(0o777)
    (found,) = bad(paths)
    assert (found.level, found.remedy) == (Level.BLOCKS, f"chmod o-w {paths.state}")


def test_a_local_disk_is_not_seen_by_other_hosts(paths: Paths) -> None:
    if folder_checks.file_system(paths.control) not in ("tmpfs", "ext4", "xfs", "btrfs", "overlay"):
        pytest.skip("the temporary folder is on a shared file system")
    found = bad(paths, several_hosts=True)
    assert [one.about for one in found] == ["control folders", "checkpoints"]
    assert all("exists on one host only" in one.words for one in found)


def test_the_file_system_of_the_deepest_mount_counts() -> None:
    assert folder_checks.file_system(Path("/proc/self")) == "proc"
