"""Errors of the predicted ends of jobs after 25, 50 and 75% of each, and the coverage of their 90% intervals. Prints JSON.

    python bench/predicted_ends.py [--data ../shared/data] [--journal JOURNAL.sqlite[,...]]

nanogpt, mlperf  recorded runs of DATA/convergence: the end is where they first reach their last loss, predicted from the losses so
                 far and the seconds a step (mlperf has times alone); claim: by the stated number of steps, as programs report it
adaptdl_curves   recorded curves of DATA/optimus/adaptdl_validation: 1 - the logged quality by steps; the end as above
dl2, adaptdl     measured speeds of DATA/optimus: a job was timed at 3, 5 and 8 random sizes after 25, 50 and 75% of it, and
                 trains the rest at another random size; 200 draws of each model
journal          jobs that a controller has in its journal and that ended. claim: those that reached the steps that they claimed,
                 by the timed seconds a step of the run at that moment, as they were at its end. curve: those that state when they
                 have converged, by the losses that the journal keeps, in steps. resize: seconds a step that were expected of
                 another size, over those that were timed there

`error` is |predicted - true end| in parts of the whole job, the median; `bias` the same with its sign, above 0: too late.
`covered` is the share of jobs whose end is inside the interval, nominally 0.9; `earlier` and `later` are the shares beyond its
ends; `unbounded` is the share of intervals without an upper end. What is absent is in `skipped`, with the reason.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from loss_curves import known, mlperf, nanogpt
from speed_models import adaptdl, dl2

from tiresias.protocol import convergence
from tiresias.scheduler.estimates import loss_curve
from tiresias.scheduler.estimates.loss_curve import LossCurve, Remaining
from tiresias.scheduler.estimates.loss_history import LossPoints
from tiresias.scheduler.estimates.predicted_end import PredictedEnd
from tiresias.scheduler.estimates.size_estimate import StepsLeft
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, SYNCHRONOUS, SpeedForm
from tiresias.scheduler.estimates.speed_model import fit
from tiresias.scheduler.estimates.step_times import UNKNOWN_SPREAD, StepPace, StepTimes
from tiresias.scheduler.model import Floats

DATA = Path(__file__).parents[2] / "shared" / "data"
PARTS = {0.25: 3, 0.5: 5, 0.75: 8}  # of a run, and the sizes at which it was timed then
DRAWS = 200
TIMED_S = 10.0
EXACT = StepPace(1.0, 0.0, math.nan)  # where the clock itself is the step
JOBS = "select key, progress, total_steps, converges from job where ended = 1 and progress > 0"
RUNS = "select start, end, coalesce(restore, 0), timed from run where key = ? and end > 0 order by restart"
RESIZED = "select expected / timed from run where expected > 0 and timed > 0"


class Outcome(NamedTuple):
    """A predicted end, the true one, and the length of the whole job, in one unit."""

    predicted: PredictedEnd
    true: float
    whole: float


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return the errors and the coverage."""
    at, low, high = np.array([each.predicted for each in outcomes]).reshape(-1, 3).T
    true, whole = (np.array([getattr(each, name) for each in outcomes]) for name in ("true", "whole"))
    slack = 1e-9 * whole
    return {
        "jobs": len(outcomes),
        "error": _median(np.abs(at - true) / whole),
        "bias": _median((at - true) / whole),
        "covered": _share((low <= true + slack) & (true - slack <= high)),
        "earlier": _share(true < low - slack),
        "later": _share(true > high + slack),
        "unbounded": _share(~np.isfinite(high)),
    }


def _median(values: Floats) -> float | None:
    middle = float(np.median(values)) if len(values) else math.inf
    return round(middle, 3) if math.isfinite(middle) else None


def _share(which: Any) -> float | None:
    return round(float(np.mean(which)), 3) if len(which) else None


def by_parts(predicted: Callable[[float], Iterator[Outcome]]) -> dict[str, Any]:
    """Return the summary after each part. predicted: yields the outcomes after a part."""
    return {f"{part:.0%}": summary(list(predicted(part))) for part in PARTS}


def until_reached(runs: dict[str, Floats]) -> dict[str, Floats]:
    """Return the rows (moment, loss) of each run up to the first one with the loss of the last row, as of a job that states it."""
    return {name: run[: int((run[:, 1] <= run[-1, 1]).argmax()) + 1] for name, run in runs.items()}


def curves(runs: dict[str, Floats]) -> dict[str, Any]:
    """Return how well the ends of recorded curves, rows (moment, loss), are predicted. Moments stand for steps."""

    def predicted(part: float) -> Iterator[Outcome]:
        for run in until_reached(runs).values():
            if (curve := known(run, part)) is not None:
                last, loss = run[-1].tolist()
                left = StepsLeft.by_curve(curve.steps_to(loss), 0.0)
                yield Outcome(PredictedEnd.after(curve.newest, left, EXACT), last, last)

    return by_parts(predicted)


def timed_curves(file: Path, runs: dict[str, Floats]) -> dict[str, Any]:
    """Return the same for runs whose rows of the file have a time, in seconds, also by the stated number of steps."""
    clock = defaultdict(list)
    with gzip.open(file, "rt") as text:
        for row in csv.DictReader(text):
            clock[row["run"]].append((float(row["train_time_s"]), int(row["step"])))

    def predicted(part: float, claims: bool) -> Iterator[Outcome]:
        for name, run in until_reached(runs).items():
            times, curve = StepTimes(TIMED_S), known(run, part)
            seen = [each for each in clock[name] if each[1] <= part * run[-1, 0]]
            for moment, step in seen:
                times.add(moment, step, -1)
            pace, last = times.pace(), next(at for at, step in clock[name] if step == run[-1, 0])
            if pace is None or not (claims or curve):
                continue
            left = StepsLeft(*3 * (run[-1, 0] - seen[-1][1],)) if claims else _left(curve, run)
            yield Outcome(PredictedEnd.after(seen[-1][0], left, pace), last, last)

    return {
        "curve": by_parts(lambda part: predicted(part, False)),
        "claim": by_parts(lambda part: predicted(part, True)),
    }


def _left(curve: LossCurve | None, run: Floats) -> StepsLeft:
    assert curve
    return StepsLeft.by_curve(curve.steps_to(float(run[-1, 1])), 0.0)


def adaptdl_curves(file: Path) -> dict[str, Floats]:
    """Return rows (step, 1 - quality) of each run; the quality of a model whose values fall is their negative."""
    found = defaultdict(list)
    with gzip.open(file, "rt") as text:
        for row in csv.DictReader(text):
            found[f"{row['model']} {row['batch_size']}"].append((float(row["iteration"]), float(row["metric"])))
    return {name: _as_loss(np.array(rows)) for name, rows in found.items() if len(rows) > 1}


def _as_loss(run: Floats) -> Floats:
    quality = run[:, 1] / (100.0 if run[:, 1].max() > 1.0 else 1.0)
    falls = quality[-1] < quality[0]
    return np.column_stack([run[:, 0], quality if falls else np.maximum(1.0 - quality, 0.0)])


def sizes(models: dict[str, Floats], form: SpeedForm) -> dict[str, Any]:
    """Return how well the end at a size is predicted that was not measured yet, from rows (a, b, batch, steps a second)."""

    def predicted(part: float) -> Iterator[Outcome]:
        for name, rows in sorted(models.items()):
            chance = np.random.default_rng(len(name))
            for _ in range(DRAWS):
                *taken, next_one = chance.permutation(len(rows))[: PARTS[part] + 1].tolist()
                a, b, batch, speed = rows[next_one].tolist()
                model = fit(rows[taken], form)
                slow, fast = model.interval(a, b, batch)
                steps = (1.0 - part) * speed  # so that the rest takes 1 - part seconds
                ends = [part + steps / float(each) for each in (model.speed(a, b, batch), fast, slow)]
                yield Outcome(PredictedEnd(*ends), 1.0, 1.0)

    return by_parts(predicted)


def journal(file: Path) -> dict[str, Any]:
    """Return how well the ends of the jobs of a journal were predicted."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as db:
        jobs = db.execute(JOBS).fetchall()
        runs = {key: db.execute(RUNS, (key,)).fetchall() for key, *_ in jobs}
        losses = {
            key: db.execute("select step, loss from loss where key = ? order by step", (key,)).fetchall()
            for key, *_ in jobs
        }
        ratios = np.array(db.execute(RESIZED).fetchall(), np.float64).ravel()
    claims = [(runs[key], steps, total) for key, steps, total, _ in jobs if total and steps >= total - 1]
    stated = [(np.array(losses[key]), until) for key, *_, text in jobs if (until := convergence.of_text(text or ""))]
    return {
        "claim": by_parts(lambda part: _claimed(claims, part)),
        "curve": by_parts(lambda part: _converging(stated, part)),
        "resize": {"runs": len(ratios), "error": _median(np.abs(ratios - 1.0)), "bias": _median(ratios - 1.0)},
    }


def _claimed(jobs: list[tuple[Any, float, float]], part: float) -> Iterator[Outcome]:
    """Yield the ends by the claimed steps, in seconds of work: without waits, starts and restores."""
    for runs, steps, total in jobs:
        work = np.array([max(end - start - restore, 0.0) for start, end, restore, _ in runs])
        timed = [run[3] for run in runs]
        if None in timed or not work.sum():
            continue
        made = np.cumsum(work / np.array(timed))
        at = int(np.searchsorted(made, part * made[-1]))
        into = (part * made[-1] - (made[at - 1] if at else 0.0)) * timed[at]
        left = StepsLeft(*3 * (max(total - part * steps, 0.0),))
        now, whole = float(work[:at].sum() + into), float(work.sum())
        yield Outcome(PredictedEnd.after(now, left, StepPace(timed[at], UNKNOWN_SPREAD, math.nan)), whole, whole)


def _converging(jobs: list[tuple[Floats, Any]], part: float) -> Iterator[Outcome]:
    """Yield the ends by the losses, in steps."""
    for points, until in jobs:
        seen = points[points[:, 0] <= part * points[-1, 0]] if len(points) else points
        curve = loss_curve.fit(LossPoints(*seen.T)) if len(seen) else None
        if curve is not None:
            last = float(points[-1, 0])
            left = StepsLeft.by_curve(_until(curve, until), 0.0)
            yield Outcome(PredictedEnd.after(curve.newest, left, EXACT), last, last)


def _until(curve: LossCurve, until: Any) -> Remaining:
    if until.loss is not None:
        return curve.steps_to(until.loss)
    return curve.steps_to_convergence(until.threshold, until.epoch_steps, until.epochs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--journal", type=lambda text: [Path(each) for each in text.split(",")], default=[])
    options = parser.parse_args()
    losses, speeds = options.data / "convergence", options.data / "optimus"
    sources: dict[str, tuple[Path, Callable[[], Any]]] = {
        "nanogpt": (
            losses / "nanogpt_val_loss.csv.gz",
            lambda: timed_curves(losses / "nanogpt_val_loss.csv.gz", nanogpt(losses)),
        ),
        "mlperf": (losses / "mlperf_v1.0_eval.csv.gz", lambda: curves(mlperf(losses))),
        "adaptdl_curves": (
            speeds / "adaptdl_validation.csv.gz",
            lambda: curves(adaptdl_curves(speeds / "adaptdl_validation.csv.gz")),
        ),
        "dl2": (speeds / "dl2_measured_speeds.csv.gz", lambda: sizes(dl2(speeds), SYNCHRONOUS)),
        "adaptdl": (speeds / "adaptdl_aws_steps.csv.gz", lambda: sizes(adaptdl(speeds), ALL_REDUCE)),
        **{f"journal {file}": (file, lambda file=file: journal(file)) for file in options.journal},
    }
    report: dict[str, Any] = {name: made() for name, (file, made) in sources.items() if file.exists()}
    report["skipped"] = {name: f"{file} does not exist" for name, (file, _) in sources.items() if not file.exists()}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
