"""Which jobs the service takes: within the limits of users and accounts, in the order of arrival where the budget is used up."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tiresias.errors import TiresiasError, UsageError
from tiresias.protocol.service_report import PublishedServiceLimits
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad
from tiresias.services.parameter_service.assignment.assignment_rules import NoAggregatorLeft
from tiresias.services.parameter_service.assignment.execution_cycle import runs_in
from tiresias.services.parameter_service.manager.arrival_order import ArrivalOrder
from tiresias.services.parameter_service.manager.manager_journal import ClientRow, ManagerJournal
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.manager.registration_checks import check_registration
from tiresias.services.parameter_service.manager.registration_port import Registration
from tiresias.services.parameter_service.manager.use_limits import UNLIMITED_USE, ServiceUse, UseLimits
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE

MAX_TENSOR_BYTES = 1 << 50
_SLOT_ARRAYS = 3  # parameters, and two arrays of the optimizer
_BLOCK_BYTES = 256 << 10  # of counts and of rounding to pages


class JobAdmission:
    """Registers jobs, or refuses them with one line that names the limit and what is used.

    Args:
        jobs: The registered jobs.
        clusters: Their assignment, with the budget.
        journal: Keeps the order of waiting jobs for the next manager.
        per_user, per_account: The limits.
    """

    def __init__(
        self,
        jobs: RegisteredJobs,
        clusters: AggregatorClusters,
        journal: ManagerJournal,
        per_user: UseLimits = UNLIMITED_USE,
        per_account: UseLimits = UNLIMITED_USE,
    ) -> None:
        self._jobs, self._clusters, self._journal = jobs, clusters, journal
        self.per_user, self.per_account = per_user, per_account
        self._order = ArrivalOrder(journal.waiting())
        jobs.may_grow = self._may_grow

    def waiting(self, now_s: float) -> int:
        """Return the number of jobs that wait for the budget."""
        self._order.forget_old(now_s)
        self._store_order()
        return self._order.count

    def register(self, found: Registration, now_s: float) -> None:
        """Register a job. One that registers for a run of another size is a new one: its tensors, its profile and its measured
        iterations are dropped, and its program restores its checkpoint.

        Raises:
            UsageError: Never.
            OverLimit: Not now: its user or its account has used its limit.
            NoAggregatorLeft: Not now: the budget is used up, or other jobs come first.
        """
        check_registration(found.job, found.key, found.servers, found.workers, found.compress)
        size = (found.servers, found.workers, found.compress)
        if self._jobs.is_resized(found.job, found.uid, found.key, *size):
            self._jobs.end(found.job)
        if found.job not in self._jobs.rows:
            self._check_limits(found)
            try:
                self._check_turn(found, now_s)
            except NoAggregatorLeft:
                self._order.wait(found.job, found.uid, found.servers, now_s)
                self._store_order()
                raise
        self._jobs.register(*found)
        self._order.remove(found.job)
        self._store_order()

    def check_tensors(self, job: str, sizes: Mapping[str, int]) -> None:
        """Check that a registered job may declare tensors of these bytes. Raises UsageError."""
        row = self._jobs.rows.get(job)
        if row is None:
            return
        if any(size > MAX_TENSOR_BYTES for size in sizes.values()):
            raise UsageError(f"job {job}: a tensor of more than {MAX_TENSOR_BYTES} bytes")
        added = sum({**row.content.get("sizes", {}), **sizes}.values())
        for limits, subject, is_of in self._groups(row.uid, row.content.get("account", "")):
            used = sum(_bytes(each) for each in self._jobs.rows.values() if each.job != job and is_of(each))
            limits.check_bytes(subject, used, added)

    def memory_bound(self, job: str) -> int | None:
        """Return the memory that the declared tensors of a job need at most on one aggregator; None where bytes are not limited.

        An aggregator holds two slots of parameters and optimizer state for each block, and a gradient of each rank; with
        compression as much again, and an answer.
        """
        row = self._jobs.rows.get(job)
        if row is None or (self.per_user.bytes is None and self.per_account.bytes is None):
            return None
        blocks = len(row.content.get("at", {}))
        workers = int(row.content["workers"])
        compressed = 0 if self._jobs.compress(job) == COMPRESS_NONE else workers + 2  # aggregator/gradient_transfers.py
        return (2 * _SLOT_ARRAYS + workers + compressed) * _bytes(row) + blocks * _BLOCK_BYTES

    def shown_limits(self) -> PublishedServiceLimits:
        """Return the limits for the report."""
        budget = self._clusters.budget
        return {"user": self.per_user.shown(budget), "account": self.per_account.shown(budget)}

    def aggregators_of_jobs(self) -> dict[str, float]:
        """Return the aggregators of each job: those of its profile, and its share of the work on others."""
        used = {job: float(len(self._clusters.reserved(job))) for job in self._jobs.rows}
        for load in self._clusters.loads.values():
            for job, share in shares_of(load).items():
                used[job] = used.get(job, 0.0) + share
        return used

    # inner

    def _store_order(self) -> None:
        try:
            self._journal.put_waiting(self._order.rows())
        except TiresiasError as error:
            self._jobs.failure = error
            raise

    def _check_limits(self, found: Registration) -> None:
        budget, aggregators = self._clusters.budget, self.aggregators_of_jobs()
        if found.servers > budget:
            problem = f"has {budget} aggregators at most; this job declares {found.servers} servers"
            raise UsageError(f"the service {problem if budget else 'takes no new jobs: its budget is 0'}")
        for limits, subject, is_of in self._groups(found.uid, found.account):
            limits.check_job(subject, self._use(is_of, aggregators), found.servers, budget)

    def _groups(self, uid: int, account: str) -> list[tuple[UseLimits, str, Callable[[ClientRow], bool]]]:
        of_user = (self.per_user, f"per_user: user {uid}", lambda row: row.uid == uid)
        of_account = (
            self.per_account,
            f"per_account: account {account}",
            lambda row: row.content.get("account", "") == account,
        )
        return [of_user, *([of_account] if account else [])]

    def _use(self, is_of: Callable[[ClientRow], bool], aggregators: Mapping[str, float]) -> ServiceUse:
        rows = [row for row in self._jobs.rows.values() if is_of(row)]
        return ServiceUse(sum(aggregators[row.job] for row in rows), len(rows), sum(map(_bytes, rows)))

    def _check_turn(self, found: Registration, now_s: float) -> None:
        self._order.forget_old(now_s)
        used, share = self._used_and_share(found.uid)
        before = self._order.jobs_before(found.job, found.uid, found.servers, used, share)
        left = self._clusters.left
        if before:
            raise NoAggregatorLeft(
                f"job {found.job}: {len(before)} jobs come first for the {max(left, 0)} aggregators left"
            )
        if left < found.servers:
            raise NoAggregatorLeft(
                f"job {found.job}: its profile needs {found.servers} aggregators, {max(left, 0)} of "
                f"{self._clusters.budget} are left"
            )

    def _used_and_share(self, uid: int) -> tuple[dict[int, float], float]:
        """Return the aggregators that each user uses, and an equal share of the budget among those with jobs or waiting ones."""
        used: dict[int, float] = {}
        for job, count in self.aggregators_of_jobs().items():
            owner = self._jobs.rows[job].uid
            used[owner] = used.get(owner, 0.0) + count
        return used, self._clusters.budget / len({uid, *used, *self._order.users()})

    def _may_grow(self, job: str) -> bool:
        """Return whether a job may have an aggregator more of its own, to be as fast as alone."""
        row = self._jobs.rows[job]
        aggregators = self.aggregators_of_jobs()
        for limits, _, is_of in self._groups(row.uid, row.content.get("account", "")):
            most = limits.number_of_aggregators(self._clusters.budget)
            if most is not None and self._use(is_of, aggregators).aggregators + 1 > most + 1e-6:
                return False
        used, share = self._used_and_share(row.uid)
        is_above = used.get(row.uid, 0.0) + 1 > share
        return not (is_above and self._order.others_below_share(row.uid, used, share))


def shares_of(load: AggregatorLoad) -> dict[str, float]:
    """Return the share of each job in the work on an aggregator; equal ones where there is no work."""
    cycle_s, total_s = load.cycle_s, load.work_s
    if not total_s:
        return dict.fromkeys(load.parts, 1 / len(load.parts)) if load.parts else {}
    return {job: runs_in(cycle_s, part.iteration_s) * part.work_s / total_s for job, part in load.parts.items()}


def _bytes(row: ClientRow) -> int:
    return sum(row.content.get("sizes", {}).values())
