"""The connections to donors: made by threads, so that pages do not wait for a node that is gone; one for each donor."""

from __future__ import annotations

import queue
import selectors
import threading
import time
from collections.abc import Callable

from tiresias.errors import TiresiasError
from tiresias.protocol.job_log import log_line
from tiresias.services.remote_memory.client.donor_link import DonorEvents, DonorLink
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.client.user_proof import prove_user
from tiresias.services.wire.channel import Channel

LONGEST_RETRY = 60  # times retry_s


class DonorLinks:
    """The donors of a region. Used under the region's lock.

    Args:
        settings: The region's.
        events: What messages of donors lead to.
    """

    def __init__(self, settings: RegionSettings, events: DonorEvents) -> None:
        self._settings, self._events = settings, events
        self._links: dict[str, DonorLink] = {}
        self._selector = selectors.EpollSelector()
        self._connecting: set[str] = set()
        self._connected: queue.SimpleQueue[tuple[str, Channel | str]] = queue.SimpleQueue()
        self._failures: dict[str, int] = {}
        self._retry_at: dict[str, float] = {}
        self._connected_at: dict[str, float] = {}
        self._closed = False

    @property
    def connected(self) -> int:
        """How many donors are connected."""
        return len(self._links)

    def usable(self) -> list[str]:
        """Return the donors that are connected or can be tried now."""
        now = time.monotonic()
        return [each for each in self._settings.donors if each in self._links or now >= self._retry_at.get(each, 0.0)]

    def get(self, address: str) -> DonorLink | None:
        """Return the connection to a donor; None where there is none."""
        return self._links.get(address)

    def all(self) -> list[DonorLink]:
        """Return all connections."""
        return list(self._links.values())

    def connect(self, address: str) -> bool:
        """Begin to connect where there is no connection; return whether one may come."""
        if address not in self._connecting:
            if address in self._links or time.monotonic() < self._retry_at.get(address, 0.0):
                return address in self._links
            self._connecting.add(address)
            threading.Thread(target=self._connect, args=(address,), name=f"to {address}", daemon=True).start()
        return True

    def _connect(self, address: str) -> None:
        settings = self._settings
        try:
            channel = _connected(address, settings)
        except TiresiasError as error:
            self._connected.put((address, str(error)))
        else:
            self._connected.put((address, channel))
            if self._closed:
                channel.close()

    def take_connected(self) -> None:
        """Take over what threads have connected."""
        while not self._connected.empty():
            address, found = self._connected.get()
            self._connecting.discard(address)
            if isinstance(found, str):
                self.avoid(address, found)
                continue
            link = self._links[address] = DonorLink(found, self._events)
            self._selector.register(link, selectors.EVENT_READ, link)
            self._connected_at[address] = time.monotonic()

    def avoid(self, address: str, reason: str) -> None:
        """Do not try a donor for a while, longer with each failure in sequence."""
        failures = self._failures[address] = self._failures.get(address, 0) + 1
        if failures == 1:
            log_line(f"remote memory: donor {address} is not used for a while: {reason}")
        wait = self._settings.retry_s * min(LONGEST_RETRY, 2 ** (failures - 1))
        self._retry_at[address] = time.monotonic() + wait

    def drop(self, link: DonorLink, reason: str) -> None:
        """End a connection; its slabs are lost."""
        if self._links.get(link.address) is not link:
            return
        del self._links[link.address]
        self._selector.unregister(link)
        self._events.lost(link.address)
        link.close()
        if time.monotonic() - self._connected_at[link.address] > LONGEST_RETRY * self._settings.retry_s:
            self._failures.pop(link.address, None)  # it was in use for long
        self.avoid(link.address, reason)

    def guarded(self, link: DonorLink, work: Callable[[], None]) -> bool:
        """Do something with a connection and drop it where that fails; return whether it did not fail."""
        try:
            work()
        except TiresiasError as error:
            self.drop(link, str(error))
            return False
        return True

    def poll(self, timeout_s: float = 0.0) -> None:
        """Receive what has arrived, at most one message of each donor."""
        for key, _ in self._selector.select(timeout_s):
            link: DonorLink = key.data
            if self._links.get(link.address) is link:
                self.guarded(link, link.receive)

    def fileno(self) -> int:
        """Return a descriptor that is readable when a donor has sent something."""
        return self._selector.fileno()

    def close(self) -> None:
        """End all connections."""
        self._closed = True
        for link in list(self._links.values()):
            self._selector.unregister(link)
            link.close()
        self._links.clear()
        self._selector.close()
        while not self._connected.empty():
            found = self._connected.get()[1]
            if isinstance(found, Channel):
                found.close()


def _connected(address: str, settings: RegionSettings) -> Channel:
    channel = Channel.connect(address, settings.identity, settings.key, settings.donor_timeout_s)
    try:
        if settings.munge:
            prove_user(channel)
    except BaseException:
        channel.close()
        raise
    return channel
