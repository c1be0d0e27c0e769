"""The failing nodes of a journal: runs as the journal stores them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.slurm_plugin.doctor import failing_node_check
from tiresias.slurm_plugin.observation.node_failures import INTERVAL_S, WEEK_S, FailingNodesOfJournal
from tiresias.slurm_plugin.state.intents import Intent, IntentKind, IntentStep
from tiresias.slurm_plugin.state.journal import FILE, Journal
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow

NOW = 2_000_000.0


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, 1)


def ended(journal: Journal, number: int, node: str, uid: int, failed: bool, over: float = NOW) -> None:
    row = JobRow(f"{number}@1", str(number), uid, 1.0, ended=True, over=over)
    journal.save_job(row)
    journal.save_run(RunRow(row.key, 0, over - 9.0, over, 1, f"{node}:1", ended_as="FAILED" if failed else ""))


def fill(journal: Journal, over: float = NOW) -> None:
    """Twenty runs that did not fail on four nodes, and six of two users that failed on the first."""
    for number in range(20):
        ended(journal, number, f"gpu0{number % 4 + 1}", 1001, False, over)
    for number in range(20, 26):
        ended(journal, number, "gpu01", 1001 + number % 2, True, over)


def test_a_node_on_which_two_users_fail_is_named(journal: Journal) -> None:
    fill(journal)
    nodes = FailingNodesOfJournal(journal)
    nodes.learn(NOW)
    assert set(nodes.found) == {"gpu01"}
    mask = nodes.last_resort(("gpu03", "gpu01"))
    assert mask is not None
    assert mask.tolist() == [False, True]
    assert nodes.last_resort(("gpu03",)) is None
    assert nodes.alarms()[0].startswith("node gpu01: 6.0 runs of 2 users failed there")


def test_runs_of_long_ago_count_for_nothing(journal: Journal) -> None:
    fill(journal, NOW - WEEK_S - 1.0)
    nodes = FailingNodesOfJournal(journal)
    nodes.learn(NOW)
    assert not nodes.found


def test_the_journal_is_read_once_in_an_interval_also_after_the_clock_was_set_back(journal: Journal) -> None:
    nodes = FailingNodesOfJournal(journal)
    nodes.learn(NOW)
    fill(journal)
    nodes.learn(NOW + INTERVAL_S - 1.0)
    assert not nodes.found
    nodes.learn(NOW - INTERVAL_S)
    assert nodes.found


def test_doctor_names_it(journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: NOW)
    fill(journal)
    [finding] = failing_node_check.findings(tmp_path / FILE)
    assert finding.words.startswith("gpu01: 6.0 runs of 2 users failed there")
    assert list(failing_node_check.findings(tmp_path / "none")) == []


def test_a_journal_of_another_version_is_one_line(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"")
    [finding] = failing_node_check.findings(tmp_path / FILE)
    assert "no such table" in finding.words


def test_a_job_that_ended_between_two_snapshots_has_the_nodes_of_its_start(journal: Journal) -> None:
    row = JobRow("1@1", "1", 1001, 1.0, ended=True, over=NOW)
    journal.save_job(row)
    journal.save_run(RunRow(row.key, 0, NOW, NOW, 1, "", ended_as="FAILED"))
    assert [run.nodes for run in journal.ended_runs(0.0, 9)] == [""]
    journal.begin(Intent(row.key, "1", 0, IntentKind.START, IntentStep.CONFIRM, (("gpu02", 1),)))
    assert [run.nodes for run in journal.ended_runs(0.0, 9)] == ["gpu02:1"]
