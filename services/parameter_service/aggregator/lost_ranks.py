"""The ranks of a job that a step waits for: those that have not pushed, and those whose connection has ended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tiresias.services.wire.peer_identity import PeerIdentity


class LostRanks:
    """The ranks of the newest run whose connection has ended and was not made again; one that was never there is not lost."""

    def __init__(self) -> None:
        self._run = -1
        self._since: dict[int, float] = {}

    def joined(self, rank: PeerIdentity) -> None:
        """Take note of a connection. A new run begins without lost ranks."""
        if rank.run > self._run:
            self._run = rank.run
            self._since.clear()
        if rank.run == self._run:
            self._since.pop(rank.rank, None)

    def left(self, rank: PeerIdentity, now: float) -> None:
        """Take note of the end of a rank's last connection."""
        if rank.run == self._run:
            self._since[rank.rank] = now

    def for_longer_than(self, seconds: float, now: float) -> frozenset[int]:
        """Return the ranks that are lost for longer."""
        return frozenset(rank for rank, since in self._since.items() if now - since > seconds)


@dataclass(frozen=True, slots=True)
class AbsentRanks:
    """The ranks whose pushes a step waits for.

    Attributes:
        ranks: Their numbers.
        lost: Those whose connection has ended and was not made again for lost_rank_s.
        push_timeout_s: Seconds that a step waits for a rank.
        lost_rank_s: Seconds that it waits for one whose connection has ended.
    """

    ranks: Collection[int]
    lost: Collection[int]
    push_timeout_s: float
    lost_rank_s: float

    def problem(self, step: int, waited_s: float) -> str:
        """Return why a pull that has waited so long is refused, "" where it waits on."""
        lost = sorted(set(self.ranks) & set(self.lost))
        if lost and waited_s > self.lost_rank_s:
            return f"{_named(lost)} lost the connection and has not connected again within {self.lost_rank_s:g} s"
        if waited_s > self.push_timeout_s:
            return f"{_named(sorted(self.ranks))} has not pushed step {step} within {self.push_timeout_s:g} s"
        return ""


def _named(ranks: Sequence[int]) -> str:
    return f"rank {', '.join(map(str, ranks))}"
