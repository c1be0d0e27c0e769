"""`tiresias checkpoint gc`: checkpoints of ended jobs in a root that users share. squeue is a script here,
and Slurm's in tests/slurm_plugin/controller/test_controller_checkpoint_gc.py."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.users import ALICE, MALLORY, as_user
from tiresias.__main__ import main
from tiresias.checkpoint import KeepLast, Store
from tiresias.checkpoint.gc.job_folder import JobFolder
from tiresias.checkpoint.gc.rule import DAY_S, Retained, is_of_an_ended_job

OLD = 40 * DAY_S


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A squeue that runs the given lines of a shell."""

    def install(lines: str) -> Path:
        program = tmp_path / "bin/squeue"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        return program

    install("printf '7\\n12_3\\n'")
    return install


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    return folder


def saved(root: Path, job: str, steps: tuple[int, ...] = (10, 20, 30), age: float = OLD) -> Path:
    """Save the steps of a job that last changed `age` seconds ago."""
    store = Store(root / job, [KeepLast(9)])
    for step in steps:
        store.save(step, {"x": bytes(1000)})
    for path in (*(root / job).iterdir(), root / job):
        found = path.stat()
        os.utime(path, (found.st_atime, found.st_mtime - age))
    return root / job


def collected(root: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, Any]:
    assert main(["checkpoint", "gc", "--json", *options, str(root)]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.usefixtures("squeue")
def test_old_checkpoints_of_ended_jobs_are_removed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job in ("6", "7", "12_3", "12_4", "7.1"):
        saved(root, job)
    saved(root, "8", age=20 * DAY_S)
    before = sorted(root.rglob("*"))
    found = collected(root, capsys, "--dry-run")
    assert sorted(root.rglob("*")) == before
    assert {name.partition("/")[0] for name in found["removed"]} == {"6", "12_4", "7.1"}
    assert found["bytes"] > 9000
    assert collected(root, capsys)["removed"] == found["removed"]
    assert {path.name for path in root.iterdir()} == {"7", "12_3", "8"}
    assert Store(root / "7").steps() == [30, 20, 10]
    assert collected(root, capsys)["removed"] == []


@pytest.mark.usefixtures("squeue")
def test_the_newest_stay_within_the_days(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for job in ("6", "7"):
        saved(root, job, age=DAY_S)
    assert collected(root, capsys, "--keep", "2")["removed"] == ["6/step-10"]
    assert (Store(root / "6").steps(), Store(root / "7").steps()) == ([30, 20], [30, 20, 10])


@pytest.mark.usefixtures("squeue")
@pytest.mark.parametrize("strange", ["weights.pt", "step-10/notes.txt", "checkpoint-500", ".step-x"])
def test_what_is_no_checkpoint_stays_and_its_folder_with_it(
    root: Path, capsys: pytest.CaptureFixture[str], strange: str
) -> None:
    folder = saved(root, "6")
    (folder / strange).touch()
    os.utime(folder, (0, 0))
    os.utime(folder / "step-10", (0, 0))
    os.utime(folder / strange, (0, 0))
    found = collected(root, capsys)
    assert found["removed"] == []
    assert found["left"] == {"6": f"{strange} is no part of a checkpoint: its owner has to remove the folder"}
    assert Store(folder).steps() == [30, 20, 10]


@pytest.mark.usefixtures("squeue")
def test_links_lead_nowhere(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outside = saved(tmp_path / "outside", "6")
    (root / "6").symlink_to(outside)
    inside = saved(root, "8")
    (inside / "step-40").symlink_to(outside / "step-10")
    os.utime(inside, (0, 0))
    found = collected(root, capsys)
    assert found["removed"] == []
    assert found["left"] == {"8": "step-40 is no part of a checkpoint: its owner has to remove the folder"}
    assert Store(outside).steps() == [30, 20, 10]


@pytest.mark.parametrize(
    "lines",
    [
        "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1",
        "exit 1",
        "echo JOBID",
        "echo 7; echo x >&2",
    ],
)
def test_nothing_is_removed_without_slurms_jobs(
    squeue: Callable[[str], Path], root: Path, capsys: pytest.CaptureFixture[str], lines: str
) -> None:
    squeue(lines)
    saved(root, "6")
    assert main(["checkpoint", "gc", str(root)]) == 1
    assert "nothing is removed without the list of active jobs" in capsys.readouterr().err
    assert Store(root / "6").steps() == [30, 20, 10]


def test_the_users_own_settings_of_squeue_hide_no_job(
    squeue: Callable[[str], Path], root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue('[ -n "$SQUEUE_PARTITION" ] || echo 6')
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    saved(root, "6")
    assert collected(root, capsys)["removed"] == []


@pytest.mark.usefixtures("squeue")
@pytest.mark.parametrize("options", [("--days", "0"), ("--keep", "0"), ("--quota", "nan"), ("--quota", "-1")])
def test_options_without_a_meaning(root: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str]) -> None:
    assert main(["checkpoint", "gc", *options, str(root)]) == 2
    assert "--days and --keep are numbers from 1 up, --quota one from 0 up" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
@pytest.mark.usefixtures("squeue")
def test_a_folder_that_cannot_be_read_counts_for_an_ended_job(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A running job changes its folder at any time: the owner of an entry differs here in its place."""
    for job in ("6", "7"):
        os.chown(saved(root, job) / "step-10", MALLORY, MALLORY)
    found = collected(root, capsys, code=1)
    assert (found["removed"], list(found["left"])) == ([], ["6"])


@pytest.mark.usefixtures("squeue")
def test_a_root_that_is_not_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint", "gc", str(root / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


@pytest.mark.usefixtures("squeue")
def test_what_is_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(root, "6")
    saved(root, "7")
    assert main(["checkpoint", "gc", "--quota", "0.000001", "--dry-run", str(root)]) == 0
    output = capsys.readouterr()
    assert "would be removed: 6 of " in output.out
    assert f"{root}: 2 jobs, 1 have ended; would be removed: " in output.out
    assert "above the quota: " in output.err


@pytest.fixture
def shared(root: Path) -> Iterator[Path]:
    """A root in which any user may make a folder, and reach."""
    root.chmod(0o1777)
    parents = [path for path in root.parents if path != Path("/")]
    modes = [path.stat().st_mode for path in parents]
    for path, mode in zip(parents, modes, strict=True):
        path.chmod(mode | 0o011)
    yield root
    for path, mode in zip(parents, modes, strict=True):
        path.chmod(mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")
@pytest.mark.usefixtures("squeue")
def test_root_works_with_the_rights_of_each_owner(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_user(ALICE, lambda: saved(shared, "6") and None)
    as_user(MALLORY, lambda: saved(shared, "8") and None)
    hers = saved(shared, "9")  # files of root in a folder of another user
    os.chown(hers, MALLORY, MALLORY)
    found = collected(shared, capsys, code=1)
    assert {name.partition("/")[0] for name in found["removed"]} == {"6", "8"}
    assert {path.name for path in shared.iterdir()} == {"9"}
    assert list(found["left"]) == ["9"]


NAMES = st.dictionaries(
    st.one_of(
        st.integers(0, 50).map("step-{}".format), st.sampled_from(["attempts.json", "damaged-step-3", ".step-9.x"])
    ),
    st.integers(0, 1000),
)


@given(NAMES, st.integers(1, 60), st.one_of(st.none(), st.integers(1, 5)), st.floats(0, 100), st.booleans())
def test_the_rule(sizes: dict[str, int], days: int, keep: int | None, age: float, strange: bool) -> None:
    job = JobFolder("6", 1000, 1e9 - age * DAY_S, sizes, "x" if strange else "")
    removed = Retained(days, keep).removed(job, 1e9)
    assert set(removed) <= set(sizes)
    if strange or (age < days and keep is None):
        assert removed == []
    elif age > days:
        assert removed == sorted(sizes)
    elif age < days and keep is not None:
        assert [step for step in job.steps if f"step-{step}" not in removed] == job.steps[:keep]


@pytest.mark.parametrize(
    ("name", "ended"),
    [
        ("6", True),
        ("7", False),
        ("7-1001", False),
        ("7.2", True),
        ("12_3", False),
        ("12_30", True),
        ("..", False),
        ("tmp", False),
        ("07", False),
    ],
)
def test_names_of_folders(name: str, ended: bool) -> None:
    assert is_of_an_ended_job(name, {"7", "12_3"}) == ended
