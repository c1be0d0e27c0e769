"""Where Slurm placed what the controller started, from the journal's words."""

from __future__ import annotations

from tiresias.sandbox.replay.invariants import compare_plan
from tiresias.slurm_plugin.state.journal_rows import Decision


def test_starts_on_other_nodes_and_with_other_shares_are_counted() -> None:
    words = [
        ("start", "on gpu01:4"),
        ("running", "on gpu01:4"),
        ("running", "on gpu01:3, gpu02:2, not on gpu01:4, gpu02:1 as planned"),
        ("running", "on gpu03:4, not on gpu01:4 as planned"),
        ("preempt", "for job 7"),
    ]
    found = compare_plan(Decision(0.0, "1", action, why) for action, why in words)
    assert found == {"starts": 3, "other_nodes": 1, "other_shares": 1}
