"""What starts cost, worked out by hand from decisions and slurmd's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sandbox.replay.test_latency import result
from tiresias.sandbox.replay import start_overhead
from tiresias.slurm_plugin.state.journal_rows import Decision


def test_a_start_begins_with_the_decision_or_with_the_release_of_the_gpus_that_it_waits_for() -> None:
    decisions = [
        Decision(1.0, "7", "start", "on gpu01:4"),
        Decision(5.0, "7", "preempt", "for job 8"),
        Decision(6.0, "8", "start", "on gpu01:4"),
        Decision(6.5, "7", "parked", "after 1.5 s"),
        Decision(9.0, "7", "start", "on gpu01:4"),
    ]
    given = start_overhead.given_by_controller(decisions)
    assert given == {"7": [1.0, 9.0], "8": [6.5]}
    found = start_overhead.measured([result("7", 0.0, (1.5, 5.5), (9.75, 12.0)), result("8", 4.0, (7.0, 9.0))], given)
    assert found.first == [0.5, 0.5]
    assert found.restarts == [0.75]


def test_a_program_that_begins_before_the_end_of_the_preemption_is_known_is_not_counted() -> None:
    given = {"8": [1.0, 20.0, 30.0]}
    found = start_overhead.measured([result("8", 0.0, (1.5, 5.0), (19.75, 25.0), (30.5, 31.0))], given)
    assert found == ([0.5], [0.5])


def test_a_preemption_without_a_beneficiary_delays_no_start() -> None:
    decisions = [
        Decision(1.0, "8", "start", ""),
        Decision(2.0, "7", "preempt", "it has saved"),
        Decision(3.0, "7", "parked", ""),
    ]
    assert start_overhead.given_by_controller(decisions)["8"] == [1.0]


def test_slurmds_log_has_the_launches_of_all_generations(tmp_path: Path) -> None:
    one, two = tmp_path / "gpu01.log", tmp_path / "gpu02.log"
    one.write_text("[1970-01-01T00:00:02.250] Launching batch JobId=7 SLUID=x for UID 2001\nno time\n")
    two.write_text("[1970-01-01T00:00:01.125] Launching batch job 7 for UID 2001\n")
    assert start_overhead.launched_by_slurmd([one, two]) == {"7": [1.125, 2.25]}


def test_a_run_without_a_known_decision_is_not_counted() -> None:
    found = start_overhead.measured([result("7", 0.0, (1.5, 5.5)), result("8", 0.0, (1.5, 5.5))], {"7": [2.0]})
    assert found == ([], [])
    assert start_overhead.measured([result("7", 0.0, (1.5, 2.0))], {"7": [1.25]}).first == [pytest.approx(0.25)]
