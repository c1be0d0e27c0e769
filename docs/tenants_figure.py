"""Draws the results of bench/tenants.py: python docs/tenants_figure.py RESULTS.json docs/tenants.svg [--policy fifo]

The mean queueing delay of each tenant under each rule, one panel for each load. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.axes
import numpy as np
from matplotlib.figure import Figure

RULES = (
    ("private clusters", "private_clusters", "single_level"),
    ("quotas", "gpu_quotas", "single_level"),
    ("virtual clusters", "virtual_clusters", "multi_level"),
)
LEAST_S = 1.0  # a shorter delay is drawn as this one, as the axis is logarithmic


def delays(runs: list[dict[str, Any]], policy: str) -> Figure:
    """Return the figure of one policy."""
    own = [run for run in runs if run["policy"] == policy]
    loads = sorted({run["load"] for run in own})
    figure = Figure(figsize=(8, 2.6 * len(loads)), layout="constrained")
    figure.suptitle(f"Mean queueing delay of each tenant, {policy}")
    for axes, load in zip(figure.subplots(len(loads), squeeze=False).flat, loads, strict=True):
        _panel(axes, [run for run in own if run["load"] == load])
        axes.set_title(f"load {load:g}", fontsize="medium")
    figure.axes[0].legend()
    return figure


def _panel(axes: matplotlib.axes.Axes, runs: list[dict[str, Any]]) -> None:
    width = 1 / (len(RULES) + 1)
    for at, (label, *key) in enumerate(RULES):
        for run in (run for run in runs if [run["rule"], run["cells"]] == key):
            waited = [max(each["mean"], LEAST_S) for each in run["delay"].values()]
            axes.bar(np.arange(len(waited)) + at * width, waited, width, bottom=0.0, label=label)
            axes.set_xticks(np.arange(len(waited)) + width, list(run["delay"]), rotation=30, fontsize="small")
    axes.set(yscale="log", ylabel="seconds", ylim=(LEAST_S, None))
    axes.grid(alpha=0.3, axis="y")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.json", help="as bench/tenants.py --json writes it")
    parser.add_argument("figure", type=Path, metavar="FIGURE.svg")
    parser.add_argument("--policy", default="fifo")
    args = parser.parse_args()
    runs = json.loads(args.results.read_text())["runs"]
    with matplotlib.rc_context({"svg.hashsalt": "tenants"}):
        delays(runs, args.policy).savefig(args.figure, metadata={"Date": None})


if __name__ == "__main__":
    main()
