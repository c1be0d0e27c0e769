"""The interference of a journal: runs as the journal stores them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tiresias.scheduler.estimates.co_located_runs import CoRunSample, co_run_samples
from tiresias.slurm_plugin.config import Placement
from tiresias.slurm_plugin.observation.journal_interference import JournalInterference
from tiresias.slurm_plugin.observation.learned_from_runs import LearnedFromRuns
from tiresias.slurm_plugin.observation.runs_to_learn import (
    INTERVAL_S,
    MOST_JOBS,
    PERIOD_S,
    JournalRuns,
    kind_name,
)
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

NOW = 2_000_000.0
LOADER, MATRIX = "aa-2-11.json", "bb-2-22.json"
SECONDS = {(LOADER, LOADER): 1.5, (LOADER, MATRIX): 1.2, (MATRIX, LOADER): 1.1, (MATRIX, MATRIX): 1.0}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, 1)


def ran(journal: Journal, number: int, kind: str, node: str, start: float, timed: float | None) -> None:
    row = JobRow(f"{number}@1", str(number), 1001, 1.0, kind=kind, ended=True, over=start + 900.0)
    journal.save_job(row)
    journal.save_run(RunRow(row.key, 0, start, row.over, 2, f"{node}:2", timed=timed))


def fill(journal: Journal, seconds: dict[tuple[str, str], float], now: float = NOW) -> None:
    """Two runs alone in each of 20 periods, then two beside each other; the times vary by 1%."""
    rng, number = np.random.default_rng(1), 0
    for period in range(40):
        start = now - 1000.0 * (42 - period)
        pair = ((LOADER, MATRIX), (LOADER, LOADER), (MATRIX, MATRIX))[period % 3]
        for at, kind in enumerate(pair):
            beside = seconds[kind, pair[1 - at]] if period >= 20 else 1.0
            ran(
                journal,
                number,
                kind,
                "gpu01" if period >= 20 else f"gpu0{at + 2}",
                start,
                beside * rng.normal(1.0, 0.01),
            )
            number += 1


def samples_in(journal: Journal, now: float) -> list[CoRunSample]:
    found = JournalRuns(journal).at(now)
    return co_run_samples(found.runs, found.since)


def learned(runs: Journal, now: float = NOW, used: bool = True) -> JournalInterference:
    found = JournalInterference(JournalRuns(runs), used)
    for _ in range(10):
        found.learn(now)
    return found


def test_the_table_is_learned_in_parts(journal: Journal) -> None:
    fill(journal, SECONDS)
    found = JournalInterference(JournalRuns(journal), used=True)
    found.learn(NOW)
    assert found.table is None
    assert found.kinds_of([(1001, LOADER)]) is None
    for _ in range(7):
        found.learn(NOW + 30.0)
    assert found.table
    kinds = found.kinds_of([(1001, LOADER), (1001, MATRIX), (1002, LOADER), (0, "")])
    assert kinds is not None
    loader, matrix, *unknown = kinds.tolist()
    assert unknown == [-1, -1]
    assert found.table.slowdown[loader, loader] == pytest.approx(1.5, rel=0.05)
    assert found.table.slowdown[loader, matrix] == pytest.approx(1.2, rel=0.05)
    assert found.table.slowdown[matrix, matrix] == pytest.approx(1.0, abs=0.05)
    published = found.published()
    assert published is not None
    assert (published["used"], published["kinds"]) == (True, 2)


def test_without_interference_there_is_no_table(journal: Journal) -> None:
    fill(journal, dict.fromkeys(SECONDS, 1.0))
    found = learned(journal)
    assert found.table is None
    published = found.published()
    assert published is not None
    assert (published["used"], published["samples"]) == (False, 40)


def test_a_style_that_does_not_use_it_learns_nothing(journal: Journal) -> None:
    fill(journal, SECONDS)
    found = learned(journal, used=False)
    assert (found.table, found.published()) == (None, None)


@pytest.mark.parametrize(
    ("style", "learns"),
    [("least_interference", True), ("learned", True), ("tetris", False), ("fastest_nodes", False), ("skew", False)],
)
def test_it_is_learned_for_the_styles_that_use_it(journal: Journal, style: str, learns: bool) -> None:
    fill(journal, SECONDS)
    found = LearnedFromRuns(journal, Placement(style=style))
    for _ in range(20):
        found.learn(NOW)
    assert (found.interference.table is not None, found.interference.published() is not None) == (learns, learns)


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, 1e300, 1e-300])
def test_absurd_times_of_programs_change_nothing(journal: Journal, seconds: float) -> None:
    fill(journal, SECONDS)
    before = samples_in(journal, NOW)
    for number in range(1000, 1010):
        ran(journal, number, LOADER, "gpu09", NOW - 1000.0, seconds)
    assert samples_in(journal, NOW) == before


def test_old_runs_are_forgotten_and_the_journal_is_read_once_in_an_interval(journal: Journal) -> None:
    fill(journal, SECONDS)
    found = learned(journal)
    assert found.table
    for _ in range(10):
        found.learn(NOW + INTERVAL_S - 1.0)
    assert found.table
    for _ in range(10):
        found.learn(NOW + PERIOD_S + INTERVAL_S)
    assert found.table is None


def test_runs_beside_which_others_may_be_missing_show_nothing(journal: Journal) -> None:
    """Of so many jobs that the oldest are not read."""
    for number in range(MOST_JOBS):
        ran(journal, 5000 + number, LOADER, "gpu07", NOW - 10.0, None)
    fill(journal, SECONDS)
    assert samples_in(journal, NOW) == []


def test_kinds_of_other_sizes_are_alike() -> None:
    assert kind_name(1001, "aa-2-11.json") == "u1001.aa.11.json 2"
    assert kind_name(1001, "") == ""
