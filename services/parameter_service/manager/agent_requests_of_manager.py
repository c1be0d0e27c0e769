"""What the manager does with the messages of agents: the handler of its loop. A job reaches only what its key authenticates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tiresias.errors import TiresiasError, Unavailable, UsageError, one_line
from tiresias.services.parameter_service.manager.registered_jobs import RegisteredJobs
from tiresias.services.parameter_service.messages.manager_messages import (
    MAX_TABLE_BYTES,
    EndJob,
    Locations,
    PlaceTensors,
    ReportIteration,
    ReportProfile,
    TensorPlacement,
)
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.peer_identity import PeerIdentity
from tiresias.services.wire.session_messages import Accepted, Refused

NO_MASTERS: Mapping[str, int] = {}


class ManagerRequests:
    """The handler of the manager's ServerLoop.

    Args:
        jobs: The registered jobs.
        address_of: Returns the address of an aggregator by job and number, "" while it does not run or does not have the job.
        measured_work: Returns the work of a job's blocks as the aggregators measure it; raises UsageError.
        active: Called with the job of each message.
        check_tensors: Called with a job and the sizes of its tensors; raises UsageError where they exceed a limit.
        note_for: Returns a line for a job's log, once, with which its next report of an iteration is refused; "" for none.
        check_usable: Called before each request; raises Unavailable where the manager must not change anything now.
    """

    def __init__(
        self,
        jobs: RegisteredJobs,
        address_of: Callable[[str, int], str],
        measured_work: Callable[[str], dict[str, float]],
        active: Callable[[str], None] = lambda job: None,
        check_usable: Callable[[], None] = lambda: None,
        check_tensors: Callable[[str, dict[str, int]], None] = lambda job, sizes: None,
        note_for: Callable[[str], str] = lambda job: "",
    ) -> None:
        self._jobs, self._address_of, self._measured_work = jobs, address_of, measured_work
        self._active, self._check_usable, self._check_tensors = active, check_usable, check_tensors
        self._note_for = note_for

    def key_of(self, identity: PeerIdentity) -> bytes | None:
        """Return the key of a registered job."""
        return self._jobs.key_of(identity.job) if identity.job else None

    def joined(self, connection: Connection) -> None:
        """Nothing is kept for a connection."""

    def closed(self, connection: Connection) -> None:
        """Nothing was kept for it."""

    def place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        """Return a buffer for a table of tensors.

        Raises:
            BadFrame: A message without a table, or too large a one.
        """
        if not isinstance(content, PlaceTensors | ReportProfile) or payload_bytes > MAX_TABLE_BYTES:
            raise BadFrame(f"{type(content).__name__} with a payload of {payload_bytes} bytes")
        return memoryview(bytearray(payload_bytes))

    def received(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        """Carry out a request and answer it."""
        assert connection.identity is not None
        job = connection.identity.job
        self._active(job)
        try:
            self._check_usable()
            if isinstance(content, PlaceTensors):
                sizes = _table(payload, int)
                self._check_tensors(job, sizes)
                self._jobs.init(job, sizes)
                self._send_placement(connection, job)
            elif isinstance(content, Locations):
                self._send_placement(connection, job, self._jobs.masters(job))
            else:
                self._changed(connection, content, payload)
                connection.send(Accepted())
        except BadFrame:
            raise  # it ends the connection
        except Unavailable as error:
            connection.send(Refused("later", one_line(error)))
        except TiresiasError as error:
            connection.send(Refused("refused", one_line(error)))

    def _changed(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        assert connection.identity is not None
        job, rank = connection.identity.job, connection.identity.rank
        if isinstance(content, EndJob):
            self._jobs.end(job)
        elif rank != 0:
            raise UsageError(f"{type(content).__name__} is sent by rank 0; this is rank {rank}")
        elif isinstance(content, ReportProfile):
            work_s = self._measured_work(job) if payload is None else _table(payload, float)
            self._jobs.profiled(job, content.iteration_s, work_s)
        elif isinstance(content, ReportIteration):
            if not 0 < content.iteration_s < float("inf"):
                raise UsageError(f"an iteration of {content.iteration_s} s")
            self._jobs.observe(job, content.iteration_s)
            if note := self._note_for(job):
                raise Unavailable(note)
        else:
            raise BadFrame(f"{type(content).__name__} to the manager")

    def _send_placement(self, connection: Connection, job: str, masters: Mapping[str, int] = NO_MASTERS) -> None:
        """Send where the blocks are assigned to, and for blocks that move to there, where they are."""
        target = self._jobs.target(job)
        before = {f"{block} before": number for block, number in masters.items() if target.get(block) != number}
        found = {block: self._address_of(job, number) for block, number in {**target, **before}.items()}
        ready = bool(found) and all(found.values())
        connection.send(TensorPlacement(ready), *([json.dumps(found).encode()] if ready else []))


def _table(payload: memoryview | None, kind: type) -> dict[str, Any]:
    """Return a JSON object of numbers.

    Raises:
        UsageError: It is none.
    """
    try:
        content = json.loads(bytes(payload or b""))
    except (ValueError, RecursionError):
        content = None
    allowed = (int,) if kind is int else (int, float)
    if not isinstance(content, dict) or not all(type(each) in allowed for each in content.values()):
        raise UsageError("the payload is no JSON object of numbers")
    return content
