"""Complete the throughputs of pairs of jobs from some measured pairs.

FILE is a table with the columns job_a, job_b and ratio_a: the kinds of two jobs that share a node or a link, and the throughput of
the first beside the second divided by its throughput alone. Measure a pair from both of its jobs. A line with an empty ratio names
kinds of which nothing is measured. Kinds whose names differ only in numbers that stand alone, such as `ResNet-18 (batch size 16)`
and `ResNet-18 (batch size 64)`, are expected to be alike. CSV, gzip or not.

examples:
  tiresias interference pairs measured.csv
  tiresias interference pairs measured.csv --out all.csv      all pairs, with the range in which 90 of 100 are
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console

from tiresias.scheduler.estimates.co_run_matrix import CoRunMatrix, complete
from tiresias.scheduler.estimates.job_kinds import alike
from tiresias.scheduler.model import Floats
from tiresias.simulator.interference.measured_pairs import MeasuredPairs, read_pairs
from tiresias.simulator.views import output
from tiresias.simulator.views.simulate import filled_table

SHOWN = 10  # kinds in the table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the measured pairs, .csv or .csv.gz")
    parser.add_argument("--out", type=Path, metavar="FILE.csv", help="the ratios of all pairs")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check([args.out] if args.out else [])
    pairs = read_pairs(args.file)
    found = complete(pairs.ratio, alike(pairs.kinds))
    if args.out:
        output.write({args.out: _lines(pairs, found)})
    console = Console(highlight=False, markup=False)
    measured = int(np.isfinite(pairs.ratio).sum())
    console.print(f"{len(pairs.kinds)} kinds of jobs, {measured:,} of {pairs.ratio.size:,} ratios measured")
    console.print(f"pairs that are left out are predicted with a mean relative error of {found.error:.1%}")
    console.print(filled_table("", ("others slow it to", "it slows others to"), _kind_rows(pairs, found.ratio)))
    if len(pairs.kinds) > SHOWN:
        console.print(f"and {len(pairs.kinds) - SHOWN} kinds that slow others less; --out has all pairs")
    return 0


def _kind_rows(pairs: MeasuredPairs, ratio: Floats) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the kinds that slow others most."""
    for row in np.argsort(ratio.mean(axis=0))[:SHOWN].tolist():
        yield pairs.kinds[row], (f"{ratio[row].mean():.0%}", f"{ratio[:, row].mean():.0%}")


def _lines(pairs: MeasuredPairs, found: CoRunMatrix) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("job_a", "job_b", "ratio_a", "low", "high", "measured"))
    for (row, column), ratio in np.ndenumerate(found.ratio):
        names, range_of = (pairs.kinds[row], pairs.kinds[column]), (found.low[row, column], found.high[row, column])
        known = pairs.ratio[row, column]
        writer.writerow(
            (*names, *(f"{each:.4f}" for each in (ratio, *range_of)), "" if np.isnan(known) else f"{known:.4f}")
        )
    yield text.getvalue()
