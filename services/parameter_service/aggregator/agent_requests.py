"""The requests of agents: each reaches the tensors of its own job only. All of it runs in the thread of the data loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tiresias.errors import TiresiasError, UsageError
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.tensor_declaration import TensorDeclaration, declared
from tiresias.services.parameter_service.aggregator.tensor_file import ACTIVE, STAGED, buffers_of
from tiresias.services.parameter_service.messages.agent_messages import (
    InitTensor,
    Locate,
    Located,
    Pull,
    PullState,
    Push,
)
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.session_messages import Accepted, Refused


@dataclass(slots=True)
class _Upload:
    """The content of an InitTensor that is being received."""

    declaration: TensorDeclaration
    content: memoryview


class AgentRequests:
    """What agents request.

    Args:
        free_bytes: The memory that the aggregator may still use.
        draining: Whether the aggregator takes no new tensor.
    """

    def __init__(self, free_bytes: Callable[[], int], draining: Callable[[], bool]) -> None:
        self._free_bytes, self._draining = free_bytes, draining
        self._uploads: dict[Connection, _Upload] = {}
        self._receiving: dict[Connection, MasterCopy] = {}

    def place(self, job: HostedJob, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the memory for a payload; None where it is refused."""
        if isinstance(content, Push):
            return self._push_place(job, connection, content, payload_bytes)
        if isinstance(content, InitTensor):
            return self._upload_place(job, connection, content, payload_bytes)
        raise BadFrame(f"{type(content).__name__} with a payload")

    def received(self, job: HostedJob, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out a request."""
        if isinstance(content, Push):
            if payload is not None:
                copy = self._receiving.pop(connection)
                if copy is not _copy(job, content.tensor):  # it was dropped or replaced meanwhile
                    connection.send(_unknown(content.tensor, content.step))
                else:
                    connection.charged = copy.charge
                    copy.pushed(connection, content, payload)
        elif isinstance(content, Pull | PullState):
            self._pull(job, connection, content)
        elif isinstance(content, InitTensor):
            self._init(job, connection, content)
        elif isinstance(content, Locate):
            connection.send(_located(job, content.tensor))
        else:
            raise BadFrame(f"{type(content).__name__} from an agent")

    def forget(self, connection: Connection) -> None:
        """Drop what a connection has not completed."""
        self._uploads.pop(connection, None)
        self._receiving.pop(connection, None)

    def _push_place(self, job: HostedJob, connection: Connection, push: Push, size: int) -> memoryview | None:
        copy = _copy(job, push.tensor)
        if copy is None or self._of_another_run(copy, connection):
            connection.send(_unknown(push.tensor, push.step))
            return None
        self._receiving[connection] = copy
        return copy.place(connection, push, size)

    def _pull(self, job: HostedJob, connection: Connection, content: Pull | PullState) -> None:
        copy = _copy(job, content.tensor)
        if copy is None or self._of_another_run(copy, connection):
            connection.send(_unknown(content.tensor, content.step))
            return
        connection.charged = copy.charge
        copy.pull(connection, content)

    @staticmethod
    def _of_another_run(copy: MasterCopy, connection: Connection) -> bool:
        assert connection.identity is not None
        return connection.identity.run != copy.file.run

    # -- InitTensor -----------------------------------------------------------------------------------------------------------

    def _upload_place(
        self, job: HostedJob, connection: Connection, content: InitTensor, size: int
    ) -> memoryview | None:
        try:
            declaration = self._checked(job, connection, content)
            arrays = 1 + (declaration.spec.arrays if content.version else 0)
            if size != arrays * declaration.bytes:
                raise UsageError(
                    f"tensor {content.tensor}: {size} bytes of content in place of {arrays * declaration.bytes}"
                )
        except UsageError as error:
            connection.send(Refused(refusal_codes.FATAL, str(error)[:2000], content.tensor))
            return None
        upload = _Upload(declaration, memoryview(bytearray(size)))
        self._uploads[connection] = upload
        return upload.content

    def _checked(self, job: HostedJob, connection: Connection, content: InitTensor) -> TensorDeclaration:
        declaration = declared(content)
        assert connection.identity is not None
        if connection.identity.rank != 0:
            raise UsageError(f"tensor {content.tensor}: rank {connection.identity.rank} declares it; only rank 0 may")
        if len(content.counts) != (2 if content.version else 0):
            raise UsageError(f"tensor {content.tensor}: a restored version has two counts, a new one none")
        found = _copy(job, content.tensor)
        if found is None:
            if self._draining():
                raise UsageError(f"tensor {content.tensor}: this aggregator is drained; another one takes new tensors")
            job.check_memory(declaration, self._free_bytes())
        elif found.file.declaration != declaration:
            _check_redeclared(found, connection.identity.run)
        return declaration

    def _init(self, job: HostedJob, connection: Connection, content: InitTensor) -> None:
        upload = self._uploads.pop(connection, None)
        if upload is None:
            return  # refused before its content
        try:
            answer = self._stored(job, connection, content, upload)
        except (OSError, TiresiasError) as error:
            answer = Refused(refusal_codes.FATAL, f"tensor {content.tensor}: {error}"[:2000], content.tensor)
        connection.send(answer)

    def _stored(
        self, job: HostedJob, connection: Connection, content: InitTensor, upload: _Upload
    ) -> Accepted | Refused:
        assert connection.identity is not None
        run, copy = connection.identity.run, _copy(job, content.tensor)
        if content.tensor in job.moved or (copy is not None and (copy.leaving or copy.file.state != ACTIVE)):
            return Refused(refusal_codes.MOVED, f"tensor {content.tensor}: the master copy moves", content.tensor)
        if copy is not None and copy.file.run > run:
            raise UsageError(f"a newer run of job {job.settings.job} has declared it")
        if copy is not None and (copy.file.run, copy.file.generation) == (run, content.generation):
            return Accepted(content.tensor)  # repeated after a reconnect
        if copy is not None and copy.file.declaration != upload.declaration:
            copy.give_up()
            del job.tensors[content.tensor]
            copy = None
        if copy is None:
            copy = job.tensors[content.tensor] = job.create(upload.declaration, epoch=1, run=run)
        _fill(copy, upload.content)
        counts = [*(content.counts or (0, 0)), *[content.version] * job.settings.workers]
        copy.replace(content.version, counts, run, content.generation)
        return Accepted(content.tensor)


def _check_redeclared(found: MasterCopy, run: int) -> None:
    """Raise UsageError unless a newer run of the job declares a tensor in another way."""
    if found.file.run >= run:
        known = found.file.declaration
        raise UsageError(
            f"tensor {known.tensor} is declared twice: before with shape {list(known.shape)}, {known.dtype}, "
            f"{known.spec.name} {known.spec.options}"
        )


def _fill(copy: MasterCopy, content: memoryview) -> None:
    at = 0
    for part in buffers_of(copy.file.spare):
        rest = content[at : at + len(part)]
        part[:] = rest if len(rest) == len(part) else bytes(len(part))
        at += len(rest)


def _copy(job: HostedJob, name: str) -> MasterCopy | None:
    return job.tensors.get(name) or job.staged.get(name)


def _unknown(name: str, step: int) -> Refused:
    return Refused(refusal_codes.UNKNOWN, f"tensor {name[:200]}: not on this aggregator", name[:600], step)


def _located(job: HostedJob, name: str) -> Located:
    if copy := job.tensors.get(name):
        file = copy.file
        if copy.leaving:
            address, epoch = (copy.move.to, copy.move.epoch) if copy.move else (file.moved_to, file.epoch)
            return Located(name, "leaving", address, epoch, file.version, file.run)
        return Located(name, "active", "", file.epoch, file.version, file.run, file.generation)
    if moved := job.moved.get(name):
        return Located(name, "moved", moved.address, moved.epoch, 0, moved.run)
    if staged := job.staged.get(name):
        state = "staged" if staged.file.state == STAGED else "unknown"
        return Located(name, state, "", staged.file.epoch, staged.file.version, staged.file.run, staged.file.generation)
    return Located(name, "unknown", "", 0, 0, 0)
