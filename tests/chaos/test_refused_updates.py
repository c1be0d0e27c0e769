"""The jobs that slurmctld lets nobody change, on made-up lines of its log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.refused_updates import FEWEST, sorted_out, unindexed_jobs

LINE = (
    "[2026-11-27T18:30:52.649] _slurm_rpc_update_job: can't update job, waited 5 seconds for JobId=14 to get a db_index, but it "
    "hasn't happened yet. Giving up and informing the user\n"
)


@pytest.mark.parametrize(("refusals", "found"), [(FEWEST - 1, set()), (FEWEST, {"chaos-7-3"})])
def test_a_job_is_unindexed_after_several_refusals(tmp_path: Path, refusals: int, found: set[str]) -> None:
    log = tmp_path / "slurmctld.log"
    log.write_text(LINE * refusals + "[2026-11-27T18:30:53.291] _job_complete: JobId=59 WEXITSTATUS 0\n")
    assert unindexed_jobs(log, lambda job, _: {"14": "chaos-7-3"}[job]) == found


def test_only_lines_about_such_jobs_are_sorted_out() -> None:
    lines = ["{'name': 'chaos-7-3'}", "chaos-7-31 (15) waited 40 s", "chaos-7-3 (14) waited 40 s"]
    assert sorted_out(lines, {"chaos-7-3"}) == ([lines[1]], [lines[0], lines[2]])
