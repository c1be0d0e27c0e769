"""Brings the aggregators to what the journal has: jobs are handed to them and removed from them, and tensors migrate.

Each step reads the statistics of all running aggregators and sends what is missing. All these requests can be repeated, so nothing
is remembered: a manager that was killed continues with its next step.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tiresias.errors import TiresiasError, UsageError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.manager.aggregator_calls import AggregatorCalls
from tiresias.services.parameter_service.manager.background_calls import Call, CallSequence, made_here
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.messages.aggregator_messages import (
    AdoptJob,
    DropJob,
    MigrateTensor,
    PlanCycle,
)


class TensorMover:
    """The manager's view of the aggregators, and what it sends to them.

    Args:
        jobs: The registered jobs.
        calls: Sends requests.
        addresses: Returns the addresses of the running aggregators by number.
        memory_bytes: Bound of one job's tensors on one aggregator.
        vacated: Returns the aggregators that end, and need not name the new master of a tensor any more.
        memory_bound: Returns a lower bound for a job, None for none.
    """

    def __init__(
        self,
        jobs: RegisteredJobs,
        calls: AggregatorCalls,
        addresses: Callable[[], Mapping[int, str]],
        memory_bytes: int,
        memory_bound: Callable[[str], int | None] = lambda job: None,
        vacated: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._jobs, self._calls, self._addresses = jobs, calls, addresses
        self._memory_bytes, self._memory_bound, self._vacated = memory_bytes, memory_bound, vacated
        self._seen: dict[int, tuple[str, dict[str, Any]]] = {}  # address and jobs of each aggregator in the last step
        self._free_bytes: dict[int, int] = {}

    def address_of(self, job: str, number: int) -> str:
        """Return the address of an aggregator that has the job; "" otherwise."""
        address, jobs = self._seen.get(number, ("", {}))
        return address if job in jobs and number not in self._jobs.stale(job) else ""

    def bytes_on(self, number: int) -> dict[str, int] | None:
        """Return the bytes of each job's tensors on an aggregator, as it reported in the last step; None: it did not."""
        if number not in self._seen:
            return None
        present = self._seen[number][1].items()
        return {job: sum(each["bytes"] for each in found["tensors"].values()) for job, found in present}

    def free_bytes(self) -> dict[int, int]:
        """Return the free memory of each aggregator that answered in the last round."""
        return dict(self._free_bytes)

    def updates_of(self, job: str) -> int:
        """Return the updates of a job's tensors, as the aggregators counted them in the last step."""
        found = [present.get(job, {}).get("tensors", {}) for _, present in self._seen.values()]
        return sum(int(tensor.get("updates", 0)) for tensors in found for tensor in tensors.values())

    def measured_work(self, job: str) -> dict[str, float]:
        """Return the seconds of work of each block in an iteration, as its aggregator has measured them.

        Raises:
            UsageError: A block has not yet been updated.
        """
        found = {}
        for block, number in self._jobs.target(job).items():
            tensor = self._tensors(number, job).get(block, {})
            if not tensor.get("updates"):
                raise UsageError(f"job {job}: tensor {block} has had no update yet; report the profile later")
            found[block] = tensor["cpu_s"] / tensor["updates"]
        return found

    def step(self) -> None:
        """Make a round in this thread; see `round`."""
        made_here(self.round())

    def round(self) -> CallSequence:
        """Read all statistics once, and send what is missing: the requests are yielded; jobs may come and go meanwhile.

        An aggregator that does not answer is left for the next round.
        """
        seen: dict[int, tuple[str, dict[str, Any]]] = {}
        free: dict[int, int] = {}
        cycles = self._jobs.cycles()
        for number, address in self._addresses().items():
            found = yield self._tried(self._calls.statistics, address)
            if found is not None:
                seen[number], free[number] = (address, dict(found["jobs"])), int(found["free_bytes"])
                plan = cycles.get(number, PlanCycle(0.0, {}, {}))
                if not _executes(found, plan):
                    yield self._tried(self._calls.request, address, plan)
        self._seen, self._free_bytes = seen, free
        yield from self._drop()
        for job, numbers in self._jobs.numbers_of_jobs().items():
            for number in sorted(numbers & seen.keys() - self._jobs.stale(job)):
                if self._is_to_adopt(job, seen[number][1]):
                    yield from self._adopt(job, number)
        self._record_moved()
        for (job, block), (old, new) in self._jobs.moves().items():
            yield from self._move(job, block, old, new)

    def _drop(self) -> CallSequence:
        """Remove jobs that have ended, also where a new one has the name: it is recorded before the new one is handed over."""
        gone: dict[str, set[int]] = {}
        for number, (address, present) in self._seen.items():
            stale = {job for job in self._jobs.rows if number in self._jobs.stale(job)}
            for job in sorted(present.keys() - self._jobs.rows.keys() | stale):
                if (yield self._tried(self._calls.request, address, DropJob(job))) is not None:
                    present.pop(job, None)
                    gone.setdefault(job, set()).add(number)
        for job, numbers in gone.items():
            if ended := self._jobs.stale(job) & numbers:
                self._jobs.dropped(job, ended)

    def _is_to_adopt(self, job: str, present: Mapping[str, Any]) -> bool:
        """Whether an aggregator does not have the job, or has it with another bound of its memory."""
        return job not in present or present[job]["memory_bound_bytes"] != self._memory_of(job)

    def _adopt(self, job: str, number: int) -> CallSequence:
        address, present = self._seen[number]
        if job not in self._jobs.rows:
            return  # it has ended meanwhile
        row = (self._jobs.key_in_hex(job), self._jobs.workers(job), self._memory_of(job))
        content = AdoptJob(job, *row, compress=self._jobs.compress(job))
        if (yield self._tried(self._calls.request, address, content)) is not None:
            present.setdefault(job, {"tensors": {}})["memory_bound_bytes"] = content.memory_bytes

    def _memory_of(self, job: str) -> int:
        bound = self._memory_bound(job)
        return self._memory_bytes if bound is None else min(bound, self._memory_bytes)

    def _record_moved(self) -> None:
        """Record the tensors that have a new master, those of a job and a master in one write."""
        done: dict[tuple[str, int], list[str]] = {}
        for (job, block), (old, new) in self._jobs.moves().items():
            if (master := self._new_master(job, block, old, new)) is not None:
                done.setdefault((job, master), []).append(block)
        for (job, master), blocks in done.items():
            self._jobs.migrated(job, blocks, master)

    def _new_master(self, job: str, block: str, old: int, new: int) -> int | None:
        """Return the aggregator that has taken a block over, None where its migration has not ended."""
        copy = self._tensors(new, job).get(block, {})
        if copy.get("state") == "active":
            # until every rank has pushed to the new master, the old one is needed to name it
            return new if copy["updates"] or old in self._vacated() else None
        return self._active_elsewhere(job, block, old)  # it was assigned anew while it moved

    def _move(self, job: str, block: str, old: int, new: int) -> CallSequence:
        if self._jobs.moves_of(job).get(block) != (old, new):
            return  # it has ended, or was assigned anew, meanwhile
        if self.address_of(job, new) and self._tensors(old, job).get(block, {}).get("state") == "active":
            content = MigrateTensor(job, block, self._seen[new][0])
            yield self._tried(self._calls.request, self._seen[old][0], content)

    def _active_elsewhere(self, job: str, block: str, old: int) -> int | None:
        """Return the aggregator that is the master of a block in place of the recorded one, None where that answers and is it."""
        if old not in self._seen or self._tensors(old, job).get(block, {}).get("state") in ("active", "leaving"):
            return None
        found = [number for number in self._seen if self._tensors(number, job).get(block, {}).get("state") == "active"]
        return found[0] if found else None

    def _tensors(self, number: int, job: str) -> Mapping[str, Any]:
        present = self._seen.get(number, ("", {}))[1]
        found: Mapping[str, Any] = present.get(job, {}).get("tensors", {})
        return found

    @staticmethod
    def _tried(work: Callable[..., object], *arguments: Any) -> Call:
        """Return a call that logs a TiresiasError and then returns None."""

        def tried() -> object:
            try:
                return work(*arguments)
            except TiresiasError as error:
                log_line(f"parameter service: {one_line(error)}; trying again")
                return None

        return tried


def _executes(statistics: Mapping[str, Any], plan: PlanCycle) -> bool:
    """Return whether an aggregator that reports these statistics has the plan."""
    slots = {job: [plan.runs[job], work_s] for job, work_s in plan.work_s.items()}
    return (statistics["cycle_s"], statistics["slots"]) == (plan.cycle_s, slots)
