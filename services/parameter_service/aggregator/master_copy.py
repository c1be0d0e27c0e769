"""One tensor of a job: its gradients of this step, the pulls that wait for it, its update and its leaving for another aggregator.

Every method is called by the thread of the data loop. A push that cannot count is answered by Refused and its payload dropped; one
that has counted already (repeated after a reconnect) is dropped without an answer.
"""

from __future__ import annotations

import time
from collections.abc import Collection

import numpy as np

from tiresias.services.parameter_service.aggregator.copy_reports import JobOfCopies, PlannedMove
from tiresias.services.parameter_service.aggregator.gradient_transfers import GradientTransfers
from tiresias.services.parameter_service.aggregator.lost_ranks import AbsentRanks
from tiresias.services.parameter_service.aggregator.memory_pages import free_private
from tiresias.services.parameter_service.aggregator.optimizer_kernels import OptimizerKernel, StepNumbers
from tiresias.services.parameter_service.aggregator.tensor_file import ACTIVE, TensorFile, buffers_of
from tiresias.services.parameter_service.aggregator.waiting_pulls import WaitingPulls
from tiresias.services.parameter_service.messages.agent_messages import Parameters, Pull, PullState, Push, TensorState
from tiresias.services.parameter_service.messages.aggregator_messages import AdoptJob
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.session_messages import Refused
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE

STAGED_WAIT_S = 1.0  # a pull waits so long for a copy that is not whole, before the agent locates the tensor again


class MasterCopy:
    """The master copy of one tensor.

    Args:
        file: Its memory.
        settings: Those of its job.
        kernel: The update of its dtype.
        job: What it reports to.

    Attributes:
        move: The planned migration, None where there is none.
        leaving: Whether it is being copied: no update is made any more.
        cpu_s: CPU seconds of all its work.
        updates: Updates since this process has it.
        skipped: Updates that were left out because of NaN or Inf.
    """

    def __init__(self, file: TensorFile, settings: AdoptJob, kernel: OptimizerKernel, job: JobOfCopies) -> None:
        self.file, self._settings, self._kernel, self._job = file, settings, kernel, job
        self.move: PlannedMove | None = None
        self.leaving = False
        self.cpu_s, self.updates, self.skipped = 0.0, 0, 0
        self._failure = ""
        self._gradients = np.zeros((settings.workers, file.declaration.elements), file.declaration.numpy_dtype)
        self._gradients.fill(0)  # its pages exist before the first push
        self._transfers = GradientTransfers(settings.compress, file.declaration)
        self._pushed: set[int] = set()
        self._ever_pushed: set[int] | None = None
        self._lr = -1.0
        self._pulls, self._answers = WaitingPulls(), 0  # answers with parameters since the last update
        self._updated_at = 0.0

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.file.declaration.tensor

    def charge(self, seconds: float) -> None:
        """Add CPU time."""
        self.cpu_s += seconds

    def report_all_pushed(self) -> None:
        """Call `all_pushed` when every rank has pushed from now on."""
        self._ever_pushed = set()

    # -- push ---------------------------------------------------------------------------------------------------------------

    def place(self, connection: Connection, push: Push, payload_bytes: int) -> memoryview | None:
        """Return the memory for a gradient; None where it does not count."""
        assert connection.identity is not None
        rank = connection.identity.rank
        if refusal := self._refusal(push, rank, payload_bytes):
            connection.send(refusal)
            return None
        if push.step < self._expected_step(rank) or rank in self._pushed:
            return None  # it counts already
        self._job.pushing()
        if push.compress != COMPRESS_NONE:
            return memoryview(bytearray(payload_bytes))
        return memoryview(self._gradients[rank]).cast("B")

    def _refusal(self, push: Push, rank: int, payload_bytes: int) -> Refused | None:
        if self._elsewhere(push.epoch):
            return self._moved(push.step)
        if rank >= self._settings.workers:
            return self._fatal(push.step, f"rank {rank} of a job of {self._settings.workers} workers")
        if problem := self._transfers.problem(rank, push.compress, payload_bytes):
            return self._fatal(push.step, problem)
        if self.file.state == ACTIVE and push.step > self._expected_step(rank):
            return self._fatal(
                push.step, f"rank {rank} pushes step {push.step} after step {self._expected_step(rank) - 1}"
            )
        return None

    def _elsewhere(self, epoch: int) -> bool:
        return self.leaving or epoch != self.file.epoch

    def _moved(self, step: int) -> Refused:
        return Refused(refusal_codes.MOVED, f"tensor {self.name}: the master copy has moved", self.name, step)

    def _fatal(self, step: int, text: str) -> Refused:
        return Refused(refusal_codes.FATAL, f"tensor {self.name}: {text}"[:2000], self.name, step)

    def _expected_step(self, rank: int) -> int:
        return int(self.file.counts[2 + rank]) if self._asynchronous else self.file.version

    @property
    def _asynchronous(self) -> bool:
        return self._settings.mode == "asynchronous"

    def pushed(self, connection: Connection, push: Push, payload: memoryview) -> None:
        """Count a whole gradient, which was received into `payload`, and update the tensor when it was the last one."""
        assert connection.identity is not None
        rank = connection.identity.rank
        if self._elsewhere(push.epoch):
            connection.send(self._moved(push.step))
            return
        if push.compress != COMPRESS_NONE:
            self._transfers.store(payload, self._gradients[rank])
        self._pushed.add(rank)
        if rank == 0 or self._asynchronous:
            self._lr = push.lr
        self._note_pushed(rank)
        self._update_if_complete()

    def _note_pushed(self, rank: int) -> None:
        if self._ever_pushed is not None:
            self._ever_pushed.add(rank)
            if len(self._ever_pushed) == self._settings.workers and self.file.state == ACTIVE:
                self._ever_pushed = None
                self._job.all_pushed(self)

    def _update_if_complete(self) -> None:
        if self.file.state != ACTIVE:
            return  # the copy is not whole
        if self._asynchronous:
            for rank in sorted(self._pushed):
                self._update([rank])
        elif len(self._pushed) == self._settings.workers:
            self._update(range(self._settings.workers))

    def _update(self, ranks: range | list[int]) -> None:
        file, lr = self.file, self._lr if self._lr >= 0 else self.file.declaration.spec.options.get("lr", 0.0)
        gradients = [self._gradients[rank] for rank in ranks]
        numbers = StepNumbers(int(file.counts[0]), lr)
        self._pushed.difference_update(ranks)
        if not self._kernel.update(file.declaration.spec, numbers, gradients, file.current, file.spare):
            self._not_finite(ranks)
            if self._settings.on_nan == "stop":
                return
        else:
            self._commit(ranks, applied=1)
        self.updates, self._updated_at = self.updates + 1, time.monotonic()
        if self.move is not None and self._may_leave(self.move):
            self._leave()
        self._answers = 0
        self._job.updated(self)
        self._answer_pulls()

    def _commit(self, ranks: range | list[int], applied: int) -> None:
        counts = self.file.counts.copy()
        counts[0], counts[1] = counts[0] + applied, counts[1] + 1 - applied
        counts[[2 + rank for rank in ranks]] += 1
        self.file.commit(self.file.version + 1, counts.tolist())

    def _not_finite(self, ranks: range | list[int]) -> None:
        bad = ", ".join(str(rank) for rank in ranks if not np.isfinite(self._gradients[rank]).all())
        source = f"rank {bad}" if bad else "the sum"
        if self._settings.on_nan == "stop":
            self._failure = f"the gradient of {source} in step {self.file.version} has NaN or Inf"
            self._pulls.refuse(lambda step: self._fatal(step, self._failure))
            return
        self.skipped += 1
        for old, new in zip(buffers_of(self.file.current), buffers_of(self.file.spare), strict=True):
            new[:] = old
        self._commit(ranks, applied=0)

    # -- pull ---------------------------------------------------------------------------------------------------------------

    def pull(self, connection: Connection, content: Pull | PullState) -> None:
        """Answer with the parameters, now or when the step's update is committed."""
        if self._failure and not self._ready(content):
            connection.send(self._fatal(content.step, self._failure))
        elif content.epoch != self.file.epoch or (self.leaving and not self._ready(content)):
            connection.send(self._moved(content.step))
        elif self.file.state == ACTIVE and self._ready(content):
            self._answer(connection, content)
        elif self._push_is_missing(connection, content):
            connection.send(self._moved(content.step))  # its push counted in a copy that was dropped: both are repeated
        else:
            self._pulls.add(connection, content)

    def _push_is_missing(self, connection: Connection, content: Pull | PullState) -> bool:
        assert connection.identity is not None
        rank = connection.identity.rank
        if rank >= self._settings.workers or rank in self._pushed:
            return False
        return not self._asynchronous or int(self.file.counts[2 + rank]) < content.step

    def _ready(self, content: Pull | PullState) -> bool:
        if not self._asynchronous:
            return content.step <= self.file.version
        return content.step <= int(self.file.counts[2:].min()) + self._settings.staleness

    def _answer(self, connection: Connection, content: Pull | PullState) -> None:
        if isinstance(content, PullState):
            counts = tuple(self.file.counts[:2].tolist())
            copies = [bytes(part) for part in buffers_of(self.file.current)]
            connection.send(TensorState(self.name, self.file.version, counts), *copies)
            return
        moved = (self.move.to, self.move.epoch) if self.leaving and self.move is not None else ("", 0)
        # In synchronous mode the slot is written again only after each rank has received this answer and has pushed twice.
        parameters = self.file.current.parameters
        compress, parts = self._transfers.answer(self.file.version, parameters, self._asynchronous)
        connection.send(Parameters(self.name, self.file.version, *moved, compress), *parts)
        self._answers += 1
        if self._answers == self._settings.workers:
            self._job.pulled(self)

    def _answer_pulls(self) -> None:
        for pull in self._pulls.take(self._ready):
            self._answer(pull.connection, pull.content)
        if self.leaving:
            self._pulls.refuse(self._moved)

    def forget(self, connection: Connection) -> None:
        """Drop the pulls of a connection that has ended."""
        self._pulls.forget(connection)

    def refuse_late(self, now: float, lost: Collection[int], lost_rank_s: float) -> None:
        """Refuse the pulls that have waited too long for the pushes of other ranks; leave where no update is made any more."""
        waited_s = self._pulls.waited_s(now)
        absent = AbsentRanks(self._absent() if waited_s else (), lost, self._settings.push_timeout_s, lost_rank_s)
        if text := absent.problem(self.file.version, waited_s):
            self._pulls.refuse(lambda step: self._fatal(step, text))
        if self.file.state != ACTIVE and waited_s > STAGED_WAIT_S:
            self._pulls.refuse(self._moved)  # the old master may have kept the tensor
        if self.move and not self.leaving and now - max(self.move.planned, self._updated_at) > self.move.within_s:
            self._leave()
            self._answer_pulls()

    def _absent(self) -> list[int]:
        if self._asynchronous:
            return [int(rank) for rank in np.flatnonzero(self.file.counts[2:] == self.file.counts[2:].min())]
        return sorted(set(range(self._settings.workers)) - self._pushed)

    # -- migration ----------------------------------------------------------------------------------------------------------

    def _may_leave(self, move: PlannedMove) -> bool:
        return time.monotonic() - move.planned > move.paced_s or self._job.admits(self)

    def _leave(self) -> None:
        """Make no update from now on: the content is copied."""
        self.leaving = True
        self._pushed.clear()
        self._job.left(self)

    def stay(self, epoch: int) -> None:
        """Go on as the master, under a new epoch, after a failed migration."""
        self.move, self.leaving = None, False
        self._pushed.clear()
        self.file.assign(epoch, ACTIVE)
        self._pulls.refuse(self._moved)

    def begin(self) -> None:
        """Be the master: the copy is whole and committed. Gradients that arrived before count now."""
        self.file.assign(self.file.epoch, ACTIVE)
        if self._ever_pushed is not None and len(self._ever_pushed) == self._settings.workers:
            self._ever_pushed = None
            self._job.all_pushed(self)
        self._update_if_complete()
        self._answer_pulls()

    def give_up(self) -> None:
        """Refuse what waits: the tensor is elsewhere."""
        self._pulls.refuse(self._moved)

    def free_memory(self) -> None:
        """Free the pages of a tensor that was given up, when no answer with them is on its way. Any thread may call it."""
        self.file.free_pages()
        free_private(self._gradients)

    def replace(self, version: int, counts: list[int], run: int, generation: int) -> None:
        """Make what was written into the spare slot the content, for a new run of the job."""
        self.file.commit(version, counts)
        self.file.declare_run(run, generation)
        self._failure = ""
        self._transfers.forget()
        self._pushed.clear()
        self._answer_pulls()
