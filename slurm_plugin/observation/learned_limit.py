"""PACKLIMIT learned from the site's history: the speed of jobs on few and on many nodes, and their traffic (section 3.3.2).

The journal has each run's nodes and seconds per step, the users' profiles have their jobs' traffic. A job kind with runs on
different numbers of nodes is an observation; scheduler/place/packlimit_classifier.py learns from them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tiresias.protocol import control
from tiresias.protocol.job_kind import Key
from tiresias.protocol.profile_summary import Summary, from_object
from tiresias.scheduler.place.packlimit_classifier import LEAST, learn
from tiresias.slurm_plugin.state.ledger import Ledger

REFIT = 3600.0  # seconds
ENOUGH = 2 * LEAST
Kind = tuple[int, str]  # uid, file of the profile


class KindSlowdown(NamedTuple):
    """One job kind with runs on different numbers of nodes.

    Attributes:
        skew: The largest tensor's share of the model; nan where unknown.
        rho: The intensity of the traffic; nan where unknown.
        slowdown: Seconds per step on more nodes, divided by those on the fewest.
    """

    skew: float
    rho: float
    slowdown: float


class LearnedLimit:
    """The classifier that decides which job kinds are consolidated, fitted again once an hour."""

    def __init__(self, root: Path, default: float) -> None:
        """`root`: the folder of the control folders. `default`: PACKLIMIT where history does not suffice for a better one."""
        self._root, self._default, self._at = root, default, -math.inf
        self.learned = learn([], [], [], default)

    def consolidates(self, profile: Summary) -> bool | None:
        """Return whether the job kind is consolidated; None: unknown. Without history, the decision of its trial run applies."""
        if profile.decision == "unknown":
            return None
        found = self.learned.consolidates(_number(profile.skew), _number(profile.intensity))
        return profile.decision == "consolidate" if found is None else found

    def refit(self, ledger: Ledger, now: float) -> None:
        """Fit the classifier to the history, once an hour; O(recorded runs)."""
        if now - self._at < REFIT:
            return
        self._at = now
        seen = fair(list(self._observations(slowdowns(ledger.paces()))))
        skew, rho, slowdown = ([one[column] for one in seen] for column in range(3))
        self.learned = learn(skew, rho, slowdown, self._default)

    def published(self) -> dict[str, object]:
        """Return the part of the published status on PACKLIMIT."""
        line = self.learned.tensors
        error = None if math.isnan(line.error) else round(line.error, 4)
        limit = round(self.learned.limit, 4)
        return {"limit": limit, "learned": line.used, "jobs": line.jobs, "error": error, "why": line.why}

    def _observations(self, slow: Mapping[Kind, float]) -> Iterator[tuple[int, KindSlowdown]]:
        """Yield each observation with the uid of the jobs' owner."""
        for (uid, file), slowdown in slow.items():
            content = control.read(control.profiles_folder(self._root, uid) / file, uid)
            summary = _named(content, file)
            if summary:
                yield uid, KindSlowdown(_number(summary.skew), _number(summary.intensity), slowdown)


def slowdowns(paces: Iterable[tuple[int, str, str, float]]) -> dict[Kind, float]:
    """Return the slowdown of each job kind that ran on different numbers of nodes.

    Args:
        paces: uid, kind, nodes ("gpu01:4,gpu02:1") and seconds per step of each run.
    """
    by_kind: dict[Kind, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for uid, kind, nodes, pace in paces:
        if pace > 0:
            by_kind[uid, kind][nodes.count(",") + 1].append(pace)
    found = {}
    for one, runs in by_kind.items():
        fewest = min(runs)
        more = [pace for width, some in runs.items() if width > fewest for pace in some]
        if more:
            found[one] = median(more) / median(runs[fewest])
    return found


def fair(reported: Sequence[tuple[int, KindSlowdown]]) -> list[KindSlowdown]:
    """Return the observations without those of a user beyond the number of all other users' together.

    The limit applies once the others suffice to learn from. Paces and profiles are users' claims: a user who invents a thousand
    job kinds must not decide for all jobs.
    """
    total, kept = Counter(uid for uid, _ in reported), Counter[int]()
    found = []
    for uid, one in reported:
        others = len(reported) - total[uid]
        if others < ENOUGH or kept[uid] < others:
            kept[uid] += 1
            found.append(one)
    return found


def _named(content: Mapping[str, object], file: str) -> Summary | None:
    """Return the summary of a profile; None unless the file's name follows from the job kind that it contains."""
    name, script, gpus = content.get("name"), content.get("script"), control.integer(content.get("gpus"))
    if not isinstance(name, str) or not isinstance(script, str):
        return None
    key = Key(name, script, gpus)
    return from_object(key, content) if key.file == file else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value
