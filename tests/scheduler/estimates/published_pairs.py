"""Pairs of jobs that others measured, and the error of completing them."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.scheduler.estimates.co_run_matrix import complete
from tiresias.scheduler.estimates.job_kinds import alike


def halves(ratio: Any, part: float, seed: int) -> Any:
    """Return which ratios are known if that part of the pairs was measured from both jobs."""
    chance, kinds = np.random.default_rng(seed), len(ratio)
    pairs = [(a, b) for a in range(kinds) for b in range(a, kinds)]
    known = np.zeros(ratio.shape, np.bool_)
    for place in chance.permutation(len(pairs))[: round(part * len(pairs))]:
        a, b = pairs[place]
        known[a, b] = known[b, a] = True
    return known & np.isfinite(ratio)


def held_out_error(names: Any, ratio: Any, part: float, seed: int) -> Any:
    """Return the mean relative error of the other pairs, and which part of them is within the range."""
    known = halves(ratio, part, seed)
    found, held = complete(np.where(known, ratio, np.nan), alike(names)), np.isfinite(ratio) & ~known
    within = (ratio >= found.low) & (ratio <= found.high)
    return np.array([np.abs(found.ratio[held] / ratio[held] - 1.0).mean(), within[held].mean()])


def published(path: Path) -> tuple[list[str], Any]:
    """Return the kinds and the ratios of a table of Gavel or of DeepShare."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    if "ratio_a" in rows[0]:
        pairs = {(row["job_a"], row["job_b"]): float(row["ratio_a"]) for row in rows}
    else:
        together = [row for row in rows if row["job_type_b"]]
        pairs = {
            (row["job_type_a"], row["job_type_b"]): float(row["thr_a_with_b"]) / float(row["thr_a_alone"])
            for row in together
        }
    names = sorted({name for pair in pairs for name in pair})
    ratio = [[pairs.get((a, b), 0.0) or np.nan for b in names] for a in names]
    return names, np.array(ratio)
