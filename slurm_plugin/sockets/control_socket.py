"""How viewers ask the daemon, and how hooks wake it: two Unix sockets in its run folder.

control.sock  stream: one line of JSON asks, one line of JSON answers, then it hangs up. Anyone may ask; who asks, the
              kernel says, and who may order is decided by what answers (orders.py).
poke.sock     datagrams: any datagram means "look now". Its content is never read, so anyone may send.
arrivals      a file that job_submit.lua appends a byte to, for the same.

One thread serves all clients without ever waiting for one of them: a client that is slow, silent or hostile costs a
bounded buffer until its time is up, and never delays the daemon's cycle or another client.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable
from tiresias.slurm_plugin.sockets.notifier import Notifier
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.unix_socket import SocketFile, listen

MAX_REQUEST = 64 * 1024
MAX_CLIENTS = 128
CLIENT_SECONDS = 10.0  # from connecting to the last byte of the answer
_CHUNK = 256 * 1024
_KEPT = 3  # answers: the status, a page of it, and one more
_ARRIVALS_SECONDS = 0.1  # between two looks at the arrivals

Answer = Callable[[dict[str, Any], Peer], Mapping[str, Any]]


class ControlServer:
    """Serves `answer` on `path` from its own thread, from construction until `close`.

    `answer(request, peer)` runs in that thread and must not block. It may raise TiresiasError: the client gets the message.
    An answer that is the same object as one of the last few is not encoded again, so publish whole dictionaries and
    never change them.
    Raises TiresiasError when another daemon answers at `path` or the socket cannot be made.
    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self._answer = answer
        self._socket = listen(path, socket.SOCK_STREAM)
        self._place = SocketFile(path)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._encoded: deque[tuple[object, bytes]] = deque(maxlen=_KEPT)
        self._thread = threading.Thread(target=self._serve, name="control-socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._place.leave()
        self._wake.send(b".")
        self._thread.join()
        for each in (*self._clients, self._socket, self._wake, self._woken):
            each.close()
        self._selector.close()

    def __enter__(self) -> ControlServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            ready = [key.fileobj for key, _ in self._selector.select(timeout=1.0)]
            if self._woken in ready:
                return
            for each in ready:
                if each is self._socket:
                    self._accept()
                elif isinstance(each, socket.socket) and each in self._clients:  # not one dropped earlier in this round
                    self._advance(self._clients[each])
            self._drop_late()

    def _accept(self) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            self._drop_one()  # somebody who hoards connections loses his own
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return  # the client has gone again
        except OSError:  # out of descriptors
            self._drop_one()
            time.sleep(0.05)
            return
        connection.setblocking(False)
        self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _advance(self, client: _Client) -> None:
        try:
            if client.writing:
                finished = client.write()
            else:
                finished = client.read()
                if client.request is not None:
                    client.reply(self._encoded_answer(client.request, client.peer))
                    self._selector.modify(client.socket, selectors.EVENT_WRITE)
        except BlockingIOError:
            return
        except OSError:
            finished = True
        if finished:
            self._drop(client)

    def _encoded_answer(self, request: bytes, peer: Peer) -> bytes:
        try:
            return self._encode(self._answer(_parsed(request), peer))
        except TiresiasError as error:
            return _line({"error": str(error)})
        except Exception as error:  # a defect in one answer must not end the service for everyone
            return _line({"error": f"the controller could not answer: {type(error).__name__}: {error}"})

    def _encode(self, answer: Mapping[str, Any]) -> bytes:
        for known, line in self._encoded:
            if known is answer:
                return line
        self._encoded.append((answer, _line(answer)))
        return self._encoded[-1][1]

    def _drop_one(self) -> None:
        """The oldest of the user who has most of them."""
        if self._clients:
            count = Counter(client.peer.uid for client in self._clients.values())
            greediest, _ = count.most_common(1)[0]
            self._drop(next(client for client in self._clients.values() if client.peer.uid == greediest))

    def _drop_late(self) -> None:
        now = time.monotonic()
        for client in [each for each in self._clients.values() if each.deadline < now]:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        self._selector.unregister(client.socket)
        del self._clients[client.socket]
        client.socket.close()


class _Client:
    """One connection: it reads one line, then writes one. `read` and `write` say True when it is over."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.peer = Peer.of(connection)
        self.deadline = time.monotonic() + CLIENT_SECONDS
        self.request: bytes | None = None
        self.writing = False
        self._received = bytearray()
        self._unsent = memoryview(b"")

    def read(self) -> bool:
        data = self.socket.recv(_CHUNK)
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline and len(line) <= MAX_REQUEST:
            self.request = bytes(line)
        elif len(self._received) > MAX_REQUEST:
            self.request = b""  # answered as what it is: no request
        return not data

    def reply(self, answer: bytes) -> None:
        self.writing, self._unsent = True, memoryview(answer)

    def write(self) -> bool:
        self._unsent = self._unsent[self.socket.send(self._unsent[:_CHUNK]) :]
        return not self._unsent


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _parsed(request: bytes) -> dict[str, Any]:
    try:
        content = json.loads(request)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise TiresiasError(f'a request is one line of JSON of at most {MAX_REQUEST} bytes, such as {{"op": "status"}}')
    return content


def ask(path: Path, request: Mapping[str, Any], timeout: float = 5.0) -> dict[str, Any]:
    """The daemon's answer to `request`, within `timeout` seconds in all.

    Raises Unavailable when no daemon answers, TiresiasError with the daemon's words when it answers with an error.
    """
    try:
        answer = json.loads(_exchange(path, _line(request), timeout))
    except (OSError, ValueError) as error:
        raise Unavailable(f"no controller answers at {path}: is it running? ({_reason(error)})") from error
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise TiresiasError(answer["error"])
    if not isinstance(answer, dict):
        raise Unavailable(f"what answers at {path} is no Tiresias controller")
    return answer


def _exchange(path: Path, line: bytes, timeout: float) -> bytes:
    deadline = time.monotonic() + timeout
    received = bytearray()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        _connect(connection, path, deadline)
        connection.sendall(line)
        while data := connection.recv(_CHUNK):
            received += data
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
    if not received.endswith(b"\n"):
        raise ConnectionError("it hung up in the middle of its answer" if received else "it hung up without an answer")
    return bytes(received)


def _connect(connection: socket.socket, path: Path, deadline: float) -> None:
    while True:
        try:
            return connection.connect(os.fspath(path))
        except BlockingIOError:  # a crowd waits to be accepted
            if time.monotonic() > deadline:
                raise TimeoutError from None
            time.sleep(0.01)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) if isinstance(error, OSError) else "its answer is no JSON"


class PokeSocket:
    """Where hooks wake the daemon. Raises TiresiasError when another daemon listens at `path`.

    job_submit.lua cannot send a datagram: it appends a byte to the file `arrivals` beside the socket, which is looked at
    while waiting (bell.py).
    """

    def __init__(self, path: Path) -> None:
        self._socket = listen(path, socket.SOCK_DGRAM)
        self._place = SocketFile(path)
        self._arrivals = Notifier(path.with_name("arrivals"))

    def wait(self, timeout: float) -> bool:
        """True at the first poke, False after `timeout` seconds without one. Pokes that have piled up count once."""
        deadline = time.monotonic() + timeout
        while not (poked := self._poked(min(deadline - time.monotonic(), _ARRIVALS_SECONDS))):
            if time.monotonic() >= deadline:
                break
        return poked

    def close(self) -> None:
        self._place.leave()
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
            for _ in range(1024):  # bounded: somebody may send faster than we read
                self._socket.recv(1)


def poke(path: Path) -> None:
    """Wake the daemon. Raises Unavailable when there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b".", os.fspath(path))
        except BlockingIOError:
            pass  # its queue is full of pokes: it will wake
        except OSError as error:
            raise Unavailable(f"no controller listens at {path}: is it running? ({_reason(error)})") from error
