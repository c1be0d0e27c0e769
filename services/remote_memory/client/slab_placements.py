"""The placement of hot slabs: query two donors, map the slab at the emptier one, else query further donors."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tiresias.services.remote_memory.client.donor_links import DonorLinks
from tiresias.services.remote_memory.client.region_settings import RegionSettings
from tiresias.services.remote_memory.messages.donor_messages import FreeMemory, MapSlab, QueryMemory, SlabMapped
from tiresias.services.remote_memory.slabs.donor_choice import candidate_donors, emptiest_donor
from tiresias.services.remote_memory.slabs.slab_table import SlabMapping, SlabTable

AT_ONCE = 1  # slabs that are placed at the same time: which donors are new depends on the one before
NO_MEMORY_S = 1.0  # until donors are queried again after none had memory


class _Placement:
    """The placement of one slab: the donors that remain, and the answers of the current round."""

    def __init__(self, rounds: Iterator[list[str]]) -> None:
        self.rounds = rounds
        self.unasked: set[str] = set()
        self.asked: set[str] = set()
        self.free: dict[str, int] = {}
        self.mapping_at = ""
        self.deadline = 0.0


class SlabPlacements:
    """The placements of a region. Used under the region's lock.

    Args:
        settings: The region's.
        table: Its slabs.
        links: Its donors.
        random: The source of the choice.
    """

    def __init__(
        self, settings: RegionSettings, table: SlabTable, links: DonorLinks, random: Random | None = None
    ) -> None:
        self._settings, self._table, self._links = settings, table, links
        self._random = random or Random()
        self._placements: dict[int, _Placement] = {}
        self._wait_until = 0.0
        self.placed = 0

    def poll(self, now: float) -> None:
        """Continue placements and begin those of hot slabs."""
        for slab, placement in list(self._placements.items()):
            self._continue(slab, placement, now)
        if now < self._wait_until or not self._settings.donors or len(self._placements) >= AT_ONCE:
            return
        for slab in self._table.hot(now, self._settings.hot_slab):
            if slab not in self._placements and len(self._placements) < AT_ONCE:
                rounds = candidate_donors(self._links.usable(), self._table.donors(), self._random, self._settings.near)
                placement = self._placements[slab] = _Placement(rounds)
                self._next_round(slab, placement, now)

    def _next_round(self, slab: int, placement: _Placement, now: float) -> None:
        donors = next(placement.rounds, None)
        if donors is None:
            del self._placements[slab]
            self._wait_until = now + NO_MEMORY_S
            return
        placement.unasked, placement.asked, placement.free = set(donors), set(), {}
        placement.deadline = now + 2 * self._settings.donor_timeout_s
        self._continue(slab, placement, now)

    def _continue(self, slab: int, placement: _Placement, now: float) -> None:
        for donor in list(placement.unasked):
            self._query(placement, donor)
        if placement.mapping_at:
            if now >= placement.deadline:
                self._give_up(slab, placement, now)
        elif now >= placement.deadline or (not placement.unasked and placement.asked == placement.free.keys()):
            self._map(slab, placement, now)

    def _give_up(self, slab: int, placement: _Placement, now: float) -> None:
        """Drop a donor that does not answer to a mapping: the slab may be mapped there."""
        if link := self._links.get(placement.mapping_at):
            self._links.drop(link, "no answer to the mapping of a slab")
        self._next_round(slab, placement, now)

    def _query(self, placement: _Placement, donor: str) -> None:
        link = self._links.get(donor)
        if link is not None:
            placement.unasked.discard(donor)
            placement.asked.add(donor)
            free = placement.free  # of this round

            def answered(content: FreeMemory | SlabMapped | None) -> None:
                free[donor] = content.slabs if isinstance(content, FreeMemory) else 0

            self._links.guarded(link, lambda: link.ask(QueryMemory, answered))
        elif not self._links.connect(donor):
            placement.unasked.discard(donor)

    def _map(self, slab: int, placement: _Placement, now: float) -> None:
        chosen = emptiest_donor(placement.free)
        link = self._links.get(chosen) if chosen else None
        if chosen is None or link is None:
            self._next_round(slab, placement, now)
            return
        placement.mapping_at, placement.deadline = chosen, now + self._settings.donor_timeout_s

        def answered(content: FreeMemory | SlabMapped | None) -> None:
            if isinstance(content, SlabMapped):
                self._table.map(slab, SlabMapping(chosen, content.handle))
                self.placed += 1
                self._placements.pop(slab, None)
            elif self._placements.get(slab) is placement:  # it reported memory that it does not have, or is lost
                placement.mapping_at, placement.free = "", {}

        self._links.guarded(link, lambda: link.ask(lambda number: MapSlab(number, self._settings.slab_bytes), answered))
