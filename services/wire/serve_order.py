"""The order in which a server's loop serves its connections: an interface for servers that have one."""

from __future__ import annotations

from typing import Protocol

from tiresias.services.wire.connection import Connection


class ServeOrder(Protocol):
    """The order in which connections are served that have something to receive. Each call is made by the thread of the loop."""

    def rank(self, connection: Connection) -> float:
        """Return a number; the connection with the least one is served next."""
        ...

    def admits(self, connection: Connection) -> bool:
        """Return whether a connection may be read now; otherwise it is asked for again after next_change_s()."""
        ...

    def charge(self, connection: Connection, seconds: float) -> None:
        """Add the CPU time of serving a connection once."""
        ...

    def next_change_s(self) -> float:
        """Return the seconds after which a connection that was not admitted may be."""
        ...
