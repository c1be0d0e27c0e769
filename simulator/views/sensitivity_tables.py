"""The tables and the JSON document of `tiresias simulate --sensitivity`. Pure: results in, tables out."""

from __future__ import annotations

from rich.table import Table

from tiresias.simulator.experiments.sensitivity import Sensitivity
from tiresias.simulator.outcome_metrics import finite
from tiresias.simulator.views.simulate import new_table

COLUMNS = {
    "mean_jct": ("mean", "{:,.0f}"),
    "median_jct": ("median", "{:,.0f}"),
    "p95_jct": ("95th", "{:,.0f}"),
    "max_jct": ("longest", "{:,.0f}"),
    "preemptions": ("preemptions", "{:,}"),
}


def as_json(found: Sensitivity) -> dict[str, object]:
    """Return the JSON document."""
    settings = {
        label: {"thresholds": list(config.thresholds), "promote_knob": finite(config.promote_knob)}
        for label, config in found.settings.items()
    }
    return {"sensitivity": found.knob, "settings": settings, "policies": found.summaries}


def tables(found: Sensitivity) -> list[Table]:
    """Return a table for each policy."""
    return [_table(found, policy) for policy in found.summaries]


def _table(found: Sensitivity, policy: str) -> Table:
    table = new_table(f"{policy}: JCT in seconds by {found.knob}")
    for heading, _ in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for label, summary in found.summaries[policy].items():
        table.add_row(label, *(form.format(summary[key]) for key, (_, form) in COLUMNS.items()))
    return table
