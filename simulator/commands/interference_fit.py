"""Fit the models of interference to samples, and compare them by their errors at samples that are left out.

FILE is a table with the columns seconds, seconds_alone, cpu, cpu_same_socket and, where they were measured, cpu_other_sockets,
memory, memory_others, pcie, pcie_others, network, network_others: the time of a step beside other jobs and alone, and what the job
(alone) and the others use of its socket's processors, memory bandwidth and PCIe link and of its network link, each as a part of the
capacity. CSV, gzip or not.

A model is chosen where it is surely better than none, by the errors of five folds.

examples:
  tiresias interference fit samples.csv
  tiresias interference fit samples.csv --json fitted.json
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

from tiresias.scheduler.estimates.interference import FORMS, InterferenceModel, best_model, fit, held_out_errors
from tiresias.scheduler.model import Floats
from tiresias.simulator.interference.interference_samples import InterferenceSamples, read_samples
from tiresias.simulator.views import output
from tiresias.simulator.views.simulate import as_text, filled_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="the samples, .csv or .csv.gz")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the models and their errors")


def run(args: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    output.check([args.json] if args.json else [])
    samples = read_samples(args.file)
    errors = {form.name: held_out_errors(form, *samples) for form in FORMS}
    models = {form.name: fit(form, *samples) for form in FORMS}
    chosen = best_model(*samples).form.name
    if args.json:
        output.write({args.json: as_text(_as_json(samples, errors, models, chosen))})
    console = Console(highlight=False, markup=False)
    title = f"{len(samples.slowdown):,} samples: relative error of slowdowns that are left out"
    rows = ((name, _cells(errors[name], models[name])) for name in errors)
    console.print(filled_table(title, ("mean", "p90", "b", "coefficients"), rows))
    console.print(f"chosen: {chosen}")
    return 0


def _cells(errors: Floats, model: InterferenceModel) -> tuple[str, ...]:
    coefficients = ", ".join(f"{label} {each:.3g}" for label, each in _coefficients(model).items() if each) or "-"
    exponent = f"{model.exponent:.3g}" if model.form.has_exponent else "-"
    return f"{errors.mean():.1%}", f"{np.quantile(errors, 0.9):.1%}", exponent, coefficients


def _coefficients(model: InterferenceModel) -> dict[str, float]:
    return dict(zip(model.form.labels, model.coefficients.tolist(), strict=True))


def _as_json(
    samples: InterferenceSamples, errors: Mapping[str, Floats], models: Mapping[str, InterferenceModel], chosen: str
) -> dict[str, object]:
    return {
        "samples": len(samples.slowdown),
        "chosen": chosen,
        "forms": {
            name: {
                "error": round(float(errors[name].mean()), 6),
                "exponent": model.exponent,
                "coefficients": _coefficients(model),
            }
            for name, model in models.items()
        },
    }
