"""Errors of predicted remaining steps on recorded trainings, after 25, 50 and 75% of each. Prints JSON.

    python bench/loss_curves.py [--data ../shared/data]

nanogpt 30 runs, validation loss by step; their learning rates decay to 0 at the end (convergence/nanogpt_val_loss.csv.gz)
mlperf 20 runs of 7 benchmarks, 1 - the logged quality (rnnt: the error rate) by seconds (convergence/mlperf_v1.0_eval.csv.gz)

The loss to reach is that of the run's last point. Runs with fewer than five points so far are left out. Errors are
|predicted length of the run / true length - 1|, medians over the runs; `law` and `decaying` are `Remaining.steps` and `.decaying`,
`never` the share of runs whose law does not reach the loss. `covered` is the share of runs whose true length is inside the
interval, `shorter` and `longer` the shares beyond its ends. `width` is the median of high / low where both are finite,
`unbounded` the share without. A
job that claims its total steps has the error of its claim; those of nanogpt are fixed in advance, so it is 0.

`decay` is what a decaying learning rate does to the laws fitted at half of the nanogpt runs: the law's loss at the last step
less the measured one, and in parts of what the loss still falls; and the law's length of the run over the true one.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import platform
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.scheduler.estimates.loss_curve import LEAST_POINTS, LossCurve, Remaining, fit
from tiresias.scheduler.estimates.loss_history import LossHistory
from tiresias.scheduler.model import Floats

DATA = Path(__file__).parents[2] / "shared" / "data"
PARTS = (0.25, 0.5, 0.75)


def nanogpt(folder: Path) -> dict[str, Floats]:
    """Return rows (step, loss) of each run."""
    return _curves(folder / "nanogpt_val_loss.csv.gz", lambda row: (float(row["step"]), float(row["val_loss"])))


def mlperf(folder: Path) -> dict[str, Floats]:
    """Return rows (second, loss) of each run."""
    with (folder / "mlperf_v1.0_runs.csv").open() as text:
        falls = {row["run"] for row in csv.DictReader(text) if row["benchmark"] == "rnnt"}

    def point(row: dict[str, str]) -> tuple[float, float]:
        value = float(row["value"])
        return float(row["time_s"]), value if row["run"] in falls else 1.0 - value

    return _curves(folder / "mlperf_v1.0_eval.csv.gz", point)


def _curves(file: Path, point: Any) -> dict[str, Floats]:
    found = defaultdict(list)
    with gzip.open(file, "rt") as text:
        for row in csv.DictReader(text):
            found[row["run"]].append(point(row))
    return {run: np.array(rows) for run, rows in found.items()}


def known(run: Floats, part: float) -> LossCurve | None:
    """Return what is known of a run after a part of it."""
    history = LossHistory()
    for step, loss in run[run[:, 0] <= part * run[-1, 0]].tolist():
        history.add(step, loss)
    return fit(history.points())


def at(runs: dict[str, Floats], part: float) -> dict[str, Any]:
    """Return the errors of all runs after a part of each."""
    rows = [_row(curve, run) for run in runs.values() if (curve := known(run, part)) is not None]
    ends, left = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    total = np.array([row[2] for row in rows])
    bounded = np.isfinite(ends[:, 3]) & (ends[:, 2] > 0)
    return {
        "runs": len(rows),
        "law": _median(np.abs(ends[:, 0] - left) / total),
        "decaying": _median(np.abs(ends[:, 1] - left) / total),
        "never": _share(~np.isfinite(ends[:, 0])),
        "covered": _share((ends[:, 2] <= left) & (left <= ends[:, 3])),
        "shorter": _share(left < ends[:, 2]),
        "longer": _share(left > ends[:, 3]),
        "width": _median(ends[bounded, 3] / ends[bounded, 2]),
        "unbounded": _share(~bounded),
    }


def _row(curve: LossCurve, run: Floats) -> tuple[Remaining, float, float]:
    last, loss = run[-1].tolist()
    return curve.steps_to(loss), last - curve.newest, last


def decay(runs: dict[str, Floats]) -> dict[str, float | None]:
    """Return by how much the laws at half of the runs are wrong at the end."""
    rows = []
    for run in runs.values():
        if (curve := known(run, 0.5)) is not None:
            last, loss = run[-1].tolist()
            above, falls = float(curve.loss(last)) - loss, float(curve.loss(curve.newest)) - loss
            rows.append((above, above / falls, (curve.newest + curve.steps_to(loss).steps) / last))
    above, part, length = np.array(rows).T
    return {"loss_above": _median(above), "part_of_the_fall": _median(part), "length": _median(length)}


def _median(values: Floats) -> float | None:
    """Return the median; None where it is infinite, or there is none."""
    middle = float(np.median(values)) if len(values) else math.inf
    return round(middle, 3) if math.isfinite(middle) else None


def _share(which: Any) -> float:
    return round(float(np.mean(which)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    folder = parser.parse_args().data / "convergence"
    if not folder.exists():
        raise SystemExit(f"{folder} does not exist: give the folder of the data by --data")
    sources = {"nanogpt": nanogpt(folder), "mlperf": mlperf(folder)}
    report: dict[str, Any] = {"machine": platform.machine(), "least_points": LEAST_POINTS}
    for name, runs in sources.items():
        report[name] = {f"{part:.0%}": at(runs, part) for part in PARTS}
    report["decay"] = decay(sources["nanogpt"])
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
