"""The migration thread: copies tensors to other aggregators while the data thread serves agents (thesis, figure 4.5).

    1  MIGRATE_INIT            PrepareCopy to the new master: memory for the copy. Refused or lost: nothing has changed.
    2  an update               the answers to Pull name the new master; this aggregator makes no update any more (leaving). In each
                               step as many tensors leave as can be copied in the job's idle window (copy_pace.py)
    3  TENSOR_COPY             in the idle window: the content; the new master has it staged and updates nothing. Lost: repeated for
                               COPY_TIMEOUT_S, then this aggregator goes on as the master, under an epoch above the staged one
                               (rolled back)
    4  given up                durably, in the tensor's file. From here on the migration only goes forward.
    5  CommitCopy              repeated until the new master confirms it, also after a restart of this process
    6  TENSOR_COPY_DONE        to the manager; the new master reports WORKER_DONE when each rank has pushed to it

A tensor has one master: the new one begins with a commit, which is sent after step 4 alone, and a push counts under its epoch only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tiresias.errors import TiresiasError, UsageError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.parameter_service.aggregator.copy_pace import CopyPace
from tiresias.services.parameter_service.aggregator.copy_reports import PlannedMove
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.migration_queue import MigrationQueue, Urgency
from tiresias.services.parameter_service.aggregator.tensor_file import MOVED
from tiresias.services.parameter_service.messages.aggregator_messages import (
    CommitCopy,
    DiscardCopy,
    MigrateTensor,
    MigrationFailed,
    PrepareCopy,
    TensorCopy,
    TensorCopyDone,
)
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.channel import Buffer, Channel
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.server_loop import ServerLoop
from tiresias.services.wire.session_messages import Accepted

COPY_TIMEOUT_S = 20.0
TRANSFER_TIMEOUT_S = 30.0
RETRY_S = 0.2


def _size(copy: MasterCopy) -> int:
    return len(copy.file.current_bytes)


class PeerRefused(TiresiasError):
    """The other aggregator has refused a request."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class _Task(NamedTuple):
    """A piece of work of one migration; `until` is when it is given up, `within_s` and `paced_s` are those of MigrateTensor."""

    work: Callable[[_Task], None]
    job: HostedJob
    copy: MasterCopy
    to: str
    epoch: int
    until: float = 0.0
    within_s: float = 0.0
    paced_s: float = 0.0


class Migrations:
    """The migrations away from this aggregator.

    Args:
        identity: What this aggregator is to others.
        key: The service's key.
        data: The loop of the agents; what changes a tensor's assignment runs there.
        report: Sends an event to the manager; any thread may call it.
    """

    def __init__(self, identity: PeerIdentity, key: bytes, data: ServerLoop, report: Callable[[Any], None]) -> None:
        self._identity, self._key, self._data, self._report = identity, key, data, report
        self._tasks, self._pace = MigrationQueue(), CopyPace()
        self._channels: dict[str, Channel] = {}
        self._adopted: set[tuple[str, str]] = set()

    # -- called by the data thread ----------------------------------------------------------------------------------------------

    def plan(self, job: HostedJob, copy: MasterCopy, content: MigrateTensor) -> None:
        """Begin a migration.

        Raises:
            UsageError: The tensor is on its way to another aggregator.
        """
        to, epoch = content.to, copy.file.epoch
        if copy.file.state == MOVED:
            copy.file.give_up(epoch, to)  # the new master has another address now
            self._tasks.put(Urgency.COMMIT, _Task(self._commit, job, copy, to, epoch))
        elif copy.move is not None and copy.move.to != to:
            raise UsageError(f"tensor {copy.name} moves to {copy.move.to} already")
        elif copy.move is None:
            task = _Task(self._prepare, job, copy, to, epoch + 1, 0.0, content.within_s, content.paced_s)
            self._tasks.put_in_window(Urgency.PREPARE, job, task)

    def admits(self, job: HostedJob, copy: MasterCopy) -> bool:
        """Return whether the next idle window has the time to copy a tensor."""
        return job.settings.mode == "asynchronous" or self._pace.admits(_size(copy), job.window.expected_s)

    def left(self, job: HostedJob, copy: MasterCopy) -> None:
        """Copy a tensor whose last update here has been made, when the answers of the step are sent."""
        assert copy.move is not None
        self._pace.due(_size(copy))
        task = _Task(self._copy, job, copy, copy.move.to, copy.move.epoch, time.monotonic() + COPY_TIMEOUT_S)
        self._tasks.put_in_window(Urgency.COPY, job, task)

    def idle(self, job: HostedJob) -> None:
        """Begin what waits for the idle window of a job."""
        self._tasks.opened(job)

    def resume(self, job: HostedJob, copy: MasterCopy) -> None:
        """Commit a tensor that was given up before a restart."""
        self._tasks.put(Urgency.COMMIT, _Task(self._commit, job, copy, copy.file.moved_to, copy.file.epoch))

    # -- the thread -------------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry out tasks until stop()."""
        while (task := self._tasks.next()) is not None:
            try:
                task.work(task)
            except TiresiasError as error:
                log_line(one_line(f"parameter service: migration of {task.copy.name} to {task.to}: {error}"))
                self._failed(task, error)
            except Exception as error:  # the data thread and the other migrations go on
                log_line(one_line(f"parameter service: migration of {task.copy.name}: {type(error).__name__}: {error}"))
                self._failed(task, error)

    def stop(self) -> None:
        """End run()."""
        self._tasks.end()

    def _prepare(self, task: _Task) -> None:
        self._request_prepare(task)
        planned = PlannedMove(task.to, task.epoch, time.monotonic(), task.within_s, task.paced_s)

        def set_move() -> None:
            if task.copy.move is None:
                task.copy.move = planned

        self._data.call(set_move)

    def _request_prepare(self, task: _Task) -> None:
        if (task.to, task.job.settings.job) not in self._adopted:
            self._request(task.to, task.job.settings)
            self._adopted.add((task.to, task.job.settings.job))
        file = task.copy.file
        self._request(
            task.to,
            PrepareCopy(task.job.settings.job, file.declaration.to_object(), task.epoch, file.run, file.generation),
        )

    def _copy(self, task: _Task) -> None:
        began = time.monotonic()
        self._send_content(task)
        task.copy.file.give_up(task.epoch, task.to)
        self._commit(task._replace(work=self._commit))
        self._pace.ended(_size(task.copy), time.monotonic() - began)

    def _send_content(self, task: _Task) -> None:
        file = task.copy.file
        content = TensorCopy(task.job.settings.job, task.copy.name, task.epoch, file.version)
        try:
            self._request(task.to, content, file.current_bytes)
        except PeerRefused as refused:
            if refused.code != refusal_codes.UNKNOWN:
                raise
            self._request_prepare(task)  # it was restarted
            self._request(task.to, content, file.current_bytes)

    def _commit(self, task: _Task) -> None:
        content = CommitCopy(task.job.settings.job, task.copy.name, task.epoch)
        try:
            self._request(task.to, content)
        except PeerRefused as refused:
            if refused.code != refusal_codes.UNKNOWN:
                raise
            self._request_prepare(task)
            self._send_content(task)
            self._request(task.to, content)
        self._data.call(lambda: self._moved(task))

    def _moved(self, task: _Task) -> None:
        if task.job.tensors.get(task.copy.name) is task.copy:
            task.job.note_moved(task.copy.name)
            if task.job.answered:  # else the memory is freed with the last answer that has it
                free = task._replace(work=lambda task: task.copy.free_memory())
                self._tasks.put_in_window(Urgency.FREE, task.job, free)
        self._report(TensorCopyDone(task.job.settings.job, task.copy.name, task.to, task.epoch))

    def _failed(self, task: _Task, error: Exception) -> None:
        self._close(task.to)
        if task.work == self._prepare:
            self._report_failure(task, task.epoch - 1, error)
        elif task.copy.file.state == MOVED:
            self._pace.ended(_size(task.copy) if task.work == self._copy else 0)
            again = task._replace(work=self._commit, to=task.copy.file.moved_to)
            self._tasks.put(Urgency.COMMIT, again, RETRY_S)
        elif time.monotonic() < task.until and not isinstance(error, PeerRefused):
            self._tasks.put(Urgency.COPY, task, RETRY_S)
        else:
            self._pace.ended(_size(task.copy))
            self._roll_back(task, error)

    def _roll_back(self, task: _Task, error: Exception) -> None:
        try:
            self._request(task.to, DiscardCopy(task.job.settings.job, task.copy.name, task.epoch))
        except TiresiasError:
            self._close(task.to)  # what is staged there is never committed
        self._data.call(lambda: task.copy.stay(task.epoch + 1))
        self._report_failure(task, task.epoch + 1, error)

    def _report_failure(self, task: _Task, epoch: int, error: Exception) -> None:
        self._report(MigrationFailed(task.job.settings.job, task.copy.name, task.to, epoch, one_line(error)[:2000]))

    def _request(self, to: str, content: Any, *payload: Buffer) -> None:
        if to not in self._channels:
            self._channels[to] = Channel.connect(to, self._identity, self._key, TRANSFER_TIMEOUT_S)
        answer = self._channels[to].request(content, *payload)
        if not isinstance(answer, Accepted):
            raise PeerRefused(getattr(answer, "code", ""), getattr(answer, "text", "an unexpected answer"))

    def _close(self, to: str) -> None:
        if channel := self._channels.pop(to, None):
            channel.close()
        self._adopted = {pair for pair in self._adopted if pair[0] != to}
