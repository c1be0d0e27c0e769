"""The daemon's side of control.sock, by which viewers query it and administrators give orders.

The client sends one line of JSON, the daemon answers with one line of JSON and closes. Every user may query; the kernel reports the
user, and admin_requests.py decides which users may give orders. control_client.py is the other side.

One thread serves all clients and waits for none of them: a client that is slow, silent or hostile costs a bounded buffer
until its time is up, and never delays the daemon's cycle or another client.
"""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError
from tiresias.slurm_plugin.sockets.peer import Peer
from tiresias.slurm_plugin.sockets.unix_socket import SocketFile, listen

MAX_REQUEST_BYTES = 64 * 1024
MAX_CLIENTS = 128
CLIENT_TIMEOUT_S = 10.0  # from the connection to the request, and from the first byte of the answer to the last
CHUNK_BYTES = 256 * 1024
ENCODED_ANSWERS = 3  # kept: the status, a page of it, and one more

Answer = Callable[[dict[str, Any], Peer], Mapping[str, Any]]


class ControlServer:
    """Serves `answer` on `path` from its own thread, from construction until `close`.

    `answer(request, peer)` runs in that thread and must not block. It may raise TiresiasError: the client gets the message.
    An answer that is the same object as one of the last few is not encoded again: publish whole dictionaries and never
    change them.

    Raises:
        TiresiasError: another daemon answers at `path`, or the socket cannot be made.
    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self._answer = answer
        self._socket = listen(path, socket.SOCK_STREAM)
        self._socket_file = SocketFile(path)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._encoded: deque[tuple[object, bytes]] = deque(maxlen=ENCODED_ANSWERS)
        self._thread = threading.Thread(target=self._serve, name="control-socket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and remove the socket."""
        self._socket_file.remove()
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
            self._drop_one()  # of the user with most connections
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return  # the client has disconnected
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
        """Close the oldest connection of the user with most connections."""
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
    """One connection: it reads one line, then writes one. `read` and `write` return True at its end."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.peer = Peer.of(connection)
        self.deadline = time.monotonic() + CLIENT_TIMEOUT_S
        self.request: bytes | None = None
        self.writing = False
        self._received = bytearray()
        self._unsent = memoryview(b"")

    def read(self) -> bool:
        data = self.socket.recv(CHUNK_BYTES)
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline and len(line) <= MAX_REQUEST_BYTES:
            self.request = bytes(line)
        elif len(self._received) > MAX_REQUEST_BYTES:
            self.request = b""  # answered as an invalid request
        return not data

    def reply(self, answer: bytes) -> None:
        self.writing, self._unsent = True, memoryview(answer)
        self.deadline = time.monotonic() + CLIENT_TIMEOUT_S  # making a large answer takes seconds

    def write(self) -> bool:
        self._unsent = self._unsent[self.socket.send(self._unsent[:CHUNK_BYTES]) :]
        return not self._unsent


def _line(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


def _parsed(request: bytes) -> dict[str, Any]:
    try:
        content = json.loads(request)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise TiresiasError(
            f'a request is one line of JSON of at most {MAX_REQUEST_BYTES} bytes, such as {{"op": "status"}}'
        )
    return content
