"""Which user a client's process has, by munge: a donor that requires it maps no slab before that.

The credential is decoded by a thread: unmunge takes some milliseconds, and no other connection waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tiresias.errors import TiresiasError
from tiresias.services.remote_memory.messages.donor_messages import ProveUser
from tiresias.services.remote_memory.messages.job_key import owner_of_name
from tiresias.services.wire import refusal_codes
from tiresias.services.wire.connection import Connection
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.munge_credential import CredentialRefused, decode_credential
from tiresias.services.wire.server_loop import ServerLoop
from tiresias.services.wire.session_messages import Accepted, Refused

THREADS = 2
MOST_WAITING = 64


def check_user(credential: str, binding: str, job: str) -> None:
    """Check that a credential is of this connection and of the job's owner; root may use each job's key.

    Args:
        credential: Of munge.
        binding: Of the connection: wire/handshake.py.
        job: The name of the job whose key the client has.

    Raises:
        CredentialRefused: It is not.
    """
    uid, payload = decode_credential(credential)
    if payload != binding.encode():
        raise CredentialRefused("the credential is of another connection")
    owner = owner_of_name(job)
    if uid not in (0, os.geteuid() if owner is None else owner):
        raise CredentialRefused(f"user {uid} has the key of job {job}, which belongs to another user")


class UserProofs:
    """The proofs of a donor's connections. All but the decoding runs in the thread of the loop.

    Args:
        required: Whether a connection needs one.
        loop: The loop.
    """

    def __init__(self, required: bool, loop: Callable[[], ServerLoop]) -> None:
        self._required, self._loop = required, loop
        self._proved: set[Connection] = set()
        self._waiting: set[Connection] = set()
        self._threads = ThreadPoolExecutor(THREADS, "munge")

    def check(self, connection: Connection) -> None:
        """Raise BadFrame where a connection needs a proof and has none."""
        if self._required and connection not in self._proved:
            raise BadFrame(
                f'{connection.peer}: this donor requires a munge credential: set "munge": true at its clients'
            )

    def received(self, connection: Connection, content: ProveUser) -> None:
        """Begin to check a proof."""
        if connection in self._waiting or len(self._waiting) >= MOST_WAITING:
            raise BadFrame(f"{connection.peer}: too many credentials")
        self._waiting.add(connection)
        job = connection.identity.job if connection.identity else ""
        self._threads.submit(self._check, connection, content.credential, connection.binding, job)

    def _check(self, connection: Connection, credential: str, binding: str, job: str) -> None:
        problem = ""
        try:
            check_user(credential, binding, job)
        except TiresiasError as error:
            problem = str(error)
        self._loop().call(partial(self._checked, connection, problem))

    def _checked(self, connection: Connection, problem: str) -> None:
        if connection not in self._waiting:
            return  # closed meanwhile
        self._waiting.discard(connection)
        if problem:
            connection.send(Refused(refusal_codes.FATAL, problem))
        else:
            self._proved.add(connection)
            connection.send(Accepted())

    def closed(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._proved.discard(connection)
        self._waiting.discard(connection)

    def stop(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)
