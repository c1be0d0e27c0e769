"""PACKLIMIT from the site's own history: how fast jobs were on few and on many nodes, and what they send (section 3.3.2).

The journal has each run's nodes and its seconds a step, the users' profiles have what their jobs send. A kind of job that ran
both on the fewest nodes that it ever had and on more is an observation; scheduler/place/packlimit_classifier.py learns from them.
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


class Observation(NamedTuple):
    """skew, rho: nan where unknown. slowdown: seconds a step on more nodes over that on the fewest."""

    skew: float
    rho: float
    slowdown: float


class LearnedLimit:
    def __init__(self, root: Path, default: float) -> None:
        """`root`: of the control folders. `default`: PACKLIMIT where history does not tell a better one."""
        self._root, self._default, self._at = root, default, -math.inf
        self.learned = learn([], [], [], default)

    def consolidates(self, profile: Summary) -> bool | None:
        """None: its trial run could not tell. What history does not speak of is judged as the trial run was."""
        if profile.decision == "unknown":
            return None
        found = self.learned.consolidates(_number(profile.skew), _number(profile.intensity))
        return profile.decision == "consolidate" if found is None else found

    def refit(self, ledger: Ledger, now: float) -> None:
        """O(runs that ever were), once an hour."""
        if now - self._at < REFIT:
            return
        self._at = now
        seen = fair(list(self._observations(slowdowns(ledger.paces()))))
        skew, rho, slowdown = ([one[column] for one in seen] for column in range(3))
        self.learned = learn(skew, rho, slowdown, self._default)

    def published(self) -> dict[str, object]:
        """For those who look."""
        line = self.learned.tensors
        error = None if math.isnan(line.error) else round(line.error, 4)
        limit = round(self.learned.limit, 4)
        return {"limit": limit, "learned": line.used, "jobs": line.jobs, "error": error, "why": line.why}

    def _observations(self, slow: Mapping[Kind, float]) -> Iterator[tuple[int, Observation]]:
        """Each with the uid of who told."""
        for (uid, file), slowdown in slow.items():
            content = control.read(control.profiles_folder(self._root, uid) / file, uid)
            summary = _named(content, file)
            if summary:
                yield uid, Observation(_number(summary.skew), _number(summary.intensity), slowdown)


def slowdowns(paces: Iterable[tuple[int, str, str, float]]) -> dict[Kind, float]:
    """paces: uid, kind, nodes ("gpu01:4,gpu02:1") and seconds a step of runs. Of the kinds that ran on two numbers of nodes."""
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


def fair(told: Sequence[tuple[int, Observation]]) -> list[Observation]:
    """Nobody brings more than all others together, once these bring enough to learn from: paces and profiles are users' words, and
    who makes up a thousand kinds of jobs shall not have the last one about everybody's."""
    total, kept = Counter(uid for uid, _ in told), Counter[int]()
    found = []
    for uid, one in told:
        others = len(told) - total[uid]
        if others < ENOUGH or kept[uid] < others:
            kept[uid] += 1
            found.append(one)
    return found


def _named(content: Mapping[str, object], file: str) -> Summary | None:
    """The summary in a file of this name, which follows from what it says it is about."""
    name, script, gpus = content.get("name"), content.get("script"), control.integer(content.get("gpus"))
    if not isinstance(name, str) or not isinstance(script, str):
        return None
    key = Key(name, script, gpus)
    return from_object(key, content) if key.file == file else None


def _number(value: float | None) -> float:
    return math.nan if value is None else value
