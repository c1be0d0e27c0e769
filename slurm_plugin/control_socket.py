"""How viewers ask the daemon, and how hooks wake it: two Unix sockets in its run folder.

control.sock  stream: one line of JSON asks, one line of JSON answers, then it hangs up. Read-only: anyone may ask.
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
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiresias.errors import TiresiasError, Unavailable

MAX_REQUEST = 64 * 1024
MAX_CLIENTS = 128
CLIENT_SECONDS = 10.0  # from connecting to the last byte of the answer
_CHUNK = 256 * 1024
_ARRIVALS_SECONDS = 0.1  # between two looks at the arrivals
_EVERYONE = 0o666
_LONGEST_PATH = 107  # sun_path of unix(7) is 108 bytes with its final NUL

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]


class ControlServer:
    """Serves `answer` on `path` from its own thread, from construction until `close`.

    `answer(request)` runs in that thread and must not block. It may raise TiresiasError: the client gets the message.
    An answer that is the same object as the one before is not encoded again, so publish whole dictionaries and never
    change them.
    Raises TiresiasError when another daemon answers at `path` or the socket cannot be made.
    """

    def __init__(self, path: Path, answer: Answer) -> None:
        self._answer = answer
        self._socket = _listen(path, socket.SOCK_STREAM)
        self._place = _Place(path)
        self._wake, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._last: tuple[object, bytes] = (None, b"")
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
            self._drop_oldest()  # somebody who hoards connections loses his own
        try:
            connection, _ = self._socket.accept()
        except BlockingIOError:
            return  # the client has gone again
        except OSError:  # out of descriptors
            self._drop_oldest()
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
                    client.reply(self._encoded_answer(client.request))
                    self._selector.modify(client.socket, selectors.EVENT_WRITE)
        except BlockingIOError:
            return
        except OSError:
            finished = True
        if finished:
            self._drop(client)

    def _encoded_answer(self, request: bytes) -> bytes:
        try:
            answer = self._answer(_parsed(request))
            if answer is not self._last[0]:
                self._last = (answer, _line(answer))
            return self._last[1]
        except TiresiasError as error:
            return _line({"error": str(error)})
        except Exception as error:  # a defect in one answer must not end the service for everyone
            return _line({"error": f"the controller could not answer: {type(error).__name__}: {error}"})

    def _drop_oldest(self) -> None:
        if self._clients:
            self._drop(next(iter(self._clients.values())))

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
        connection.connect(os.fspath(path))
        connection.sendall(line)
        while data := connection.recv(_CHUNK):
            received += data
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
    if not received.endswith(b"\n"):
        raise ConnectionError("it hung up in the middle of its answer" if received else "it hung up without an answer")
    return bytes(received)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error) if isinstance(error, OSError) else "its answer is no JSON"


class PokeSocket:
    """Where hooks wake the daemon. Raises TiresiasError when another daemon listens at `path`.

    job_submit.lua cannot send a datagram: it appends a byte to the file `arrivals` beside the socket, which is looked at
    while waiting. The file is open to the daemon's group: give the daemon slurmctld's, or arrivals wait for the period.
    """

    def __init__(self, path: Path) -> None:
        self._socket = _listen(path, socket.SOCK_DGRAM)
        self._place = _Place(path)
        self._arrivals = os.open(path.with_name("arrivals"), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o660)
        os.fchmod(self._arrivals, 0o660)  # whatever the umask

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
        os.close(self._arrivals)

    def _poked(self, timeout: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            poked = bool(selector.select(max(timeout, 0.0)))
        if poked:
            self._drain()
        arrived = os.fstat(self._arrivals).st_size > 0
        if arrived:
            os.ftruncate(self._arrivals, 0)
        return poked or arrived

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


class _Place:
    """Remembers which file a socket was bound to, so that only that one is removed, never a successor's."""

    def __init__(self, path: Path) -> None:
        self._path, self._identity = path, _identity(path)

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            if _identity(self._path) == self._identity:
                self._path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _listen(path: Path, kind: socket.SocketKind) -> socket.socket:
    """A non-blocking socket of `kind` at `path`, open to everyone, in place of one that a killed daemon left behind."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    if len(os.fsencode(temporary)) > _LONGEST_PATH:
        raise TiresiasError(f"the path {path} is too long for a Unix socket: choose a shorter paths.run")
    _refuse_if_taken(path, kind)
    server = socket.socket(socket.AF_UNIX, kind)
    try:
        temporary.unlink(missing_ok=True)
        server.bind(os.fspath(temporary))
        temporary.chmod(_EVERYONE)
        if kind == socket.SOCK_STREAM:
            server.listen(MAX_CLIENTS)
        temporary.replace(path)  # nobody ever meets it half made
    except OSError as error:
        server.close()
        raise TiresiasError(
            f"cannot make the socket {path}: {error.strerror}: check that paths.run is writable"
        ) from error
    server.setblocking(False)
    return server


def _refuse_if_taken(path: Path, kind: socket.SocketKind) -> None:
    try:
        is_socket = stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return  # nothing there; what else is wrong, bind will say
    if not is_socket:
        raise TiresiasError(f"{path} exists and is no socket: remove it or choose another paths.run")
    with socket.socket(socket.AF_UNIX, kind) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return  # left behind by a daemon that was killed
        except OSError:
            pass  # somebody is there, though busy or not ours to reach
    raise TiresiasError(f"another controller listens at {path}: stop it first, or choose another paths.run")
