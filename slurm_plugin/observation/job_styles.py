"""The placement style of each job, from its profile and the style of the configuration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tiresias.protocol.profile_summary import Summary
from tiresias.scheduler.model import Floats, Ints, Style
from tiresias.scheduler.place.placements import style_code
from tiresias.scheduler.place.speed_needs import LOCALITY_PENALTY, NEVER_APART
from tiresias.slurm_plugin.config.sections import Placement
from tiresias.slurm_plugin.observation.job_facts import NO_KIND
from tiresias.slurm_plugin.observation.learned_limit import LearnedLimit

FASTEST_NODES = "fastest_nodes"


class JobStyles:
    """The styles of jobs under one configuration.

    Args:
        config: The configuration of the placement.
        packlimit: Decides on the jobs with a profile.
    """

    def __init__(self, config: Placement, packlimit: LearnedLimit) -> None:
        self._config, self._packlimit = config, packlimit

    def of(
        self, row_of: Mapping[str, int], kinds: Sequence[tuple[int, str]], profiles: Mapping[str, Summary],
        tried: Collection[tuple[int, str]],
    ) -> Ints:  # fmt: skip
        """Return the style of each job, shape (jobs,); the first job of an unknown kind runs its trial.

        Args:
            row_of: The row of each job.
            kinds: uid and kind of each job.
            profiles: What is known of jobs' traffic, by job id.
            tried: The kinds of all jobs that ever ran.
        """
        if self._config.style != "skew":
            return np.full(len(kinds), style_code(self._config.style), dtype=np.int64)
        unknown = Style[self._config.unknown.upper()]
        found = np.full(len(kinds), unknown, dtype=np.int64)
        if self._config.trial == "two_nodes":
            found[_trials(kinds, tried)] = Style.APART
        for job_id, profile in profiles.items():
            if job_id in row_of:
                found[row_of[job_id]] = self._style(profile, unknown)
        return found

    def packed_until(self, row_of: Mapping[str, int], waits_since: Floats, profiles: Mapping[str, Summary]) -> Floats:
        """Return until when each job waits for the fewest nodes, if it is known to be slow on many; shape (jobs,)."""
        found = np.full(len(waits_since), -np.inf)
        for job_id, profile in profiles.items() if self._config.style == "skew" else ():
            if job_id in row_of and self._packlimit.consolidates(profile):
                row = row_of[job_id]
                found[row] = waits_since[row] + self._config.patience
        return found

    def locality_penalty(self, row_of: Mapping[str, int], profiles: Mapping[str, Summary]) -> Floats | None:
        """Return `Jobs.locality_penalty`, by what is known of the traffic; None: the style does not use it."""
        if self._config.style != FASTEST_NODES:
            return None
        found = np.full(len(row_of), LOCALITY_PENALTY)
        for job_id, profile in profiles.items():
            suffers = self._packlimit.consolidates(profile)
            if job_id in row_of and suffers is not None:
                found[row_of[job_id]] = NEVER_APART if suffers else 1.0
        return found

    def _style(self, profile: Summary, unknown: Style) -> Style:
        suffers = self._packlimit.consolidates(profile)
        if suffers is None:
            return unknown
        return Style.CONSOLIDATE if suffers else Style.SPREAD


def _trials(kinds: Sequence[tuple[int, str]], tried: Collection[tuple[int, str]]) -> list[int]:
    """Return the rows of the first jobs of kinds of which none ever ran."""
    first: dict[tuple[int, str], int] = {}
    for row, kind in enumerate(kinds):
        if kind is not NO_KIND and kind not in tried:
            first.setdefault(kind, row)
    return list(first.values())
