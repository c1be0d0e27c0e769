"""The tables and the JSON document of `tiresias simulate --reproduce-paper`. Pure: results in, tables out."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from tiresias.simulator.experiments.paper import COUNTS, EXAMPLE, WHY
from tiresias.simulator.experiments.reproduce import Comparison, Reproduction
from tiresias.simulator.views.simulate import new_table


def tables(found: Reproduction) -> list[Table]:
    """Return a table for each section of the paper."""
    sections = list(dict.fromkeys(each.number.section for each in found.comparisons))
    return [_table(found, section) for section in sections]


def _table(found: Reproduction, section: str) -> Table:
    table = new_table(section)
    for heading in ("paper", "simulated", "ratio", "variant", "why"):
        table.add_column(heading, justify="right", no_wrap=True)
    letters = _letters(found)
    for each in found.comparisons:
        if each.number.section == section:
            why = " ".join(letters[reason] for reason in found.reasons(each))
            numbers = (
                _written(each, each.number.paper),
                _written(each, each.simulated),
                _written(each, each.ratio, True),
            )
            table.add_row(each.number.what, *numbers, _written(each, each.variant), why)
    return table


def notes(found: Reproduction) -> list[str]:
    """Return the explanations of the letters in the tables."""
    return [f"{letter}: {WHY[reason]}" for reason, letter in _letters(found).items()]


def _letters(found: Reproduction) -> dict[str, str]:
    """A letter for each reason that is needed, in the order of the tables."""
    needed = dict.fromkeys(reason for each in found.comparisons for reason in found.reasons(each))
    return {reason: chr(ord("a") + place) for place, reason in enumerate(needed)}


def _written(comparison: Comparison, value: float, ratio: bool = False) -> str:
    number = comparison.number
    if np.isnan(value):
        return "-"
    if ratio or number.over or number.workload == EXAMPLE:
        return f"{value:,.2f}"
    return f"{value:,.0f}" + " s" * (number.metric not in COUNTS)


def as_json(found: Reproduction) -> dict[str, object]:
    """Return the JSON document."""
    return {"trace": found.trace, "numbers": [_as_json(found, each) for each in found.comparisons]}


def _as_json(found: Reproduction, each: Comparison) -> dict[str, object]:
    number = each.number
    simulated, variant, ratio = (
        None if np.isnan(value) else value for value in (each.simulated, each.variant, each.ratio)
    )
    return {
        "section": number.section,
        "what": number.what,
        "paper": number.paper,
        "ours": simulated,
        "ratio": ratio,
        "variant": variant,
        "why": [WHY[reason] for reason in found.reasons(each)],
    }
