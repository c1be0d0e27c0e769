"""Requests of a job to the manager that leads; the file that the manager publishes is read before each connection."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from tiresias.errors import Unavailable, UsageError, one_line
from tiresias.services.parameter_service.agent.service_job import ServiceJob
from tiresias.services.parameter_service.messages.manager_messages import MAX_TABLE_BYTES, RegisterJob, TensorPlacement
from tiresias.services.wire.channel import Channel, address_of, tuned
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.munge_credential import encode_credential
from tiresias.services.wire.peer_identity import agent_identity
from tiresias.services.wire.session_messages import Accepted, Refused
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE

LATER = "later"  # the code of a refusal after which the request is to be repeated
TIMEOUT_S = 30.0
MAX_PUBLISHED_BYTES = 4096


class NotNow(Unavailable):
    """The manager refuses a job for now: the budget has too few aggregators left."""


def published_manager(file: Path) -> dict[str, Any]:
    """Return what the manager that leads has published: address, registration and uid.

    Raises:
        Unavailable: No manager has published anything there.
    """
    try:
        with file.open("rb") as opened:
            content = json.loads(opened.read(MAX_PUBLISHED_BYTES))
        for name in ("address", "registration"):
            address_of(content[name])
        return {"uid": int(content["uid"]), "address": content["address"], "registration": content["registration"]}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, BadFrame) as error:
        raise Unavailable(f"{file}: no manager of the parameter service: {one_line(error)}") from None


def register(published: Path, job: str, key: str, servers: int, workers: int, compress: str = COMPRESS_NONE) -> None:
    """Register a job by a munge credential, which the service account alone can decode. Repeated, it changes nothing.

    Raises:
        NotNow: The budget has too few aggregators left.
        Unavailable: The manager or munge cannot be reached.
        UsageError: The manager refuses the job.
    """
    manager = published_manager(published)
    slurm_job = os.environ.get("SLURM_JOB_ID", "")
    content = {"job": job, "key": key, "servers": servers, "workers": workers, "compress": compress}
    content |= {"slurm_job": int(slurm_job)} if slurm_job.isdecimal() else {}
    credential = encode_credential(json.dumps(content).encode(), manager["uid"])
    try:
        sock = socket.create_connection(address_of(manager["registration"]), TIMEOUT_S)
    except OSError as error:
        raise Unavailable(f"manager {manager['registration']}: {error.strerror or error}") from None
    channel = Channel(tuned(sock), manager["registration"], TIMEOUT_S)
    try:
        _check(channel.request(RegisterJob(credential)))
    finally:
        channel.close()


class ManagerLink:
    """The connection of one rank to the manager. It belongs to one thread.

    Args:
        job: This process.
        published: The file that the manager publishes.
        timeout_s: Seconds to connect, and without a byte of an answer.
    """

    def __init__(self, job: ServiceJob, published: Path, timeout_s: float = TIMEOUT_S) -> None:
        self._job, self._published, self._timeout_s = job, published, timeout_s
        self._channel: Channel | None = None

    def request(self, content: Any, table: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the answer to a message, and its table. A lost connection is made anew by the next request.

        Raises:
            Unavailable: The manager cannot be reached; the request is to be repeated.
            UsageError: The manager refuses it.
        """
        received = bytearray()

        def place(_: Any, count: int) -> memoryview:
            if count > MAX_TABLE_BYTES:
                raise BadFrame(f"a table of {count} bytes from the manager")
            received.extend(bytes(count))
            return memoryview(received)

        payload = [] if table is None else [json.dumps(table).encode()]
        try:
            answer = self._connected().request(content, *payload, place=place)
        except Unavailable:
            self.close()
            raise
        _check(answer)
        return answer, dict(json.loads(received)) if received else {}

    def close(self) -> None:
        """Close the connection."""
        if self._channel:
            self._channel.close()
        self._channel = None

    def _connected(self) -> Channel:
        if self._channel is None:
            address = published_manager(self._published)["address"]
            identity = agent_identity(self._job.name, self._job.rank, self._job.run)
            self._channel = Channel.connect(address, identity, self._job.key, self._timeout_s)
        return self._channel


def _check(answer: Any) -> None:
    if isinstance(answer, Refused):
        kind = NotNow if answer.code == LATER else UsageError
        raise kind(f"the parameter service refuses: {one_line(answer.text)}")
    if not isinstance(answer, Accepted | TensorPlacement):
        raise BadFrame(f"{type(answer).__name__} from the manager")
