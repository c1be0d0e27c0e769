"""Why a gang waits, as a code with parameters; `text()` is for logs and errors, views may use words of their own."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class WaitCode(IntEnum):
    """Why a gang is not bound now."""

    NO_CAPACITY = 0  # the VC, or the cluster for an opportunistic gang, has no free cells for it
    BAD_NODE = 1  # it fits only if it uses a bad node; node: its name
    NOT_SUGGESTED = 2  # it fits only if it uses a node that is not allowed; node: its name
    NO_HARDWARE = 3  # the VC has cells for it, and no physical cells to which they can be bound now
    NO_CHAIN = 4  # the VC has no cells of any chain that the gang may use
    BEING_PREEMPTED = 5  # its own preemption has begun


class WaitReason(NamedTuple):
    """A code with its parameters.

    Attributes:
        code: What happened.
        node: A node's name.
        cluster: The VC, "" for the physical cluster.
    """

    code: WaitCode
    node: str = ""
    cluster: str = ""

    def text(self) -> str:
        """Return the reason in words."""
        where = f"virtual cluster {self.cluster}" if self.cluster else "the cluster"
        return {
            WaitCode.NO_CAPACITY: f"not enough free cells in {where}",
            WaitCode.BAD_NODE: f"it would need the bad node {self.node or '(not bound)'} in {where}",
            WaitCode.NOT_SUGGESTED: f"it would need the node {self.node}, which is not allowed, in {where}",
            WaitCode.NO_HARDWARE: f"the free cells of {where} can be bound to bad or disallowed nodes only",
            WaitCode.NO_CHAIN: f"{where} has no cells of a chain with these GPUs",
            WaitCode.BEING_PREEMPTED: "it is being preempted",
        }[self.code]
