"""The nodes of the newest run of a job, from the journal's rows."""

from __future__ import annotations

from tiresias.slurm_plugin.state.journal_rows import RunRow
from tiresias.slurm_plugin.state.nodes_of_runs import NOWHERE, column, last_nodes, node_names


def run(restart: int, nodes: str) -> RunRow:
    return RunRow("7@1", restart, 1.0, 2.0, 4, nodes)


def test_the_newest_run_counts() -> None:
    runs = {2: run(2, "gpu03:4,gpu04:2"), 0: run(0, "gpu01:4")}
    assert last_nodes(runs) == {"gpu03", "gpu04"}
    assert last_nodes({}) == last_nodes({0: run(0, "")}) == NOWHERE
    assert node_names("gpu03:4,gpu04:2") == ("gpu03", "gpu04")


def test_only_jobs_that_wait_after_a_run_have_some() -> None:
    runs: list[dict[int, RunRow]] = [{}, {0: run(0, "gpu01:4")}, {0: run(0, "gpu02:4")}]
    assert column(runs, [2]) == (NOWHERE, NOWHERE, frozenset({"gpu02"}))
