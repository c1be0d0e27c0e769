"""The sensitivity of a policy to its parameters: the paper's Figures 14 and 15 (section 5.4) on any trace.

Settings are written as there: (2, 1h) is two queues with a threshold of 1 hour of GPU service.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tiresias.scheduler.config import PolicyConfig
from tiresias.simulator.experiments.experiment import Setup, run_experiments
from tiresias.simulator.outcome_metrics import Summary

POLICIES = ("las", "gittins_known")
HOUR = 3600.0

# Multiples of the unit, which is 1 hour in the paper.
THRESHOLDS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
QUEUES = ((1.0,), (1.0, 2.0), (1.0, 2.0, 4.0))
PROMOTE_KNOBS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, math.inf)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Results over a range of one parameter.

    Attributes:
        knob: One of KNOBS.
        settings: The configurations by label.
        summaries: The metrics by policy and label.
    """

    knob: str
    settings: Mapping[str, PolicyConfig]
    summaries: Mapping[str, Mapping[str, Summary]]


def _thresholds(config: PolicyConfig, unit: float) -> list[PolicyConfig]:
    return [replace(config, thresholds=(unit * times,)) for times in THRESHOLDS]


def _queues(config: PolicyConfig, unit: float) -> list[PolicyConfig]:
    return [replace(config, thresholds=tuple(unit * each for each in times)) for times in QUEUES]


def _promote_knobs(config: PolicyConfig, unit: float) -> list[PolicyConfig]:
    return [replace(config, thresholds=(unit,), promote_knob=knob) for knob in PROMOTE_KNOBS]


KNOBS: Mapping[str, Callable[[PolicyConfig, float], list[PolicyConfig]]] = {
    "threshold": _thresholds,
    "queues": _queues,
    "promote-knob": _promote_knobs,
}


def measure(
    setup: Setup, knob: str, policies: tuple[str, ...] = POLICIES, thresholds: tuple[float, ...] | None = None
) -> Sensitivity:
    """Simulate policies over a range of one parameter.

    Args:
        setup: The trace and the cluster.
        knob: One of KNOBS.
        policies: The policies.
        thresholds: The first one is the unit of the settings, GPU-seconds; None: 1 hour.
    """
    configs = KNOBS[knob](setup.config, thresholds[0] if thresholds else HOUR)
    settings = {_label(knob, config): config for config in configs}
    experiments = {
        f"{policy} {label}": setup.experiment(policy, config)
        for policy in policies
        for label, config in settings.items()
    }
    runs = run_experiments(experiments, lambda experiment, run: run.summary)
    summaries = {policy: {label: runs[f"{policy} {label}"] for label in settings} for policy in policies}
    return Sensitivity(knob, settings, summaries)


def _label(knob: str, config: PolicyConfig) -> str:
    if knob == "promote-knob":
        return f"{config.promote_knob:g}"
    return f"({', '.join((str(len(config.thresholds) + 1), *map(_service, config.thresholds)))})"


def _service(seconds: float) -> str:
    return f"{seconds:g}s" if seconds % (HOUR / 2) else f"{seconds / HOUR:g}h"
