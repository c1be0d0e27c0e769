"""The poke socket, by which hooks wake the daemon: any datagram means "start a cycle now".

Its content is never read, so every user may send. Hooks of slurmctld append a byte to the file `arrivals` for the same purpose:
job_submit.lua cannot send a datagram, and poke.sh needs no further program for it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from pathlib import Path

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.sockets.file_watch import FileWatch
from tiresias.slurm_plugin.sockets.notifier import Notifier
from tiresias.slurm_plugin.sockets.unix_socket import SocketFile, listen, reason_of

ARRIVALS_POLL_S = 0.1  # where the kernel does not report writes
SUBMISSION_S = 0.03  # until slurmctld lists a job about which job_submit.lua was asked
SUBMITTED = b"."  # what job_submit.lua appends
WATCHED_WAIT_S = 60.0  # where it does, at most; a wait without end is no time limit of select


class PokeSocket:
    """The socket and the file through which hooks wake the daemon.

    The file `arrivals` is beside the socket (notifier.py). Where it cannot be watched it is polled while waiting.

    Raises:
        TiresiasError: another daemon listens at `path`.
    """

    def __init__(self, path: Path) -> None:
        self._socket = listen(path, socket.SOCK_DGRAM)
        self._socket_file = SocketFile(path)
        self._arrivals = Notifier(path.with_name("arrivals"))
        self._watch: FileWatch | None = None
        with contextlib.suppress(OSError):
            self._watch = FileWatch(path.with_name("arrivals"))

    def wait(self, timeout: float) -> bool:
        """Return True at the first poke, False after `timeout` seconds without one. Accumulated pokes count once.

        job_submit.lua is called before slurmctld makes the job: a snapshot that is taken at once would lack it.
        """
        deadline = time.monotonic() + timeout
        longest = WATCHED_WAIT_S if self._watch else ARRIVALS_POLL_S
        while not (poked := self._poked(min(deadline - time.monotonic(), longest))):
            if time.monotonic() >= deadline:
                break
        return poked

    def close(self) -> None:
        """Close and remove the socket."""
        self._socket_file.remove()
        self._socket.close()
        self._arrivals.close()
        if self._watch:
            self._watch.close()

    def _poked(self, timeout: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            if self._watch:
                selector.register(self._watch, selectors.EVENT_READ)
            poked = any(key.fileobj is self._socket for key, _ in selector.select(max(timeout, 0.0)))
        if poked:
            self._drain()
        if self._watch:
            self._watch.clear()  # before the file is read: what is written after that is reported again
        arrived = self._arrivals.take()
        if SUBMITTED in arrived:
            time.sleep(SUBMISSION_S)
        return bool(arrived) or poked

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            for _ in range(1024):  # bounded: clients may send faster than the daemon reads
                self._socket.recv(1)


def poke(path: Path) -> None:
    """Wake the daemon.

    Raises:
        Unavailable: no daemon listens.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b".", os.fspath(path))
        except BlockingIOError:
            pass  # its queue is full of pokes
        except OSError as error:
            raise Unavailable(f"no controller listens at {path}: is it running? ({reason_of(error)})") from error
