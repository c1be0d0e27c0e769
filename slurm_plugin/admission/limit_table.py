"""The limits of QOS and associations for a job, in the order in which Slurm checks them (acct_policy.c).

The partition's QOS comes first, then the job's (in reverse with the flag OverPartQOS), then the user's association and the
accounts above it. A TRES limited by one QOS is not limited by the other, and a TRES limited by a QOS is not limited by the
associations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tiresias.slurm_plugin.admission.limit_reasons import reason
from tiresias.slurm_plugin.admission.slurm_limit import JOBS, Limit, Measure
from tiresias.slurm_plugin.backends.slurm_rules import Association, Qos, SlurmRules, Tres

Key = tuple[str, ...]


class LimitTable:
    """The limits by partition, user, account and QOS; each limit is one object, however many jobs it counts.

    Args:
        rules: Slurm's rules
        counted: whether Slurm's own count of running jobs is included
    """

    def __init__(self, rules: SlurmRules, counted: bool = True) -> None:

        self.rules, self._counted = rules, counted
        self._known: dict[Key, Limit] = {}
        self._flags: dict[tuple[str, str], frozenset[str]] = {}
        self._of: dict[tuple[str, str, str, str], tuple[Limit, ...]] = {}
        self._applies = bool(rules.enforce & {"limits", "safe"})
        self._safe = "safe" in rules.enforce

    @property
    def shared(self) -> list[Limit]:
        """The limits that several jobs share."""
        return [limit for limit in self._known.values() if limit.shared]

    def reset(self) -> None:
        """Reset all limits for another snapshot."""
        for limit in self._known.values():
            limit.reset()

    def settle(self) -> None:
        """Compute what is left of each limit."""
        for limit in self._known.values():
            limit.settle()

    def of(self, partition: str, user: str, account: str, qos: str) -> tuple[Limit, ...]:
        """Return the limits of a job."""
        key = (partition, user, account, qos)
        if key not in self._of:
            self._of[key] = tuple(self._find(*key)) if self._applies else ()
        return self._of[key]

    def flags(self, partition: str, qos: str) -> frozenset[str]:
        """Return the flags of all QOS that apply."""
        key = (partition, qos)
        if key not in self._flags:
            self._flags[key] = frozenset(flag for one in self.order(*key) for flag in one.flags)
        return self._flags[key]

    def order(self, partition: str, qos: str) -> list[Qos]:
        """Return the QOS that apply, the stronger first."""
        own, place = self.rules.qos.get(qos), self.rules.partitions.get(partition)
        other = self.rules.qos.get(place.qos) if place and place.qos else None
        found = [own, other] if own and "OverPartQOS" in own.flags else [other, own]
        return list({one.name: one for one in found if one}.values())

    def _find(self, partition: str, user: str, account: str, qos: str) -> Iterator[Limit]:
        taken: set[Key] = set()
        strong = self.order(partition, qos)
        own = self.rules.qos.get(qos)
        free = own is not None and own.usage_factor == 0.0  # its jobs use up no minutes
        chain = self.rules.chain(account, user, partition)
        factor = next((one.limit_factor for one in strong if one.limit_factor > 0), 1.0)
        # Slurm checks numbers of jobs and wall time before it selects nodes, and TRES afterwards.
        for one in strong:
            yield from self._fresh(taken, self._jobs_of_qos(one, user, account))
        for level, link in enumerate(chain):
            yield from self._open(taken, self._jobs_of_association(link, level == 0))
        for one in strong:
            yield from self._fresh(taken, self._tres_of_qos(one, user, account, free))
        for level, link in enumerate(chain):
            yield from self._open(taken, self._tres_of_association(link, level == 0, free, factor))

    @staticmethod
    def _fresh(taken: set[Key], found: Iterator[tuple[Key, Limit]]) -> Iterator[Limit]:
        """Return the limits of a QOS that no stronger one has set; they override all weaker ones."""
        fresh = [(key, limit) for key, limit in found if key not in taken]
        taken.update(key for key, _ in fresh)
        taken.update(
            key[:1] for key, _ in fresh if key[0] == "max_jobs"
        )  # of users or accounts: it overrides the associations' limit
        return iter([limit for _, limit in fresh])

    @staticmethod
    def _open(taken: set[Key], found: Iterator[tuple[Key, Limit]]) -> Iterator[Limit]:
        """Return the limits of an association that no QOS has set, at each level."""
        return iter([limit for key, limit in found if key not in taken])

    def _jobs_of_qos(self, one: Qos, user: str, account: str) -> Iterator[tuple[Key, Limit]]:
        name = one.name
        yield from self._count(("grp_jobs",), ("qos", name), "QOSGrpJobsLimit", one.grp_jobs)
        yield from self._wall_used(one, "QOSGrpWallLimit", ("qos", name))
        yield from self._count(
            ("max_jobs", "account"), ("qos", name, "account", account), "MaxJobsPerAccount", one.max_jobs_account
        )
        yield from self._count(
            ("max_jobs", "user"), ("qos", name, "user", user), "QOSMaxJobsPerUserLimit", one.max_jobs_user
        )
        yield from self._wall(one.max_wall, "QOSMaxWallDurationPerJobLimit", ("qos", name))

    def _jobs_of_association(self, one: Association, own: bool) -> Iterator[tuple[Key, Limit]]:
        where = ("association", one.account, one.user, one.partition)
        yield from self._count(("grp_jobs",), where, "AssocGrpJobsLimit", one.grp_jobs)
        yield from self._wall_used(one, "AssocGrpWallLimit", where)
        if own and one.user:
            yield from self._count(("max_jobs",), (*where, "own"), "AssocMaxJobsLimit", one.max_jobs)
        if own:
            yield from self._wall(one.max_wall, "AssocMaxWallDurationPerJobLimit", where)

    def _tres_of_qos(self, one: Qos, user: str, account: str, free: bool) -> Iterator[tuple[Key, Limit]]:
        where, by_user, by_account = (
            ("qos", one.name),
            ("qos", one.name, "user", user),
            ("qos", one.name, "account", account),
        )
        yield from self._minutes(one, where, "QOSGrpMins", free)
        yield from self._tres(where, "grp_tres", "QOSGrp", one.grp_tres, shared=True)
        yield from self._running(
            where, "grp_run_mins", "QOSGrpRunMins", one.grp_tres_run_mins, free, one.usage.tres_run_mins
        )
        yield from self._tres(where, "job_mins", "QOSJobMins", one.max_tres_mins, Measure.MINUTES)
        yield from self._tres(where, "job", "QOSJob", one.max_tres)
        yield from self._tres(where, "node", "QOSNode", one.max_tres_node, Measure.PER_NODE)
        yield from self._tres(where, "min", "QOSMin", one.min_tres, Measure.AT_LEAST)
        yield from self._tres(by_account, "account", "QOSAccount", one.max_tres_account, shared=True)
        yield from self._tres(by_user, "user", "QOSUser", one.max_tres_user, shared=True)
        yield from self._running(by_account, "account_run", "QOSAccountRunMins", one.max_tres_run_mins_account, free)
        yield from self._running(by_user, "user_run", "QOSUserRunMins", one.max_tres_run_mins_user, free)

    def _tres_of_association(
        self, one: Association, own: bool, free: bool, factor: float
    ) -> Iterator[tuple[Key, Limit]]:
        where = ("association", one.account, one.user, one.partition, str(factor))
        yield from self._minutes(one, where, "AssocGrpMins", free)
        yield from self._tres(where, "grp_tres", "AssocGrp", _scaled(one.grp_tres, factor), shared=True)
        yield from self._running(
            where, "grp_run_mins", "AssocGrpRunMins", one.grp_tres_run_mins, free, one.usage.tres_run_mins
        )
        if own:
            yield from self._tres(where, "job_mins", "AssocJobMins", one.max_tres_mins, Measure.MINUTES)
            yield from self._tres(where, "job", "AssocJob", _scaled(one.max_tres, factor))
            yield from self._tres(where, "node", "AssocNode", one.max_tres_node, Measure.PER_NODE)

    # -- kinds of limits: (what it limits, the limit) ------------------------------------------------------------------

    def _count(self, what: Key, where: Key, word: str, limit: float) -> Iterator[tuple[Key, Limit]]:
        if limit < math.inf:
            yield what, self._limit((*where, *what), Limit(word, Measure.AMOUNT, JOBS, limit, shared=True))

    def _wall(self, limit: float, word: str, where: Key) -> Iterator[tuple[Key, Limit]]:
        if limit < math.inf:
            yield ("wall",), self._limit((*where, "wall"), Limit(word, Measure.WALL, JOBS, limit))

    def _wall_used(self, one: Qos | Association, word: str, where: Key) -> Iterator[tuple[Key, Limit]]:
        if one.grp_wall < math.inf:
            gone = one.usage.wall >= one.grp_wall
            left = one.grp_wall - one.usage.wall if self._safe else math.inf
            limit = Limit(word, Measure.WALL, JOBS, -1.0 if gone else left)
            yield ("grp_wall",), self._limit((*where, "grp_wall"), limit)

    def _minutes(self, one: Qos | Association, where: Key, word: str, free: bool) -> Iterator[tuple[Key, Limit]]:
        """Yield the limits of used minutes, by Slurm's own, decayed count; only `safe` reserves for running jobs."""
        for tres, limit in one.grp_tres_mins.items():
            used = 0.0 if free else one.usage.tres_mins.get(tres, 0.0)
            left = -1.0 if used >= limit else limit - used if self._safe else math.inf
            made = Limit(reason(word, tres), Measure.MINUTES, tres, left, shared=self._safe and left > 0 and not free)
            yield ("grp_mins", tres), self._limit((*where, "grp_mins", tres, str(free)), made)

    def _running(
        self, where: Key, what: str, word: str, limits: Tres, free: bool, counted: Tres | None = None
    ) -> Iterator[tuple[Key, Limit]]:
        for tres, limit in limits.items():
            already = 0.0 if free or counted is None or not self._counted else counted.get(tres, 0.0)
            made = Limit(reason(word, tres), Measure.MINUTES, tres, limit, shared=not free, counted=already)
            yield (what, tres), self._limit((*where, what, tres, str(free)), made)

    def _tres(
        self, where: Key, what: str, word: str, limits: Tres, measure: Measure = Measure.AMOUNT, shared: bool = False
    ) -> Iterator[tuple[Key, Limit]]:
        for tres, limit in limits.items():
            made = Limit(reason(word, tres), measure, tres, limit, shared=shared)
            yield (what, tres), self._limit((*where, what, tres), made)

    def _limit(self, key: Key, made: Limit) -> Limit:
        return self._known.setdefault(key, made)


def _scaled(limits: Tres, factor: float) -> Tres:
    return limits if factor == 1.0 else {name: float(int(limit * factor)) for name, limit in limits.items()}
