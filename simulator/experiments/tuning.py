"""The best settings for a site's own jobs, found walk-forward: the setting tried on a week was chosen by the weeks before it.

A recipe makes a policy's configuration of the jobs seen so far; its thresholds are quantiles of their services, rounded to one
digit. At the end of each week every recipe is replayed on all jobs until then. The next week gets the recipe that was best on
all weeks so far and never much worse than the present setting; if there is none, the present setting stays. Therefore a site
would have had the reported gain, and its range over the weeks shows its uncertainty.

O(weeks x recipes) replays of up to the whole history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tiresias.errors import UsageError
from tiresias.scheduler.config import PAPER_THRESHOLD, PolicyConfig
from tiresias.scheduler.model import Floats, Ints
from tiresias.simulator.experiments.experiment import Experiment, Run, Setup, run_experiments

WEEK = 7 * 86400.0
MOST_WORSE = 1.005  # times the present mean JCT, in any week before
FEWEST = 20  # jobs of a week that is evaluated

Recipe = Callable[[PolicyConfig, Floats], PolicyConfig]  # the present configuration, the services (GPU-seconds) so far


@dataclass(frozen=True, slots=True)
class Week:
    """The results of one week.

    Attributes:
        number: Number of the week, from 0.
        jobs: Number of jobs submitted in it.
        seconds: Sum of the JCT of its jobs under the present setting.
        chosen: The recipe that was best on the weeks before.
        ratios: For each recipe, mean JCT over that of the present setting.
    """

    number: int
    jobs: int
    seconds: float
    chosen: str
    ratios: Mapping[str, float]

    @property
    def ratio(self) -> float:
        """Mean JCT under the chosen recipe over that under the present setting."""
        return self.ratios[self.chosen]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of a tuning.

    Attributes:
        weeks: The weeks on which recipes were tried.
        recipe: The recipe chosen by all weeks.
        proposal: The configuration that it makes of the whole history.
    """

    weeks: tuple[Week, ...]
    recipe: str
    proposal: PolicyConfig

    @property
    def gain(self) -> float:
        """Mean JCT of all jobs of these weeks over that under the present setting."""
        return sum(week.seconds * week.ratio for week in self.weeks) / sum(week.seconds for week in self.weeks)

    @property
    def spread(self) -> tuple[float, float]:
        """The ratios of the best and of the worst week."""
        ratios = [week.ratio for week in self.weeks]
        return min(ratios), max(ratios)


def _queues(name: str, *quantiles: float) -> Recipe:
    def made(present: PolicyConfig, services: Floats) -> PolicyConfig:
        found = sorted(
            {float(f"{service:.1g}") for service in np.quantile(services, quantiles).tolist() if service > 0}
        )
        return replace(present, name=name, thresholds=tuple(found) or present.thresholds)

    return made


PRESENT = "present"
RECIPES: Mapping[str, Recipe] = {
    PRESENT: lambda present, services: present,
    "las, half": _queues("las", 0.5),
    "las, four fifths": _queues("las", 0.8),
    "las, nine tenths": _queues("las", 0.9),
    "las, half and nine tenths": _queues("las", 0.5, 0.9),
    "las, four fifths and 95%": _queues("las", 0.8, 0.95),
    "gittins, four fifths": _queues("gittins", 0.8),
    "adaptive": lambda present, services: replace(present, name="adaptive"),
}


def present(cluster: str = "production") -> PolicyConfig:
    """Return the paper's setting (section 5.3)."""
    return replace(PolicyConfig.paper(cluster=cluster), thresholds=(PAPER_THRESHOLD[cluster],))


def tune(setup: Setup) -> Tuned:
    """Find the best recipe; `setup.config` is the present setting.

    Raises:
        UsageError: The history is shorter than three weeks.
    """
    week = ((setup.trace.submit - setup.trace.submit[0]) // WEEK).astype(np.int64)
    tried = [number for number in range(1, int(week[-1]) + 1) if np.count_nonzero(week == number) >= FEWEST]
    if len(tried) < 2:
        raise UsageError(
            f"{setup.name}: three weeks with {FEWEST} jobs and more are needed to choose by the past; give a longer history"
        )
    configs = {(number, name): _config(setup, name, week < number) for number in tried for name in RECIPES}
    experiments = {
        f"week {number + 1}, {name}": _until(setup, week, number, configs[number, name]) for number, name in configs
    }
    jct = dict(
        zip(configs, run_experiments(experiments, lambda experiment, run: _by_week(run, week)).values(), strict=True)
    )
    ratios = {number: np.array([jct[number, name] / jct[number, PRESENT] for name in RECIPES]) for number in tried}
    jobs, weeks = np.bincount(week), []
    for row, number in enumerate(tried):
        chosen = _best(ratios[tried[row - 1]][:, tried[:row]]) if row else PRESENT
        weeks.append(
            Week(
                number,
                int(jobs[number]),
                float(jobs[number] * jct[number, PRESENT][number]),
                chosen,
                dict(zip(RECIPES, ratios[number][:, number].tolist(), strict=True)),
            )
        )
    recipe = _best(ratios[tried[-1]][:, tried])
    return Tuned(tuple(weeks), recipe, _config(setup, recipe, np.ones(len(week), bool)))


def _until(setup: Setup, week: Ints, number: int, config: PolicyConfig) -> Experiment:
    """On what had been submitted by the end of that week."""
    return replace(setup, trace=setup.trace.first(int(np.searchsorted(week, number, "right")))).experiment(
        config.name, config
    )


def _by_week(run: Run, week: Ints) -> Floats:
    """Mean JCT of the jobs submitted in each; nan where there are none."""
    seen = week[: len(run.outcome.jct)]
    with np.errstate(invalid="ignore"):
        return np.bincount(seen, run.outcome.jct) / np.bincount(seen)


def _config(setup: Setup, recipe: str, past: np.ndarray) -> PolicyConfig:
    return RECIPES[recipe](setup.config, (setup.trace.gpus * setup.trace.duration)[past])


def _best(before: Floats) -> str:
    """before: ratios to the present setting, shape (recipes, weeks)."""
    means = np.where(before.max(axis=1) <= MOST_WORSE, before.mean(axis=1), np.inf)
    return list(RECIPES)[int(np.argmin(means))]
