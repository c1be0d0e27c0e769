"""The requests of the manager and of other aggregators, in a thread of their own: a copy never holds up the agents' requests.

What changes a job or an assignment runs in the data loop; its answer is sent by this loop. The content of a copy is received here,
into memory that no agent's request uses yet. Events go to the connections that have subscribed, which use them for nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from tiresias.errors import TiresiasError, UsageError
from tiresias.services.parameter_service.aggregator.hosted_job import HostedJob
from tiresias.services.parameter_service.aggregator.master_copy import MasterCopy
from tiresias.services.parameter_service.aggregator.tensor_declaration import TensorDeclaration, declaration_of
from tiresias.services.parameter_service.aggregator.tensor_file import ACTIVE, PREPARING, STAGED
from tiresias.services.parameter_service.messages.aggregator_messages import (
    AdoptJob,
    CommitCopy,
    DiscardCopy,
    DrainAggregator,
    DropJob,
    MigrateTensor,
    PlanCycle,
    PrepareCopy,
    ReadStatistics,
    StatisticsReport,
    Subscribe,
    TensorCopy,
)
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.server_loop import ServerLoop
from tiresias.services.wire.session_messages import Accepted, Refused


class ServedState(Protocol):
    """What the service's requests change; every method but `job` is called in the data thread."""

    def job(self, name: str) -> HostedJob:
        """Return a job, UsageError where it is not here."""
        ...

    def adopt(self, settings: AdoptJob) -> None:
        """Take a job."""
        ...

    def drop(self, name: str) -> None:
        """Remove a job."""
        ...

    def migrate(self, content: MigrateTensor) -> None:
        """Begin a migration."""
        ...

    def drain(self, content: DrainAggregator) -> None:
        """Begin the migration of every tensor."""
        ...

    def plan_cycle(self, content: PlanCycle) -> None:
        """Take another execution cycle."""
        ...

    def statistics(self) -> dict[str, Any]:
        """Return the statistics."""
        ...

    def free_bytes(self) -> int:
        """Return the memory that is not used."""
        ...


class ServiceRequests:
    """The handler of the service's connections.

    Args:
        state: What they change.
        data: The loop of the agents.
    """

    def __init__(self, state: ServedState, data: ServerLoop) -> None:
        self._state, self._data = state, data
        self.loop: ServerLoop
        self._subscribers: set[Connection] = set()
        self._work: dict[type[Any], Callable[[Any], None]] = {
            AdoptJob: self._state.adopt,
            DropJob: lambda content: self._state.drop(content.job),
            MigrateTensor: self._state.migrate,
            DrainAggregator: self._state.drain,
            PlanCycle: self._state.plan_cycle,
            CommitCopy: self._commit,
            DiscardCopy: self._discard,
        }

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        """Return no key: the data loop authenticates."""
        return None

    def joined(self, connection: Connection) -> None:
        """Do nothing: the data loop hands connections over."""

    def closed(self, connection: Connection) -> None:
        """Forget a subscriber."""
        self._subscribers.discard(connection)

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return the memory of a staged copy."""
        if not isinstance(content, TensorCopy):
            raise BadFrame(f"{type(content).__name__} with a payload")
        try:
            copy = self._state.job(content.job).staged.get(content.tensor)
        except UsageError:
            copy = None
        if copy is None or copy.file.epoch != content.epoch or copy.file.state != PREPARING:
            return None
        place = copy.file.spare_bytes
        return place if len(place) == payload_bytes else None

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out a request."""
        if type(content) in self._work:
            work = self._work[type(content)]
            self._answer_from_data(connection, lambda: work(content))
        elif isinstance(content, TensorCopy):
            connection.send(self._staged(content, payload))
        elif isinstance(content, PrepareCopy):
            self._prepare(connection, content)
        elif isinstance(content, ReadStatistics):
            self._send_statistics(connection)
        elif isinstance(content, Subscribe):
            self._subscribers.add(connection)
            connection.send(Accepted())
        else:
            raise BadFrame(f"{type(content).__name__} from a part of the service")

    def report(self, event: Any) -> None:
        """Send an event to the subscribers; any thread may call it."""

        def send() -> None:
            for connection in self._subscribers:
                connection.send(event)

        self.loop.call(send)

    def _answer_from_data(self, connection: Connection, work: Callable[[], None]) -> None:
        def in_data() -> None:
            answer = _outcome(work)
            self.loop.call(lambda: connection.send(answer))

        self._data.call(in_data)

    def _send_statistics(self, connection: Connection) -> None:
        def in_data() -> None:
            payload = json.dumps(self._state.statistics()).encode()
            self.loop.call(lambda: connection.send(StatisticsReport(), payload))

        self._data.call(in_data)

    # -- the new master of a migration --------------------------------------------------------------------------------------------

    def _prepare(self, connection: Connection, content: PrepareCopy) -> None:
        """Check in the data thread, allocate in this one, register in the data thread, answer here."""

        def check() -> tuple[HostedJob, TensorDeclaration | None]:
            job, declaration = self._state.job(content.job), declaration_of(content.declaration)
            return job, self._to_create(job, declaration, content.epoch)

        def allocate(job: HostedJob, declaration: TensorDeclaration) -> None:
            answer, copy = _made(lambda: job.create_staged(declaration, content.epoch, content.run))
            if copy is None:
                connection.send(answer)
                return
            made = copy
            self._answer_from_data(connection, lambda: register(job, made))

        def register(job: HostedJob, copy: MasterCopy) -> None:
            copy.report_all_pushed()
            copy.file.declare_run(content.run, content.generation)
            job.staged[copy.name] = copy

        def in_data() -> None:
            try:
                job, declaration = check()
            except TiresiasError as error:
                refusal = Refused(refusal_codes.FATAL, str(error)[:2000])
                self.loop.call(lambda: connection.send(refusal))
                return
            if declaration is None:
                self.loop.call(lambda: connection.send(Accepted()))
            else:
                self.loop.call(lambda: allocate(job, declaration))

        self._data.call(in_data)

    def _to_create(self, job: HostedJob, declaration: TensorDeclaration, epoch: int) -> TensorDeclaration | None:
        """Return the declaration, None where the copy is prepared already."""
        active = job.tensors.get(declaration.tensor)
        if active is not None and active.file.state == ACTIVE:
            raise UsageError(f"tensor {declaration.tensor}: this aggregator is its master")
        staged = job.staged.get(declaration.tensor)
        if (
            staged
            and staged.file.state == PREPARING
            and (staged.file.epoch, staged.file.declaration) == (epoch, declaration)
        ):
            return None
        if staged:
            job.discard_staged(declaration.tensor)
        job.check_memory(declaration, self._state.free_bytes())
        return declaration

    def _staged(self, content: TensorCopy, payload: memoryview | None) -> Accepted | Refused:
        if payload is None:
            return Refused(refusal_codes.UNKNOWN, f"tensor {content.tensor}: no copy is prepared here", content.tensor)
        file = self._state.job(content.job).staged[content.tensor].file
        file.commit_received(content.version)
        file.assign(content.epoch, STAGED)
        return Accepted(content.tensor)

    def _commit(self, content: CommitCopy) -> None:
        job = self._state.job(content.job)
        active, staged = job.tensors.get(content.tensor), job.staged.get(content.tensor)
        if active is not None and active.file.epoch >= content.epoch:
            return  # committed before
        moved = job.moved.get(content.tensor)
        if moved is not None and moved.epoch > content.epoch:
            return  # committed, and moved on
        if staged is None or staged.file.epoch != content.epoch or staged.file.state != STAGED:
            raise NotPrepared(f"tensor {content.tensor}: no copy of epoch {content.epoch} is staged here")
        job.commit_staged(content.tensor)

    def _discard(self, content: DiscardCopy) -> None:
        job = self._state.job(content.job)
        staged = job.staged.get(content.tensor)
        if staged is not None and staged.file.epoch <= content.epoch:
            job.discard_staged(content.tensor)


class NotPrepared(TiresiasError):
    """A copy is not here: the old master may send it again."""


def _outcome(work: Callable[[], None]) -> Accepted | Refused:
    try:
        work()
    except NotPrepared as error:
        return Refused(refusal_codes.UNKNOWN, str(error)[:2000])
    except (TiresiasError, OSError) as error:
        return Refused(refusal_codes.FATAL, str(error)[:2000])
    return Accepted()


def _made(work: Callable[[], MasterCopy]) -> tuple[Accepted | Refused, MasterCopy | None]:
    try:
        return Accepted(), work()
    except (TiresiasError, OSError) as error:
        return Refused(refusal_codes.FATAL, f"no memory for a copy: {error}"[:2000]), None
