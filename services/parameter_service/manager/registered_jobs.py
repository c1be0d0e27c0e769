"""The jobs of the service from their registration to their end, and where their tensors are; each change is in the journal first.

registered -> profiling (on aggregators of its own, as PAA assigns its blocks) -> assigned (by pseudocode 3) -> removed

`target` is the aggregator that a block is assigned to, `at` the one that has its master copy; they differ while it migrates. An
aggregator is released when neither an assignment nor a master copy needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from tiresias.errors import TiresiasError, UsageError
from tiresias.services.parameter_service.assignment.aggregator_clusters import AggregatorClusters
from tiresias.services.parameter_service.assignment.aggregator_numbers import TensorKey
from tiresias.services.parameter_service.assignment.assignment_rules import NoAggregatorLeft
from tiresias.services.parameter_service.assignment.execution_cycle import runs_in
from tiresias.services.parameter_service.assignment.job_work import JobWork
from tiresias.services.parameter_service.assignment.loss_feedback import LossFeedback, LossVerdict
from tiresias.services.parameter_service.assignment.tensor_blocks import blocks_of
from tiresias.services.parameter_service.manager.added_tensors import added_sizes, bytes_on, evenly
from tiresias.services.parameter_service.manager.assignment_journal import AssignmentJournal
from tiresias.services.parameter_service.manager.manager_journal import ClientRow, ManagerJournal
from tiresias.services.parameter_service.manager.registration_checks import check_owner, check_registration
from tiresias.services.parameter_service.messages.aggregator_messages import PlanCycle
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE


class RegisteredJobs:
    """The jobs; restored from the journal, so that a restart moves no tensor and stops no training.

    Args:
        journal: The journal.
        clusters: The aggregators, without jobs; restored here.

    Attributes:
        may_grow: Returns whether a job may have an aggregator more of its own.
        failure: Why the journal did not take a change, which the jobs here then have and the journal lacks: a manager ends with it.
    """

    def __init__(self, journal: ManagerJournal, clusters: AggregatorClusters) -> None:
        self._journal, self._clusters = journal, clusters
        self._clients = journal.clients()
        self._feedback: dict[str, LossFeedback] = {}
        self.failure: TiresiasError | None = None
        self.may_grow: Callable[[str], bool] = lambda job: True
        self._written = AssignmentJournal(journal, clusters, self._clients.values())
        if stored := self._written.stored():
            clusters.restore(
                stored, {job: _work(row) for job, row in self._clients.items() if "iteration_s" in row.content}
            )

    # what is known

    def key_of(self, job: str) -> bytes | None:
        """Return the key of a job, None for an unknown one."""
        row = self._clients.get(job)
        return bytes.fromhex(row.key) if row else None

    def key_in_hex(self, job: str) -> str:
        """Return the key of a job, in hexadecimal. Raises UsageError."""
        return self._row(job).key

    def workers(self, job: str) -> int:
        """Return the number of ranks of a job. Raises UsageError."""
        return int(self._row(job).content["workers"])

    def compress(self, job: str) -> str:
        """Return how the gradients and parameters of a job are compressed. Raises UsageError."""
        return str(self._row(job).content.get("compress", COMPRESS_NONE))

    def numbers_of_jobs(self) -> dict[str, set[int]]:
        """Return the aggregators of each job: those of its assignment, and those that have its master copies."""
        return {job: self.numbers_of_job(job) for job in self._clients}

    def numbers_of_job(self, job: str) -> set[int]:
        """Return the aggregators of one job. Raises UsageError."""
        return {*self.target(job).values(), *self.masters(job).values()}

    @property
    def rows(self) -> Mapping[str, ClientRow]:
        """The jobs by name, in the order of their registration."""
        return self._clients

    def speed(self, job: str) -> tuple[float | None, float | None]:
        """Return the measured seconds of an iteration, None before a verdict, and the job's loss.

        The loss is that of the measured iterations, before a verdict the expected one; None for a job that is not assigned.
        """
        if "iteration_s" not in self._row(job).content:
            return None, None
        feedback = self._feedback.get(job)
        if feedback and feedback.measured_s is not None:
            return feedback.measured_s, feedback.loss
        return None, self._clusters.pool_of(job).loss(job)

    def cycles(self) -> dict[int, PlanCycle]:
        """Return the execution cycle of each aggregator with assigned jobs."""
        found = {}
        for number, load in self._clusters.loads.items():
            runs = {job: float(runs_in(load.cycle_s, part.iteration_s)) for job, part in load.parts.items()}
            work_s = {job: part.work_s for job, part in load.parts.items()}
            found[number] = PlanCycle(load.cycle_s, runs, work_s)
        return found

    def target(self, job: str) -> dict[str, int]:
        """Return the aggregator that each block is assigned to. Raises UsageError."""
        content = self._row(job).content
        if "iteration_s" in content:
            return self._clusters.pool_of(job).places_of(job)
        return {**content.get("at", {}), **content.get("to", {})}

    def masters(self, job: str) -> dict[str, int]:
        """Return the aggregator that has the master copy of each block. Raises UsageError."""
        return dict(self._row(job).content.get("at", {}))

    def moves(self) -> dict[TensorKey, tuple[int, int]]:
        """Return the blocks whose master copy is not where they are assigned to: (from, to)."""
        return {(job, block): numbers for job in self._clients for block, numbers in self.moves_of(job).items()}

    def moves_of(self, job: str) -> dict[str, tuple[int, int]]:
        """Return the blocks of one job that are to move, none for an unknown job."""
        if job not in self._clients:
            return {}
        at, target = self._clients[job].content.get("at", {}), self.target(job)
        return {block: (number, target[block]) for block, number in at.items() if target[block] != number}

    # events

    def register(
        self,
        job: str,
        uid: int,
        key: bytes,
        servers: int,
        workers: int,
        account: str = "",
        compress: str = COMPRESS_NONE,
    ) -> None:
        """Register a job; a repeated registration by its owner with the same key changes nothing (see `is_resized`).

        Raises:
            UsageError: A name, number or key that is not allowed, or a name that is in use.
            NoAggregatorLeft: Not now: the budget has not as many aggregators left as the job declared servers.
        """
        check_registration(job, key, servers, workers, compress)
        if job in self._clients:
            self.is_resized(job, uid, key, servers, workers, compress)
            return
        self._clusters.reserve(job, servers)
        stale = sorted(self._journal.members())
        content = {"servers": servers, "workers": workers, "account": account, "stale": stale, "compress": compress}
        self._store(ClientRow(job, uid, key.hex(), content))

    def is_resized(
        self, job: str, uid: int, key: bytes, servers: int, workers: int, compress: str = COMPRESS_NONE
    ) -> bool:
        """Return whether a job registers for another size or compression. Raises UsageError where owner or key are others."""
        if (row := self._clients.get(job)) is None:
            return False
        check_owner(row, uid, key)
        return (row.content["servers"], row.content["workers"], self.compress(job)) != (servers, workers, compress)

    def stale(self, job: str) -> frozenset[int]:
        """Return the aggregators that may have an earlier job of this name: it is dropped there before anything else."""
        row = self._clients.get(job)
        return frozenset(row.content.get("stale", ()) if row else ())

    def dropped(self, job: str, numbers: Collection[int]) -> None:
        """Record the aggregators that have no earlier job of this name any more."""
        if row := self._clients.get(job):
            self._store(row.changed(stale=sorted(self.stale(job) - set(numbers))), with_assignment=False)

    def init(self, job: str, sizes: Mapping[str, int]) -> dict[str, int]:
        """Place the tensors of a job for its profile, and return the aggregator of each block. Repeated, it returns where they are.

        A job may add tensors later, as DDP chooses its buckets while the job trains: the others stay where they are.

        Args:
            job: Its name.
            sizes: Bytes of each tensor, or of some of them.

        Raises:
            UsageError: No such job, sizes that are none, or another size than before.
        """
        row = self._row(job)
        added = added_sizes(job, row.content.get("sizes", {}), sizes)
        if added:
            self._store(self._with_tensors(row, added))
        return self.target(job)

    def _with_tensors(self, row: ClientRow, added: Mapping[str, int]) -> ClientRow:
        """Return a job with further tensors. The first ones are split as PAA does it, later ones remain whole."""
        known, at = row.content.get("sizes", {}), row.content.get("at", {})
        try:
            blocks = blocks_of(added, 1 if known else row.content["servers"])
        except ValueError as error:
            raise UsageError(f"job {row.job}: {error}") from None
        if taken := sorted({each.name for each in blocks} & at.keys()):
            raise UsageError(f"job {row.job}: tensor {taken[0]} has the name of a block of another tensor")
        changed = row.changed(sizes={**known, **added})
        if "iteration_s" in row.content:
            return self._with_assigned(changed, added)
        numbers = self._clusters.reserved(row.job)
        if not known:
            return changed.changed(at={each.name: numbers[each.server] for each in blocks})
        return changed.changed(at={**at, **evenly(added, bytes_on(numbers, known, at))})

    def _with_assigned(self, row: ClientRow, added: Mapping[str, int]) -> ClientRow:
        """Return an assigned job with further tensors; their work is assumed to be in proportion to their size."""
        sizes, work = row.content["sizes"], row.content["work"]
        for_one = sum(work.values()) / (sum(sizes.values()) - sum(added.values()))
        row = row.changed(work={**work, **{name: for_one * size for name, size in added.items()}})
        self._clusters.add(_work(row), added)
        target = self.target(row.job)
        return row.changed(at={**row.content["at"], **{name: target[name] for name in added}})

    def profiled(self, job: str, iteration_s: float, work_s: Mapping[str, float]) -> None:
        """Assign a job by its profile: seconds of an iteration, and of each block's work in it. `moves` has what is to migrate.

        Where no cluster can take it within the budget, it keeps the aggregators of its profile. Raises UsageError, JobTooLarge.
        """
        row = self._row(job)
        if work_s.keys() != row.content.get("at", {}).keys():
            raise UsageError(f"job {job}: the profile has other blocks than the job")
        if "iteration_s" in row.content:
            return
        row = row.changed(iteration_s=iteration_s, work=dict(work_s))
        try:
            self._clusters.arrive(_work(row), row.content["at"])
        except NoAggregatorLeft:
            return
        self._store(row)

    def observe(self, job: str, iteration_s: float) -> LossVerdict:
        """Count a measured iteration of an assigned job that does not migrate; revert its assignment after too large a loss."""
        row = self._row(job)
        if "iteration_s" not in row.content or row.content["at"] != self.target(job):
            return LossVerdict.MEASURING
        alone_s, limit = row.content["iteration_s"], self._clusters.rules.loss_limit
        feedback = self._feedback.setdefault(job, LossFeedback(alone_s, limit))
        verdict = feedback.observe(iteration_s)
        if verdict is LossVerdict.REVERT:
            if not self.may_grow(job):
                return LossVerdict.KEEP
            try:
                self._clusters.revert(job)
            except NoAggregatorLeft:
                return LossVerdict.KEEP
            self._store(row.changed(reverts=row.content.get("reverts", 0) + 1))
        return verdict

    def migrated(self, job: str, blocks: Iterable[str], to: int) -> None:
        """Record that an aggregator has the master copies of these blocks."""
        row = self._row(job)
        moved = dict.fromkeys(blocks, to)
        planned = {block: number for block, number in row.content.get("to", {}).items() if block not in moved}
        self._store(row.changed(at={**row.content["at"], **moved}, to=planned), with_assignment=False)

    def plan(self, job: str, to: Mapping[str, int]) -> None:
        """Assign blocks of a job that is profiled to other aggregators."""
        row = self._row(job)
        self._store(row.changed(to={**row.content.get("to", {}), **to}))

    def store_assignment(self) -> None:
        """Write the assignment, which was changed."""
        self._write(self._written.put_assignment)

    def end(self, job: str) -> None:
        """Remove a job. An unknown one is removed already."""
        if self._clients.pop(job, None) is None:
            return
        self._feedback.pop(job, None)
        self._clusters.end(job)
        self._write(lambda: self._written.remove(job))

    def scale(self, now_s: float) -> None:
        """Empty and release aggregators at the end of a scaling period."""
        if self._clusters.scale_if_due(now_s):
            self.store_assignment()

    def _row(self, job: str) -> ClientRow:
        if job not in self._clients:
            raise UsageError(f"job {job[:64]} is not registered")
        return self._clients[job]

    def _store(self, row: ClientRow, with_assignment: bool = True) -> None:
        self._clients[row.job] = row
        self._write(lambda: self._written.put(row, with_assignment))

    def _write(self, change: Callable[[], None]) -> None:
        try:
            change()
        except TiresiasError as error:
            self.failure = error
            raise


def _work(row: ClientRow) -> JobWork:
    return JobWork(row.job, row.content["iteration_s"], row.content["servers"], row.content["work"])
