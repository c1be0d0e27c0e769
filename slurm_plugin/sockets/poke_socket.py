"""The poke socket, by which hooks wake the daemon: any datagram means "start a cycle now".

Its content is never read, so every user may send. job_submit.lua appends a byte to the file `arrivals` for the same purpose.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from pathlib import Path

from tiresias.errors import Unavailable
from tiresias.slurm_plugin.sockets.notifier import Notifier
from tiresias.slurm_plugin.sockets.unix_socket import SocketFile, listen, reason_of

ARRIVALS_POLL_S = 0.1


class PokeSocket:
    """The socket and the file through which hooks wake the daemon.

    job_submit.lua cannot send a datagram: it appends a byte to the file `arrivals` beside the socket, which is polled while
    waiting (notifier.py).

    Raises:
        TiresiasError: another daemon listens at `path`.
    """

    def __init__(self, path: Path) -> None:
        self._socket = listen(path, socket.SOCK_DGRAM)
        self._socket_file = SocketFile(path)
        self._arrivals = Notifier(path.with_name("arrivals"))

    def wait(self, timeout: float) -> bool:
        """Return True at the first poke, False after `timeout` seconds without one. Accumulated pokes count once."""
        deadline = time.monotonic() + timeout
        while not (poked := self._poked(min(deadline - time.monotonic(), ARRIVALS_POLL_S))):
            if time.monotonic() >= deadline:
                break
        return poked

    def close(self) -> None:
        """Close and remove the socket."""
        self._socket_file.remove()
        self._socket.close()
        self._arrivals.close()

    def _poked(self, timeout: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            poked = bool(selector.select(max(timeout, 0.0)))
        if poked:
            self._drain()
        return self._arrivals.was_notified() or poked

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
