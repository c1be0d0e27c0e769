"""Progress reports of a program: what is written, how often, and what a reader accepts."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tiresias.checkpoint import Checkpointer
from tiresias.checkpoint.world import World
from tiresias.protocol import control, progress, versions
from tiresias.protocol.progress import NO_PROGRESS, Progress

JOB = "12"


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = control.job_folder(tmp_path, os.getuid(), JOB)
    control.make(made, "")
    return made


def checkpointer(folder: Path, rank: int = 0, restart: int = 0) -> Checkpointer:
    return Checkpointer(folder.parent / "saved", control=folder, restart=restart, world=World(rank, rank + 1, "x"))


def read(folder: Path) -> Progress:
    return progress.read(folder.parent.parent, os.getuid(), JOB)


def test_at_most_one_report_a_second_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = 1000.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    program = checkpointer(folder)
    for step in range(1, 31):
        program.report(step, total_steps=500, loss=2.0 / step, samples=32 * step)
        seen.append(read(folder))
        now += 0.1
    assert [one.step for one in seen] == [1] * 10 + [11] * 10 + [21] * 10
    assert seen[-1] == Progress(0, 21, 500, 2.0 / 21, 672)


def test_the_time_between_reports_can_be_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, seen = 1000.0, []
    monkeypatch.setattr(time, "monotonic", lambda: now)
    program = checkpointer(folder)
    program.report_every(0.25)
    for step in range(1, 9):
        program.report(step)
        seen.append(read(folder).step)
        now += 0.125
    assert seen == [1, 1, 3, 3, 5, 5, 7, 7]


def test_a_smaller_step_of_the_same_run_is_ignored_and_one_of_the_next_run_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    program = checkpointer(folder)
    program.report(50, 100)
    now += 2.0
    program.report(40, 100)
    assert read(folder).step == 50
    checkpointer(folder, restart=1).report(40, 100)
    assert read(folder) == Progress(1, 40, 100)


def test_only_rank_0_reports(folder: Path) -> None:
    checkpointer(folder, rank=1).report(5, 10)
    assert read(folder) == NO_PROGRESS


def test_outside_of_a_job_nothing_is_written(tmp_path: Path) -> None:
    Checkpointer.from_env(tmp_path, env={}).report(5, 10)
    assert not list(tmp_path.rglob(control.PROGRESS))


def test_a_plain_loop_reports_by_itself_and_begins_at_the_restored_step(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    first = checkpointer(folder)
    assert first.restore() is None
    first.save(3, {"x": 1})
    resumed = checkpointer(folder, restart=1)
    assert resumed.restore() is not None
    done = []
    for step in resumed.steps(6):
        done.append((step, read(folder).step))
        now += 1.5
    assert done == [(3, -1), (4, 4), (5, 5)]
    assert read(folder) == Progress(1, 6, 6)


@pytest.mark.parametrize("loss", [math.nan, math.inf, "much", object(), 1e31])
def test_a_loss_that_is_no_number_is_left_out(folder: Path, loss: float) -> None:
    checkpointer(folder).report(5, 10, loss=loss)
    assert read(folder) == Progress(0, 5, 10)


def test_numbers_of_other_types_are_converted(folder: Path) -> None:
    torch_like = type("Scalar", (), {"__float__": lambda self: 0.5})()
    checkpointer(folder).report(5, 10.0, loss=torch_like, samples=7.0)  # type: ignore[arg-type]
    assert read(folder) == Progress(0, 5, 10, 0.5, 7)


def test_a_folder_that_cannot_be_written_is_logged_once_a_minute(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    program = checkpointer(folder)
    capfd.readouterr()
    moved = folder.rename(folder.with_name("gone"))
    for step in range(1, 100):
        program.report(step, 500)
        now += 1.0
    assert capfd.readouterr().err.count("the progress cannot be reported") == 2
    assert not (moved / control.PROGRESS).exists()


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2),
    st.sampled_from([10**15, 10**400, -1, 0]),
)  # fmt: skip
NAMES = st.sampled_from([versions.KEY, "restart", "step", "total", "loss", "samples", "more"])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=st.dictionaries(NAMES, VALUES))
def test_whatever_a_report_holds_is_bounded_when_it_is_read(
    content: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = control.job_folder(tmp_path_factory.mktemp("root"), os.getuid(), JOB)
    control.make(folder, "")
    (folder / control.PROGRESS).write_text(json.dumps(content))
    found = read(folder)
    assert all(-1 <= count < control.MOST for count in (found.restart, found.step, found.total, found.samples))
    assert found.total != 0
    assert found.loss is None or abs(found.loss) < progress.LARGEST_LOSS


def _link(folder: Path) -> None:
    other = folder / "other.json"
    (folder / control.PROGRESS).rename(other)
    (folder / control.PROGRESS).symlink_to(other)


def _oversize(folder: Path) -> None:
    (folder / control.PROGRESS).write_text(json.dumps({"restart": 0, "step": 5, "more": "x" * control.MAX_BYTES}))


def _torn(folder: Path) -> None:
    (folder / control.PROGRESS).write_text('{"restart": 0, "st')


def _pipe(folder: Path) -> None:
    (folder / control.PROGRESS).unlink()
    os.mkfifo(folder / control.PROGRESS)


def _newer(folder: Path) -> None:
    (folder / control.PROGRESS).write_text(json.dumps({"restart": 0, "step": 5, versions.KEY: [900, 901]}))


@pytest.mark.parametrize("spoil", [_link, _oversize, _torn, _pipe, _newer])
def test_a_file_that_is_not_a_small_regular_one_of_a_known_version_is_no_report(folder: Path, spoil: object) -> None:
    checkpointer(folder).report(5, 10)
    assert read(folder).step == 5
    spoil(folder)  # type: ignore[operator]
    assert read(folder) == NO_PROGRESS


def test_a_report_of_another_user_is_no_report(folder: Path) -> None:
    checkpointer(folder).report(5, 10)
    other = os.getuid() + 1
    assert progress.read(folder.parent.parent, other, JOB) == NO_PROGRESS
    (folder.parent.parent / str(other)).symlink_to(folder.parent)
    assert progress.read(folder.parent.parent, other, JOB) == NO_PROGRESS
