"""A server: one thread that accepts, authenticates and serves many connections.

    loop = ServerLoop(handler, listening("0.0.0.0", 0))
    threading.Thread(target=loop.run).start()
    loop.call(lambda: ...)        # from another thread: run something in the loop's thread
    loop.stop()

A connection that is malformed, silent in the middle of a frame or not authenticated in time is closed; the others go on.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from tiresias.errors import TiresiasError, one_line
from tiresias.protocol.job_log import log_line
from tiresias.services.wire.channel import tuned
from tiresias.services.wire.connection import Closed, Connection, FrameHandler
from tiresias.services.wire.frame_guard import PROTECT_MAC, PROTECT_NONE, FrameGuard, direction_key
from tiresias.services.wire.frames import BadFrame
from tiresias.services.wire.handshake import KEY_BYTES, binding_of, check_proof, new_nonce, proof_of
from tiresias.services.wire.peer_identity import PeerIdentity, parsed_identity
from tiresias.services.wire.serve_order import ServeOrder
from tiresias.services.wire.session_messages import Accepted, Challenge, Hello, Proof, Refused

HANDSHAKE_TIMEOUT_S = 10.0
STALL_TIMEOUT_S = 60.0
MAX_CONNECTIONS = 4096
MAX_UNAUTHENTICATED = 256
TICK_S = 0.25
TURN_S = 0.002  # of serving in a chosen order before the sockets are polled again


def listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=512)


class HandedOver(Exception):
    """The connection belongs to another loop from now on."""


class ServerLoop:
    """The connections of one thread.

    Args:
        handler: What is done with frames.
        server: The listening socket; None for a loop that only gets connections of another loop.
        stall_timeout_s: Seconds without a byte in the middle of a frame.
        handshake_timeout_s: Seconds until a client is authenticated.
        name: The service, for the lines of the log.

    Attributes:
        protect: What is required for the frames after the handshake: "none" or "mac" (frame_guard.py).
        order: In which order connections are served; None for the order in which they become ready.
    """

    def __init__(
        self,
        handler: FrameHandler,
        server: socket.socket | None,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
        name: str = "parameter service",
    ) -> None:
        self._handler, self._server, self._name = handler, server, name
        self._stall_timeout_s, self._handshake_timeout_s = stall_timeout_s, handshake_timeout_s
        self._selector = selectors.DefaultSelector()
        self._challenges: dict[Connection, tuple[PeerIdentity, str, list[FrameGuard]]] = {}
        self._leaving: dict[Connection, ServerLoop] = {}
        self._calls: deque[Callable[[], None]] = deque()
        self._ticks: list[Callable[[], None]] = []
        self._stopping = False
        self._charged_at = 0.0
        self.connections: set[Connection] = set()
        self.order: ServeOrder | None = None
        self.protect = PROTECT_NONE
        self._held: set[Connection] = set()
        self._woken, self._wake = socket.socketpair()
        for sock in (self._woken, self._wake):
            sock.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        if server is not None:
            server.setblocking(False)
            self._selector.register(server, selectors.EVENT_READ)

    def call(self, work: Callable[[], None]) -> None:
        """Run `work` in the loop's thread; any thread may call it."""
        self._calls.append(work)
        with suppress(OSError):  # it is awake already, or has stopped
            self._wake.send(b"x")

    @staticmethod
    def now() -> float:
        """Return the time of the loop's deadlines, time.monotonic()."""
        return time.monotonic()

    def every_tick(self, work: Callable[[], None]) -> None:
        """Run `work` each TICK_S seconds; call it before run()."""
        self._ticks.append(work)

    def stop(self) -> None:
        """End run(); any thread may call it."""
        self._stopping = True
        self.call(lambda: None)

    def run(self) -> None:
        """Serve until stop()."""
        next_tick = time.monotonic() + TICK_S
        while not self._stopping:
            for key, events in self._turns(self._selector.select(self._pause(next_tick))):
                self._serve(key, events)
            for _ in range(len(self._calls)):
                self._calls.popleft()()
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + TICK_S
                self._tick()
        for connection in list(self.connections):
            self.close(connection)
        self._selector.close()
        self._woken.close()
        self._wake.close()

    def _pause(self, next_tick: float) -> float:
        pause = max(0.0, next_tick - time.monotonic())
        return min(pause, self.order.next_change_s()) if self._held and self.order else pause

    def _turns(self, ready: list[tuple[selectors.SelectorKey, int]]) -> Iterator[tuple[selectors.SelectorKey, int]]:
        """Yield what is served now; what is left of a long turn is polled again, with what has arrived meanwhile."""
        if self.order is None:
            yield from ready
            return
        yield from (each for each in ready if not isinstance(each[0].data, Connection))
        waiting = [each for each in ready if isinstance(each[0].data, Connection)]
        until = time.monotonic() + TURN_S
        while waiting and time.monotonic() < until:
            ranks = [self.order.rank(key.data) for key, _ in waiting]
            key, events = waiting.pop(ranks.index(min(ranks)))
            if events & selectors.EVENT_READ and not self.order.admits(key.data):
                self._held.add(key.data)
                self._poll_for(key.data)
                events &= ~selectors.EVENT_READ
            yield key, events
        for connection in filter(self.order.admits, list(self._held)):
            self._held.discard(connection)
            self._poll_for(connection)

    def _serve(self, key: selectors.SelectorKey, events: int) -> None:
        if isinstance(key.data, Connection):
            self._serve_connection(key.data, events)
        elif key.fileobj is self._server:
            self._accept()
        else:
            self._drain_wake()

    def _drain_wake(self) -> None:
        with suppress(BlockingIOError, InterruptedError):
            while self._woken.recv(4096):
                pass

    def _accept(self) -> None:
        assert self._server is not None
        try:
            sock, peer = self._server.accept()
        except OSError:
            return  # the client has gone already, or no descriptor is free: the next tick closes silent clients
        waiting = sum(each.identity is None for each in self.connections)
        if len(self.connections) >= MAX_CONNECTIONS or waiting >= MAX_UNAUTHENTICATED:
            sock.close()
            return
        self.add(Connection(tuned(sock), f"{peer[0]}:{peer[1]}"))

    def add(self, connection: Connection) -> None:
        """Serve a connection; call it in the loop's thread."""
        self.connections.add(connection)
        connection.wrote = lambda: self._poll_for(connection)
        connection.wrote()
        if connection.identity is not None:
            self._guarded(connection, lambda: connection.read_ahead(self._deliver, self._place))

    def hand_over(self, connection: Connection, other: ServerLoop) -> None:
        """Move a connection to another loop after the frame that is processed now; call it in this loop's thread."""
        self._leaving[connection] = other

    def _leave(self, connection: Connection) -> None:
        other = self._leaving.pop(connection)
        self._forget(connection)
        connection.wrote = lambda: None
        other.call(lambda: other.add(connection))

    def _poll_for(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        events = 0 if connection in self._held else selectors.EVENT_READ
        events |= selectors.EVENT_WRITE if connection.queued else 0
        known = self._selector.get_map().get(connection.sock)
        if known is None and events:
            self._selector.register(connection.sock, events, connection)
        elif known is not None and not events:
            self._selector.unregister(connection.sock)
        elif known is not None and known.events != events:
            self._selector.modify(connection.sock, events, connection)

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._held.discard(connection)
        if connection.sock in self._selector.get_map():
            self._selector.unregister(connection.sock)

    def _serve_connection(self, connection: Connection, events: int) -> None:
        if connection not in self.connections:
            return  # closed or handed over by an event before this one
        began = self._charged_at = time.thread_time()
        if events & selectors.EVENT_WRITE:
            connection.flush()
        if events & selectors.EVENT_READ:
            self._guarded(connection, lambda: connection.read(self._deliver, self._place))
        if self.order:
            self.order.charge(connection, time.thread_time() - began)

    def _guarded(self, connection: Connection, work: Callable[[], None]) -> None:
        try:
            work()
        except HandedOver:
            self._leave(connection)
        except Closed:
            self.close(connection)
        except TiresiasError as error:
            self.close(connection, str(error))
        except Exception as error:
            self.close(connection, f"{type(error).__name__}: {error}")  # a defect here harms this connection alone
        self._charge(connection)

    def _charge(self, connection: Connection) -> None:
        if connection.charged is not None:
            now = time.thread_time()
            connection.charged(now - self._charged_at)
            self._charged_at = now

    def _place(self, connection: Connection, content: Any, payload_bytes: int) -> memoryview | None:
        return self._handler.place(connection, content, payload_bytes)

    def _deliver(self, connection: Connection, content: Any, payload: memoryview | None) -> None:
        if connection not in self.connections:
            raise Closed
        if connection.identity is None:
            self._authenticate(connection, content)
        else:
            self._handler.received(connection, content, payload)
            self._charge(connection)
        if connection in self._leaving:
            raise HandedOver

    def _authenticate(self, connection: Connection, content: Any) -> None:
        if isinstance(content, Hello) and connection not in self._challenges:
            nonce, identity = new_nonce(), parsed_identity(content.identity)
            key = self._handler.key_of(identity) or secrets.token_bytes(KEY_BYTES)
            nonces = (content.nonce, nonce)
            proofs = [proof_of(key, side, content.identity, *nonces, self.protect) for side in ("server", "client")]
            guards = [FrameGuard(direction_key(key, side, *nonces)) for side in ("server", "client")]
            self._challenges[connection] = (identity, proofs[1], guards)
            connection.binding = binding_of(*nonces)
            connection.send(Challenge(nonce, proofs[0], self.protect))
        elif isinstance(content, Proof) and connection in self._challenges:
            identity, expected, guards = self._challenges.pop(connection)
            check_proof(expected, content.proof)
            connection.identity = identity
            self._handler.joined(connection)
            connection.send(Accepted())
            if self.protect == PROTECT_MAC:
                connection.protect(*guards)
        else:
            raise BadFrame(f"{connection.peer}: {type(content).__name__} before the handshake")

    def _tick(self) -> None:
        now = time.monotonic()
        for connection in list(self.connections):
            if connection.identity is None and now - connection.opened > self._handshake_timeout_s:
                self.close(connection, f"{connection.peer}: not authenticated within {self._handshake_timeout_s:g} s")
            elif connection.stalled and now - connection.moved_bytes > self._stall_timeout_s:
                self.close(
                    connection, f"{connection.peer}: no byte for {self._stall_timeout_s:g} s in the middle of a frame"
                )
        for work in self._ticks:
            work()

    def close(self, connection: Connection, reason: str = "") -> None:
        """Close a connection, with a last message where there is a reason; call it in the loop's thread."""
        if connection not in self.connections:
            return
        if reason:
            log_line(f"{self._name}: connection closed: {one_line(reason)}")
            self._last_words(connection, reason)
        self._forget(connection)
        self._challenges.pop(connection, None)
        connection.sock.close()
        if connection.identity is not None:
            self._handler.closed(connection)

    def _last_words(self, connection: Connection, reason: str) -> None:
        if not connection.queued:
            with suppress(TiresiasError):  # it reads nothing
                connection.send(Refused("protocol", one_line(reason)))
