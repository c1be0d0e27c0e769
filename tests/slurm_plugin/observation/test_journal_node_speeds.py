"""The speeds of nodes of a journal: runs as the journal stores them, what is published of them, and what doctor reports."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from tests.scheduler.estimates.planted_speeds import NOW, planted_runs
from tiresias.slurm_plugin.cluster.finding import Level
from tiresias.slurm_plugin.doctor import slow_node_check
from tiresias.slurm_plugin.observation.journal_node_speeds import JournalNodeSpeeds, speeds_in
from tiresias.slurm_plugin.observation.runs_to_learn import INTERVAL_S, PERIOD_S, JournalRuns, RunsOnNodes
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_history import RecentRuns
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

KINDS = {f"kind{at}": f"{at}a-2-{at}.json" for at in range(3)}
SLOWNESS = (1.0, 1.0, 1.5, 1.0, 0.9, 1.0)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, 1)


def fill(journal: Journal, slowness: tuple[float, ...], now: float = NOW, noise: float = 0.03) -> None:
    for number, run in enumerate(planted_runs(slowness, 1, 150, noise)):
        start, end = run.start + now - NOW, run.end + now - NOW
        row = JobRow(
            f"{number}@1", str(number), 1001, 1.0, kind=KINDS[run.kind.partition(".")[2]], ended=True, over=end
        )
        journal.save_job(row)
        nodes = ",".join(f"{name}:2" for name in run.nodes)
        journal.save_run(RunRow(row.key, 0, start, end, run.gpus, nodes, timed=float(run.seconds)))


class CountedRuns:
    """A journal that counts its reads."""

    def __init__(self, journal: RunsOnNodes) -> None:
        self.reads, self._journal = 0, journal

    def nodes_of_runs(self, since: float, most: int) -> RecentRuns:
        self.reads += 1
        return self._journal.nodes_of_runs(since, most)


def learned(runs: RunsOnNodes, used: bool = True) -> JournalNodeSpeeds:
    found = JournalNodeSpeeds(JournalRuns(runs), used)
    for _ in range(10):
        found.learn(NOW)
    return found


def test_speeds_are_learned_in_parts_and_the_journal_is_read_once_in_an_interval(journal: Journal) -> None:
    fill(journal, SLOWNESS)
    counted = CountedRuns(journal)
    found = JournalNodeSpeeds(JournalRuns(counted), used=True)
    found.learn(NOW)
    assert found.slowness(["n01"]) is None
    assert not found.published()["used"]
    for _ in range(7):
        found.learn(NOW + 30.0)
    assert found.published()["used"]
    assert found.published()["slow"] == ["n03"]
    slowness = found.slowness(["n03", "n05", "new"])
    assert slowness is not None
    assert slowness.tolist() == pytest.approx([1.5, 0.9, 1.0], rel=0.03)
    sensitivity = found.sensitivity([(1001, KINDS["kind0"]), (0, "")])
    assert sensitivity is not None
    assert sensitivity.tolist() == [1.0, 1.0]
    found.learn(NOW + INTERVAL_S - 1.0)
    assert counted.reads == 1
    found.learn(NOW + INTERVAL_S)
    assert counted.reads == 2
    for _ in range(7):
        found.learn(NOW + PERIOD_S + 2 * INTERVAL_S)
    assert not found.nodes


def test_a_style_that_does_not_use_them_learns_them_and_places_nothing_by_them(journal: Journal) -> None:
    fill(journal, SLOWNESS)
    found = learned(journal, used=False)
    assert found.published()["slow"] == ["n03"]
    assert found.slowness(["n03"]) is None
    assert found.sensitivity([(1001, KINDS["kind0"])]) is None


def test_equal_nodes_have_no_speeds(journal: Journal) -> None:
    fill(journal, (1.0,) * 6)
    found = learned(journal)
    assert (found.slowness(["n01"]), found.published()["slow"]) == (None, [])


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.inf, 1e300, 1e-300, None])
def test_absurd_times_of_programs_change_nothing(journal: Journal, seconds: float | None) -> None:
    fill(journal, SLOWNESS)
    before = speeds_in(journal, NOW)
    for number in range(1000, 1020):
        row = JobRow(f"{number}@1", str(number), 1001, 1.0, kind=KINDS["kind0"], ended=True, over=NOW)
        journal.save_job(row)
        journal.save_run(RunRow(row.key, 0, NOW - 9.0 * (number - 900), NOW - 1.0, 2, "n09:2", timed=seconds))
    assert speeds_in(journal, NOW) == before


def test_doctor_names_a_node_that_is_persistently_slow(tmp_path: Path, journal: Journal) -> None:
    assert [*slow_node_check.findings(tmp_path / "none.db")] == []
    [nothing] = slow_node_check.findings(tmp_path / FILE)
    assert nothing.level is Level.FINE
    fill(journal, SLOWNESS, time.time())
    [found] = slow_node_check.findings(tmp_path / FILE)
    assert found.level is Level.RISK
    assert found.words.startswith("n03: steps take 1.5")
    assert "times as long as on the median node" in found.words
    assert "drain" in found.remedy
    (tmp_path / "broken.db").write_text("no journal, but a file that is long enough to be read as one")
    [broken] = slow_node_check.findings(tmp_path / "broken.db")
    assert broken.level is Level.ADVICE
