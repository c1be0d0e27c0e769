"""The waits of each virtual cluster in the output of `tiresias whatif`. Pure: results in, text out."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from tiresias.simulator.experiments.policy_comparison import PolicyComparison
from tiresias.simulator.views import simulate as simulate_view

MEANING = (
    "Mean and 99th percentile of the time that a job waits, before its first start and after preemptions, in seconds. "
    "recorded: as it was under Slurm."
)


def header(found: PolicyComparison) -> list[str]:
    """Return the headings."""
    return ["jobs", *found.jct]


def rows(found: PolicyComparison) -> Iterator[tuple[str, list[str]]]:
    """Yield a row for each virtual cluster: its name, and cells."""
    for cluster, waits in found.waits().items():
        yield (
            cluster,
            [f"{waits.jobs:,}", *(f"{each['mean']:,.0f} / {each['p99']:,.0f}" for each in waits.runs.values())],
        )


def table(found: PolicyComparison) -> Table:
    """Return the table."""
    title = "waiting by virtual cluster, seconds: mean / 99th percentile"
    return simulate_view.filled_table(title, header(found), rows(found))
