"""The messages between clients and donors, after the thesis (section 2.6.1).

    client -> donor    donor -> client
    ProveUser          Accepted, Refused
    QueryMemory        FreeMemory
    MapSlab            SlabMapped, Refused
    WritePages         PagesWritten, Refused
    ReadPages          PagesRead, Refused
    ReturnSlab
    ReportActivity     CheckActivity
    SlabsEvicted       EvictSlabs

`request` is the client's number of a request and returns in the answer, in `step` of Refused. A slab is known by its handle, which
belongs to the connection that mapped it; it ends with the connection.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiresias.services.wire.typed_messages import message

ACTIVITY_UNIT = 1000  # activities are sent as whole thousandths of page requests per second


@message(128)
@dataclass(frozen=True, slots=True)
class QueryMemory:
    """Ask how many slabs can be mapped."""

    request: int


@message(129)
@dataclass(frozen=True, slots=True)
class FreeMemory:
    """How many slabs can be mapped."""

    request: int
    slabs: int


@message(130)
@dataclass(frozen=True, slots=True)
class MapSlab:
    """Map a slab of `slab_bytes` bytes; the donor's slabs must have that size."""

    request: int
    slab_bytes: int


@message(131)
@dataclass(frozen=True, slots=True)
class SlabMapped:
    """A slab is mapped; its content is zero."""

    request: int
    handle: int


@message(132)
@dataclass(frozen=True, slots=True)
class CheckActivity:
    """Ask for the activity of slabs."""

    round: int
    handles: tuple[int, ...]


@message(133)
@dataclass(frozen=True, slots=True)
class ReportActivity:
    """The activity of slabs, in thousandths of page requests per second."""

    round: int
    handles: tuple[int, ...]
    activity: tuple[int, ...]


@message(134)
@dataclass(frozen=True, slots=True)
class EvictSlabs:
    """The donor needs the memory of these slabs."""

    handles: tuple[int, ...]


@message(135)
@dataclass(frozen=True, slots=True)
class SlabsEvicted:
    """The client uses these slabs no longer."""

    handles: tuple[int, ...]


@message(136)
@dataclass(frozen=True, slots=True)
class WritePages:
    """Write the payload to a slab from byte `offset` on."""

    request: int
    handle: int
    offset: int


@message(137)
@dataclass(frozen=True, slots=True)
class PagesWritten:
    """The payload of a WritePages is stored."""

    request: int


@message(138)
@dataclass(frozen=True, slots=True)
class ReadPages:
    """Read `size` bytes of a slab from byte `offset` on."""

    request: int
    handle: int
    offset: int
    size: int


@message(139)
@dataclass(frozen=True, slots=True)
class PagesRead:
    """The content is the payload."""

    request: int


@message(140)
@dataclass(frozen=True, slots=True)
class ReturnSlab:
    """The client uses a slab no longer; there is no answer."""

    handle: int


@message(141)
@dataclass(frozen=True, slots=True)
class ReadDonorStatistics:
    """Ask for the donor's statistics; of the service alone."""


@message(142)
@dataclass(frozen=True, slots=True)
class DonorStatistics:
    """The donor's statistics: donor_process.py."""

    statistics: object


@message(143)
@dataclass(frozen=True, slots=True)
class ProveUser:
    """Prove the user of the client's process by a munge credential, whose payload is the binding of the connection."""

    credential: str
