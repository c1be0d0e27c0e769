"""Relative errors of predicted speeds, from a few random measured sizes, on measurements of others. Prints JSON.

    python bench/speed_models.py [--data ../shared/data] [--points 10] [--draws 60] [--left-out | --asynchronous]

dl2        step speeds of 4 models with parameter servers: optimus/dl2_measured_speeds.csv.gz
adaptdl    step times of 6 models with all-reduce, by nodes, GPUs and batch: optimus/adaptdl_aws_steps.csv.gz

Each draw takes so many random points of a model; every method learns from the same ones, and predicts the others (at most 500).
`error` is the mean of |predicted / measured speed - 1| over them and all draws. Methods: `model` is `speed_model.fit`; `equation_4`
the paper's terms and plain NNLS of relative errors; `linear` least squares of the speed; `knn` the geometric mean of the nearest
points, of 1, 2 or 3, whichever is best for the model. `within_90` is the share of measured speeds inside the model's interval.
`wins` is the share of draws in which the model has a smaller error than the better one of linear and knn in that draw.
`--left-out` prints, in place of all else, the errors of the all-reduce form with its expected parts of a step (chosen), with those
that the other models of the data have in the mean, so that none has the model under test (others), and with equal ones (equal).
`--asynchronous` prints, in place of all else, how often `server_model` chooses the asynchronous form where the owner states
nothing, from points of dl2 (all synchronous) and of equation 3 with 3% of noise, and the errors of both forms and the chosen one.
`same_kind` learns from 3 points at 0.6 of the speed, with and without a prior from 10 other points at full speed.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import platform
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tiresias.scheduler.estimates.nonnegative import nonnegative_least_squares
from tiresias.scheduler.estimates.server_speeds import server_model
from tiresias.scheduler.estimates.speed_forms import ALL_REDUCE, ASYNCHRONOUS, EQUATION_4, SYNCHRONOUS, SpeedForm
from tiresias.scheduler.estimates.speed_model import POINTS_KEPT, fit
from tiresias.scheduler.model import Floats

DATA = Path(__file__).parents[2] / "shared" / "data"
MOST_TESTED = 500
LEAST_PART = 0.01
EQUAL = replace(ALL_REDUCE, expected=(0.2,) * len(ALL_REDUCE.expected))
UNBIASED = replace(EQUAL, spread=(3.0,) * len(ALL_REDUCE.spread))  # many points decide, not what is expected
Predictor = Callable[[Floats, Floats], Floats]


def dl2(folder: Path) -> dict[str, Floats]:
    """Return rows (servers, workers, batch, steps a second) of each model."""
    found = defaultdict(list)
    for row in _rows(folder / "dl2_measured_speeds.csv.gz"):
        batch = float(row["total_batch"])
        found[row["model"]].append((int(row["ps"]), int(row["workers"]), batch, float(row["sum_speed"]) / batch))
    return {model: np.array([row for row in rows if row[3] > 0]) for model, rows in found.items()}


def adaptdl(folder: Path) -> dict[str, Floats]:
    """Return rows (nodes, gpus, batch of a GPU, steps a second) of each model."""
    found = defaultdict(list)
    for row in _rows(folder / "adaptdl_aws_steps.csv.gz"):
        size = (int(row["num_nodes"]), int(row["num_gpus"]), float(row["local_bsz"]))
        found[row["model"]].append((*size, 1.0 / float(row["step_time_s"])))
    return {model: np.array(rows) for model, rows in found.items()}


def _rows(file: Path) -> list[dict[str, str]]:
    with gzip.open(file, "rt") as text:
        return list(csv.DictReader(text))


def by_model(form: SpeedForm) -> Predictor:
    return lambda known, sizes: fit(known, form).speed(*sizes.T)


def equation_4(known: Floats, sizes: Floats) -> Floats:
    columns = EQUATION_4.matrix(known[:, :3]) * known[:, 3:]
    theta = nonnegative_least_squares(columns, np.ones(len(known)))
    return 1.0 / np.maximum(EQUATION_4.matrix(sizes) @ theta, 1e-9)


def linear(known: Floats, sizes: Floats) -> Floats:
    found = np.linalg.lstsq(_with_constant(known[:, :3]), known[:, 3], rcond=None)[0]
    return np.asarray(np.maximum(_with_constant(sizes) @ found, 0.0))


def _with_constant(sizes: Floats) -> Floats:
    return np.concatenate((np.ones((len(sizes), 1)), sizes), axis=1)


def nearest(neighbours: int) -> Predictor:
    def predict(known: Floats, sizes: Floats) -> Floats:
        place, scale = np.log(known[:, :3]).mean(0), np.log(known[:, :3]).std(0) + 1e-9
        at, of = (np.log(sizes) - place) / scale, (np.log(known[:, :3]) - place) / scale
        near = np.argsort(((at[:, None] - of[None]) ** 2).sum(-1), axis=1)[:, :neighbours]
        return np.asarray(np.exp(np.log(known[:, 3])[near].mean(1)))

    return predict


def draws_of(rows: Floats, points: int, draws: int) -> list[tuple[Floats, Floats]]:
    """Return the known and the other rows of each draw."""
    found = []
    for draw in range(draws):
        order = np.random.default_rng([draw, 7]).permutation(len(rows))
        found.append((rows[order[:points]], rows[order[points:][:MOST_TESTED]]))
    return found


def errors_of(predict: Predictor, draws: list[tuple[Floats, Floats]]) -> Floats:
    each = [np.abs(predict(known, other[:, :3]) / other[:, 3] - 1.0).mean() for known, other in draws]
    return np.array(each)


def compared(rows: Floats, form: SpeedForm, points: int, draws: int) -> dict[str, Any]:
    drawn = draws_of(rows, points, draws)
    model, line = errors_of(by_model(form), drawn), errors_of(linear, drawn)
    near = min((errors_of(nearest(count), drawn) for count in (1, 2, 3)), key=np.mean)
    error = {"model": model, "linear": line, "knn": near}
    if form is SYNCHRONOUS:
        error["equation_4"] = errors_of(equation_4, drawn)
    return {
        "rows": len(rows),
        "error": {name: round(float(each.mean()), 4) for name, each in error.items()},
        "wins": round(float((model < np.minimum(line, near)).mean()), 3),
        "within_90": round(float(np.mean([_within(form, *each) for each in drawn])), 3),
        "same_kind": _same_kind(drawn, form),
    }


def _within(form: SpeedForm, known: Floats, other: Floats) -> float:
    low, high = fit(known, form).interval(*other[:, :3].T)
    return float(((low <= other[:, 3]) & (other[:, 3] <= high)).mean())


def _same_kind(drawn: list[tuple[Floats, Floats]], form: SpeedForm) -> dict[str, float]:
    """Return the errors for a job of another speed with three measured points."""
    slower = np.array([1.0, 1.0, 1.0, 0.6])
    alone, helped = [], []
    for known, other in drawn:
        few, rest = other[:3] * slower, other[3:] * slower
        for errors, prior in ((alone, None), (helped, fit(known, form))):
            errors.append(np.abs(fit(few, form, prior=prior).speed(*rest[:, :3].T) / rest[:, 3] - 1.0).mean())
    return {"without_prior": round(float(np.mean(alone)), 4), "with_prior": round(float(np.mean(helped)), 4)}


def left_out(models: dict[str, Floats], points: int, draws: int) -> dict[str, Any]:
    """Return the errors of each model with expected parts that were learned without it."""
    parts = {model: _parts(rows) for model, rows in models.items()}
    found = {}
    for model, rows in models.items():
        others = np.mean([each for name, each in parts.items() if name != model], axis=0)
        forms = {
            "chosen": ALL_REDUCE,
            "others": replace(ALL_REDUCE, expected=tuple(np.maximum(others, LEAST_PART))),
            "equal": EQUAL,
        }
        drawn = draws_of(rows, points, draws)
        errors = {name: round(float(errors_of(by_model(form), drawn).mean()), 4) for name, form in forms.items()}
        found[model] = {"error": errors, "others": [round(float(each), 3) for each in others]}
    return {"models": found, "mean_error": _means(found)}


def _parts(rows: Floats) -> Floats:
    """Return each theta of a model that many points determine, as a part of a typical step."""
    known = rows[np.random.default_rng(5).permutation(len(rows))[:POINTS_KEPT]]
    model, sizes = fit(known, UNBIASED), known[:, :3]
    theta = np.einsum("f,fc->c", model.shares, np.array([each.theta for each in model.fits]))
    return theta * ALL_REDUCE.scales(sizes) * np.exp(np.log(known[:, 3]).mean())


def _means(models: dict[str, Any]) -> dict[str, float]:
    names = next(iter(models.values()))["error"]
    return {name: round(float(np.mean([each["error"][name] for each in models.values()])), 4) for name in names}


def asynchronous(models: dict[str, Floats], points: int, draws: int) -> dict[str, Any]:
    """Return how often the asynchronous form is chosen, and the errors. models: rows of each."""
    found = {}
    for model, rows in models.items():
        drawn = draws_of(rows, points, draws)
        chosen = [server_model([*map(tuple, known.tolist())], []).form is ASYNCHRONOUS for known, _ in drawn]
        forms = {"synchronous": by_model(SYNCHRONOUS), "asynchronous": by_model(ASYNCHRONOUS), "chosen": _chosen}
        errors = {name: round(float(errors_of(each, drawn).mean()), 4) for name, each in forms.items()}
        found[model] = {"asynchronous": round(float(np.mean(chosen)), 3), "error": errors}
    return {"models": found}


def _chosen(known: Floats, sizes: Floats) -> Floats:
    return server_model([*map(tuple, known.tolist())], []).speed(*sizes.T)


def equation_3() -> Floats:
    """Return rows as of `dl2`, of asynchronous training."""
    servers, workers = (each.ravel() for each in np.meshgrid(np.arange(1, 9), np.arange(1, 17)))
    seconds = 0.5 + 0.05 * workers / servers + 0.002 * workers + 0.004 * servers
    noise = np.exp(0.03 * np.random.default_rng(3).normal(size=len(workers)))
    return np.stack([servers, workers, np.ones(len(workers)), workers / seconds * noise], axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    for name, default in (("points", 10), ("draws", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--left-out", action="store_true")
    parser.add_argument("--asynchronous", action="store_true")
    options = parser.parse_args()
    folder = options.data / "optimus"
    if not folder.exists():
        raise SystemExit(f"{folder} does not exist: give the folder of the data by --data")
    report: dict[str, Any] = {"machine": platform.machine(), "points": options.points, "draws": options.draws}
    if options.left_out:
        print(json.dumps(report | left_out(adaptdl(folder), options.points, options.draws), indent=1))
        return
    if options.asynchronous:
        models = dl2(folder) | {"equation 3": equation_3()}
        print(json.dumps(report | asynchronous(models, options.points, options.draws), indent=1))
        return
    for name, data, form in (("dl2", dl2, SYNCHRONOUS), ("adaptdl", adaptdl, ALL_REDUCE)):
        models = {m: compared(rows, form, options.points, options.draws) for m, rows in data(folder).items()}
        report[name] = {"models": models, "mean_error": _means(models)}
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
