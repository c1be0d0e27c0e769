"""The checkpoint store and the training-side API. Standard library only at its core.

    from tiresias.checkpoint import Checkpointer

Names are looked up on first use, so that a program which only wants one part does not pay for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiresias.checkpoint.checkpointer import Checkpointer
    from tiresias.checkpoint.control import EXIT_REQUEUE
    from tiresias.checkpoint.manifest import CorruptCheckpoint
    from tiresias.checkpoint.retention import KeepEvery, KeepLast, KeepUntilVerified
    from tiresias.checkpoint.state import Checkpoint
    from tiresias.checkpoint.store import OtherWorldSize, SaveFailed, Store

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
    "Store",
]

_HOME = {
    "Checkpointer": "checkpointer",
    "EXIT_REQUEUE": "control",
    "CorruptCheckpoint": "manifest",
    "Checkpoint": "state",
    "KeepEvery": "retention",
    "KeepLast": "retention",
    "KeepUntilVerified": "retention",
    "OtherWorldSize": "store",
    "SaveFailed": "store",
    "Store": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
