"""One table of several replays on a real Slurm, such as of three seeds. Prints Markdown, or JSON.

    tiresias sandbox replay SEED1.csv --policy slurm-fifo,slurm-backfill,las,adaptive,adaptive+reports ... --json one.json
    python bench/parity.py one.json two.json three.json [--json]

mean JCT    seconds of the trace, mean of the replays
simulated   the same of the simulations that are charged with the measured medians (docs/how-to/replays.md)
ratio       simulated over measured: of the means, and the smallest of the replays
means       the ratio of the means, of the simulations that are charged with means in place of medians
over FIFO   mean JCT of unmodified Slurm over that of the policy, both means of the replays; over backfill: the same
start       seconds from the decision to the first line of the program, median and 95th percentile: means of the replays
broken      sum of the invariants that must be 0
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiresias.sandbox.replay.replay_report import BROKEN_UNLESS_ZERO

STOCK = {"over_fifo": "slurm-fifo", "over_backfill": "slurm-backfill"}
COLUMNS = {
    "mean_jct": ("mean JCT", "{:,.0f}"),
    "simulated": ("simulated", "{:,.0f}"),
    "ratio": ("ratio", "{:.3f}"),
    "least_ratio": ("smallest", "{:.3f}"),
    "means": ("means charged", "{:.3f}"),
    "over_fifo": ("over FIFO", "{:.2f}"),
    "over_backfill": ("over backfill", "{:.2f}"),
    "preemptions": ("preemptions", "{:,.0f}"),
    "start": ("start", "{:.2f}"),
    "start_p95": ("95th", "{:.2f}"),
    "broken": ("broken", "{:.0f}"),
}


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def row(name: str, replays: Sequence[dict[str, dict[str, Any]]]) -> dict[str, float]:
    """Return the numbers of one policy. replays: outcomes by policy."""
    own = [each[name] for each in replays]
    starts = [each["latency"]["first_line"] for each in own]
    found = {
        "mean_jct": mean([each["mean_jct"] for each in own]),
        "preemptions": mean([each["preemptions"] for each in own]),
        "start": mean([each["median"] for each in starts]),
        "start_p95": mean([each["p95"] for each in starts]),
        "broken": float(sum(each["invariants"].get(key, 0) for each in own for key in BROKEN_UNLESS_ZERO)),
    }
    if all("simulated_mean_jct" in each for each in own):
        found["simulated"] = mean([each["simulated_mean_jct"] for each in own])
        found["ratio"] = found["simulated"] / found["mean_jct"]
        found["least_ratio"] = min(each["simulated_to_measured"] for each in own)
    if all("means_to_measured" in each for each in own):
        found["means"] = (
            sum(each["means_to_measured"] * each["mean_jct"] for each in own) / len(own) / found["mean_jct"]
        )
    for key, stock in STOCK.items():
        if stock in replays[0]:
            found[key] = mean([each[stock]["mean_jct"] for each in replays]) / found["mean_jct"]
    return found


def markdown(rows: dict[str, dict[str, float]]) -> str:
    """Return the table."""
    lines = [["", *(heading for heading, _ in COLUMNS.values())], ["---"] * (1 + len(COLUMNS))]
    for name, found in rows.items():
        lines.append([name, *(form.format(found[key]) if key in found else "" for key, (_, form) in COLUMNS.items())])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="*", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not args.files:
        parser.exit(message="no replays are given; see --help\n")
    replays = [json.loads(file.read_text())["policies"] for file in args.files]
    rows = {name: row(name, replays) for name in replays[0] if all(name in each for each in replays)}
    print(json.dumps(rows, indent=2) if args.json else markdown(rows))


if __name__ == "__main__":
    main()
