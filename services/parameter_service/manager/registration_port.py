"""The port on which jobs register: one message, one answer, and the connection ends. munged authenticates the sender.

Each connection has a thread, as unmunge takes some milliseconds; there are few at a time. A silent client holds its thread only.
"""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from tiresias.errors import TiresiasError, Unavailable, UsageError, one_line
from tiresias.services.parameter_service.messages.manager_messages import RegisterJob
from tiresias.services.wire.channel import Channel, tuned
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.munge_credential import decode_credential
from tiresias.services.wire.session_messages import Accepted, Refused
from tiresias.services.wire.shuffled_payload import COMPRESS_NONE

MAX_THREADS = 64
TIMEOUT_S = 10.0


class Registration(NamedTuple):
    """A registration whose sender munged has certified."""

    job: str
    uid: int
    key: bytes
    servers: int
    workers: int
    account: str = ""  # in Slurm; only where accounts have limits
    compress: str = COMPRESS_NONE


class RegistrationPort:
    """Accepts registrations in threads.

    Args:
        server: The listening socket.
        register: Carries out a registration; called in a thread of this port; raises TiresiasError.
        account_of: Returns the account of a Slurm job, given its id and its owner; raises TiresiasError.
    """

    def __init__(
        self,
        server: socket.socket,
        register: Callable[[Registration], None],
        account_of: Callable[[int, int], str] = lambda slurm_job, uid: "",
    ) -> None:
        self._server, self._register, self._account_of = server, register, account_of
        self._free = threading.Semaphore(MAX_THREADS)

    def start(self) -> None:
        """Accept from now on, in a thread that ends with the process."""
        threading.Thread(target=self._accept, name="registration", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._server.accept()
            except OSError:
                return  # the socket was closed
            self._free.acquire()
            channel = Channel(tuned(sock), f"{peer[0]}:{peer[1]}", TIMEOUT_S)
            sock.settimeout(TIMEOUT_S)
            threading.Thread(target=self._serve, args=(channel,), daemon=True).start()

    def _serve(self, channel: Channel) -> None:
        try:
            with suppress(Unavailable):  # the client has gone
                channel.send(self._answer(channel))
        finally:
            channel.close()
            self._free.release()

    def _answer(self, channel: Channel) -> Accepted | Refused:
        try:
            content = channel.receive()
            if not isinstance(content, RegisterJob):
                raise BadFrame(f"{type(content).__name__} in place of RegisterJob")
            found, slurm_job = parsed_registration(content.credential)
            self._register(found._replace(account=self._account_of(slurm_job, found.uid)))
        except Unavailable as error:
            return Refused("later", one_line(error))
        except TiresiasError as error:
            return Refused("refused", one_line(error))
        return Accepted()


def parsed_registration(credential: str) -> tuple[Registration, int]:
    """Decode a credential; return the registration and the Slurm job that its sender names, 0 for none.

    Raises:
        CredentialRefused: It is not accepted.
        UsageError: Its payload is no registration.
    """
    uid, payload = decode_credential(credential)
    try:
        content = json.loads(payload)
        key = bytes.fromhex(content["key"])
        numbers = [content[name] for name in ("servers", "workers")]
        slurm_job, compress = content.get("slurm_job", 0), content.get("compress", COMPRESS_NONE)
        if (
            not isinstance(content["job"], str)
            or not isinstance(compress, str)
            or any(type(each) is not int for each in [*numbers, slurm_job])
        ):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise UsageError("the credential has no JSON object with job, key, servers and workers") from None
    return Registration(content["job"], uid, key, *numbers)._replace(compress=compress), slurm_job


class LoopCall:
    """Runs a function in the thread of a loop, and returns its result to the calling thread.

    Args:
        call: Runs something in that thread: ServerLoop.call.
    """

    def __init__(self, call: Callable[[Callable[[], None]], None]) -> None:
        self._call = call

    def run(self, work: Callable[[], None], timeout_s: float = 60.0) -> None:
        """Run `work` and raise what it raises.

        Raises:
            Unavailable: The loop is busy or ends.
        """
        done: queue.SimpleQueue[TiresiasError | None] = queue.SimpleQueue()

        def carried_out() -> None:
            try:
                work()
            except TiresiasError as error:
                done.put(error)
            else:
                done.put(None)

        self._call(carried_out)
        try:
            error = done.get(timeout=timeout_s)
        except queue.Empty:
            raise Unavailable("the manager is busy; try again") from None
        if error:
            raise error
