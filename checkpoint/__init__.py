"""The checkpoint store and the training-side API. Standard library only at its core.

    from tiresias.checkpoint import Checkpointer

Names are looked up on first use, so that a program which uses one part does not import the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiresias.checkpoint.checkpointer import Checkpointer
    from tiresias.checkpoint.retention import KeepEvery, KeepLast, KeepUntilVerified
    from tiresias.checkpoint.server_report import ServerReport
    from tiresias.checkpoint.state import Checkpoint
    from tiresias.checkpoint.store import OtherWorldSize, SaveFailed, Store
    from tiresias.errors import CorruptCheckpoint
    from tiresias.protocol.control import EXIT_REQUEUE

__all__ = [
    "EXIT_REQUEUE",
    "Checkpoint",
    "Checkpointer",
    "CorruptCheckpoint",
    "KeepEvery",
    "KeepLast",
    "KeepUntilVerified",
    "OtherWorldSize",
    "SaveFailed",
    "ServerReport",
    "Store",
]

_HOME = {
    "Checkpointer": "tiresias.checkpoint.checkpointer",
    "EXIT_REQUEUE": "tiresias.protocol.control",
    "CorruptCheckpoint": "tiresias.errors",
    "Checkpoint": "tiresias.checkpoint.state",
    "KeepEvery": "tiresias.checkpoint.retention",
    "KeepLast": "tiresias.checkpoint.retention",
    "KeepUntilVerified": "tiresias.checkpoint.retention",
    "OtherWorldSize": "tiresias.checkpoint.store",
    "SaveFailed": "tiresias.checkpoint.store",
    "ServerReport": "tiresias.checkpoint.server_report",
    "Store": "tiresias.checkpoint.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
