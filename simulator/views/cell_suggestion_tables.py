"""The output of `tiresias vc suggest`: a table, sentences, JSON, and `[[virtual_cluster]]` tables. Pure: results in, text out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from rich.table import Table

from tiresias.errors import UsageError
from tiresias.scheduler.cell_words import cells_in_words
from tiresias.scheduler.tenants.declarations import DeclaredCells
from tiresias.scheduler.tenants.tenant_members import MEMBER_KEYS, tenant_members
from tiresias.simulator.experiments.cell_suggestion import SuggestedCells, Suggestion
from tiresias.simulator.experiments.held_out import HeldOut
from tiresias.simulator.experiments.policy_comparison import recorded_jct
from tiresias.simulator.experiments.private_size import WaitFigures
from tiresias.simulator.views import simulate as simulate_view

_KEYS = {"account": "accounts", "qos": "qos", "partition": "partitions"}


def tables(found: Suggestion, later: HeldOut | None) -> Iterator[Table]:
    """Yield the tables, each with a row for each tenant."""
    header = ("jobs", "GPU-hours", "cells", "wait", "past wait")
    yield simulate_view.filled_table("cells that meet the target", header, _for_target(found))
    if found.obstacle:
        fitting = ((name, _cells_and_wait(each)) for name, each in found.fitting.items())
        yield simulate_view.filled_table("cells that fit", ("cells", "wait"), fitting)
    if later:
        compared = ["jobs", "predicted", "private clusters", *(["virtual clusters"] if later.shared else [])]
        yield simulate_view.filled_table("later jobs, with these cells", compared, _later(found, later))


def _for_target(found: Suggestion) -> Iterator[tuple[str, list[str]]]:
    for name, each in found.for_target.items():
        jobs, hours = len(found.question.tenants[name]), _gpu_hours(found, name)
        yield name, [f"{jobs:,}", f"{hours:,.0f}", *_cells_and_wait(each), _figures(_past(found, name))]


def _later(found: Suggestion, later: HeldOut) -> Iterator[tuple[str, list[str]]]:
    for name, jobs in later.jobs.items():
        waits = [found.fitting[name].waits, later.private[name], *([later.shared[name]] if later.shared else [])]
        yield name, [f"{jobs:,}", *map(_figures, waits)]


def _cells_and_wait(suggested: SuggestedCells) -> list[str]:
    return [_cells(suggested.cells), _figures(suggested.waits)]


def _cells(cells: tuple[DeclaredCells, ...]) -> str:
    """Return the cells in words: `1 leaf + 2 nodes`."""
    return " + ".join(cells_in_words(each.count, each.level) for each in cells)


def _figures(waits: WaitFigures | None) -> str:
    return f"{waits.mean:,.0f} / {waits.percentile:,.0f}" if waits else "-"


def _gpu_hours(found: Suggestion, tenant: str) -> float:
    trace = found.question.tenants[tenant]
    return float(trace.gpus @ trace.duration) / 3600


def _past(found: Suggestion, tenant: str) -> WaitFigures | None:
    """Return the waits that the history contains; None: it does not contain the end of each job."""
    trace = found.question.tenants[tenant]
    jct = recorded_jct(trace)
    return None if jct is None else found.question.target.figures(jct - trace.duration)


def words(found: Suggestion, later: HeldOut | None) -> Iterator[str]:
    """Yield what the table does not contain, a sentence a line."""
    nodes, share = sum(each.nodes for each in found.fitting.values()), found.question.target.percentile
    yield f"Waits are in seconds: the mean / what {share:g}% of the jobs do not exceed."
    if found.obstacle:
        yield f"The cells for the target do not fit: {found.obstacle}."
        yield (
            "Nodes were taken away, each time from the tenant whose waits grow the least, until the rest fitted; no tenant has "
            "fewer than its largest job needs."
        )
    left = found.question.setup.cluster.nodes - nodes
    are, remain = "is" if nodes == 1 else "are", "remains" if left == 1 else "remain"
    of = found.question.setup.cluster.nodes
    yield f"{nodes} of {of} nodes {are} in cells; {left} {remain} for jobs of no virtual cluster."
    if not found.levels.nodes_per_leaf and any(_several(found, name) for name in found.fitting):
        yield (
            "No leaf switches are known, so no jobs of several nodes are promised nodes that are near each other; give "
            "--nodes-per-leaf N."
        )
    if later and later.dropped:
        yield f"Of the later jobs {later.dropped:,} were left out: they are larger than their cells, or of other tenants."


def _several(found: Suggestion, tenant: str) -> bool:
    return bool((found.question.tenants[tenant].gpus > found.question.setup.cluster.gpus_per_node).any())


def as_json(found: Suggestion, by: str, later: HeldOut | None) -> dict[str, object]:
    """Return the JSON document."""
    return {
        **simulate_view.setup_json(found.question.setup),
        "policy": found.question.policy,
        "by": by,
        "target": asdict(found.question.target),
        "obstacle": found.obstacle or None,
        "tenants": {name: _tenant_json(found, name, later) for name in found.fitting},
    }


def _tenant_json(found: Suggestion, name: str, later: HeldOut | None) -> dict[str, object]:
    past = _past(found, name)
    return {
        "jobs": len(found.question.tenants[name]),
        "gpu_hours": _gpu_hours(found, name),
        "for_target": _suggested_json(found.for_target[name]),
        "fitting": _suggested_json(found.fitting[name]),
        "past": past._asdict() if past else None,
        "later": _later_json(name, later) if later else None,
    }


def _suggested_json(suggested: SuggestedCells) -> dict[str, object]:
    cells = [{"level": each.level, "count": each.count} for each in suggested.cells]
    return {"cells": cells, "nodes": suggested.nodes, "wait": suggested.waits._asdict()}


def _later_json(tenant: str, later: HeldOut) -> dict[str, object]:
    waits = {"private_clusters": later.private, "virtual_clusters": later.shared or {}}
    return {
        "jobs": later.jobs.get(tenant, 0),
        **{rule: figures[tenant]._asdict() for rule, figures in waits.items() if tenant in figures},
    }


def as_toml(found: Suggestion, by: str) -> Iterator[str]:
    """Yield the `[[virtual_cluster]]` tables.

    Raises:
        UsageError: The name of a tenant is not possible there.
    """
    yield f"# From {simulate_view.one_line(found.question.setup.name)}, by tiresias vc suggest.\n"
    if by not in _KEYS:
        yield f"# For a controller, each table also needs some of {', '.join(MEMBER_KEYS)}.\n"
    for tenant in found.declared:
        if by in _KEYS:
            tenant_members(tenant.name, {_KEYS[by]: [tenant.name]})
        elif not tenant.name.isprintable():
            raise UsageError(
                f"virtual cluster {tenant.name[:40]!r}: a name must be printable; leave it out with --tenant"
            )
        cells = ", ".join(f"{{ level = {_quoted(each.level)}, count = {each.count} }}" for each in tenant.cells)
        yield f"\n[[virtual_cluster]]\nname = {_quoted(tenant.name)}\ncells = [{cells}]\n"
        if by in _KEYS:
            yield f"{_KEYS[by]} = [{_quoted(tenant.name)}]\n"


def _quoted(text: str) -> str:
    """Return a string of TOML, whose escapes for printable text are those of JSON."""
    return json.dumps(text, ensure_ascii=False)
