"""`adaptive` against its bars on families of traces, and whether a fixed setting reaches them: rows of a Markdown table.

    python bench/bars.py [--traces DIR] [--family NAME,...|all] [--knob NAME=VALUE ...] [--save FILE]
    python bench/bars.py --saved FILE

A preemption costs 62 s at the next start, the paper's mean. The bars of each trace: the mean JCT is at most 1.02 times that of the
best of 54 fixed settings of `las` in hindsight; the 99th percentile is not above the larger one of `fifo` and `srsf`. Columns:

  mean: traces on which the bar is missed; geometric mean and maximum of the ratio to the best fixed setting
  mean, one setting: the same of the fixed setting whose mean is best on the other traces of the family, in place of `adaptive`
  p99: traces on which the bar is missed; geometric mean and maximum of the ratio to the bar
  best, 2%: traces on which the 99th percentile of the best fixed setting misses the bar; and those of all settings whose means
    are within 2% of the best
  site: traces on which the mean misses its bar with the defaults of the product, `starve_limit` and `min_run` above all

`--knob` sets values of the policy, as `--knob target_slowdown=30`. Without `--family`: exponential. All traces take an hour of one
core, philly a half of it; with a compiled copy of the simulator it is a third: PYTHONPATH=COPY.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bar_traces import FILES, GENERATED, Case, cases
from fixed_settings import COST, FIXED, LAS

from tiresias.scheduler.config import PolicyConfig
from tiresias.scheduler.model import Floats
from tiresias.simulator.cluster_size import ClusterSize
from tiresias.simulator.experiments.experiment import Setup
from tiresias.simulator.simulation import simulate
from tiresias.simulator.trace import Trace

MEAN_BAR, TAIL_BAR = 1.02, 1.001  # the latter: rounding errors
FAMILIES = (*FILES, "pollux", "philly_like", *GENERATED)
Result = list[float]  # mean, median and 99th percentile of the JCT in seconds, preemptions
Row = dict[str, Any]


def result(trace: Trace, gpus: int, policy: str, config: PolicyConfig) -> Result:
    experiment = Setup("", trace, ClusterSize(gpus, 1), config, COST).experiment(policy)
    outcome = simulate(experiment.trace, experiment.cluster, experiment.rules)
    found = (outcome.jct.mean(), *np.percentile(outcome.jct, (50, 99)), outcome.preemptions.sum())
    return [round(float(each), 1) for each in found]


def measured(case: Case, knobs: dict[str, float]) -> Row:
    """Return the results on one trace."""
    trace = case.load()
    adaptive = replace(LAS, **knobs)  # type: ignore[arg-type]  # checked by PolicyConfig
    runs = {name: result(trace, case.gpus, name, adaptive) for name in ("adaptive", "fifo", "srsf")}
    site = result(trace, case.gpus, "adaptive", PolicyConfig())
    fixed = [result(trace, case.gpus, "las", each) for each in FIXED]
    return {"family": case.family, "trace": case.name, **runs, "site": site, "fixed": fixed}


def ratios(row: Row) -> tuple[float, ...]:
    """Return what is compared with the bars: the columns of the table but the first two."""
    best, bar = min(row["fixed"]), max(row["fifo"][2], row["srsf"][2])
    near = [each[2] for each in row["fixed"] if each[0] <= MEAN_BAR * best[0]]
    mean, tail = row["adaptive"][0] / best[0], row["adaptive"][2] / bar
    return mean, tail, best[2] / bar, min(near) / bar, row["site"][0] / best[0]


def table(rows: Iterable[Row]) -> Iterator[str]:
    yield "| family | traces | mean | mean, one setting | p99 | p99 of the best | p99 within 2% | mean, site |"
    yield "|---|---|---|---|---|---|---|---|"
    families = defaultdict[str, list[Row]](list)
    for each in rows:
        families[each["family"]].append(each)
    found = {
        name: np.column_stack((one_setting(own), [ratios(each) for each in own])) for name, own in families.items()
    }
    for family, own in found.items():
        yield line(family, own)
    yield line("all", np.concatenate(list(found.values())))


def one_setting(rows: list[Row]) -> Floats:
    """Return for each trace of a family the mean JCT of the fixed setting that is best on the others, over that of the best one."""
    mean = np.array([[each[0] for each in row["fixed"]] for row in rows])
    ratio = mean / mean.min(axis=1, keepdims=True)
    others = np.log(ratio).sum(axis=0) - np.log(ratio)
    return np.asarray(ratio[np.arange(len(rows)), others.argmin(axis=1)])


def line(family: str, found: Floats) -> str:
    one, mean, tail, best, near, site = found.T
    cells = [
        spread(mean, MEAN_BAR),
        spread(one, MEAN_BAR),
        spread(tail, TAIL_BAR),
        *(f"{(each > TAIL_BAR).sum()}" for each in (best, near)),
        f"{(site > MEAN_BAR).sum()}",
    ]
    return " | ".join([f"| {family}", f"{len(found)}", *cells]) + " |"


def spread(ratio: Floats, bar: float) -> str:
    return f"{(ratio > bar).sum()}: {np.exp(np.log(ratio).mean()):.3f}, {ratio.max():.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--traces", type=Path, default=beside, help=f"folder with the traces (default: {beside})")
    parser.add_argument("--family", default="exponential", help="all, or of: " + ", ".join(FAMILIES))
    parser.add_argument("--knob", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--save", type=Path, help="write the results of each trace, a JSON line each")
    parser.add_argument("--saved", type=Path, help="read such a file and simulate nothing")
    args = parser.parse_args()
    knobs = {name: float(value) for name, _, value in (each.partition("=") for each in args.knob)}
    chosen = FAMILIES if args.family == "all" else args.family.split(",")
    if unknown := {*chosen} - {*FAMILIES}:
        parser.error(f"{', '.join(unknown)}: no such family; there are {', '.join(FAMILIES)}")
    if args.saved:
        rows = [json.loads(each) for each in args.saved.read_text().splitlines()]
    else:
        rows = [measured(each, knobs) for each in cases(args.traces) if each.family in chosen]
    if args.save:
        args.save.write_text("".join(json.dumps(each) + "\n" for each in rows))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
