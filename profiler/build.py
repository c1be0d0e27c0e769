"""The recorder's libraries: those installed next to this file, or else built once from their C source.

    libraries().net      to be preloaded; records TCP connections
    libraries().nccl     a profiler plugin of NCCL, named to it by NCCL_PROFILER_PLUGIN
    libraries().verbs    found next to `net`, or named to NCCL; None where rdma-core's headers were missing
    problem()            why this host cannot have them, in one line

Where TIRESIAS_PROFILE_LIBRARIES names a folder they are taken from there (protocol/native_source.py). Standard library only:
wrappers import this on compute nodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tiresias.protocol import environment
from tiresias.protocol.native_source import NativeSource

SOURCE = Path(__file__).resolve().parent / "native"
NET, NCCL, VERBS = "libtiresias_net.so", "libtiresias_nccl.so", "libtiresias_verbs.so"


class Libraries(NamedTuple):
    """The paths of the built libraries."""

    net: Path
    nccl: Path
    verbs: Path | None


def libraries() -> Libraries:
    """Where they are, built if need be. Raises TiresiasError where that is not possible."""
    folder = _source().built()
    return Libraries(folder / NET, folder / NCCL, folder / VERBS if (folder / VERBS).exists() else None)


def problem() -> str:
    """Why `libraries` would fail on this host, in one line; "" where they are built or can be. Builds nothing."""
    return _source().problem()


def records_rdma() -> bool:
    """Whether the libraries record RDMA verbs; of those that are not built yet, whether they will. Raises TiresiasError."""
    folder = _source().place()
    return (folder / VERBS).exists() if (folder / NET).exists() else _has_verbs()


def _source() -> NativeSource:
    """Rdma-core's headers may be installed later: they are a part of the fingerprint."""
    return NativeSource(SOURCE, NET, environment.PROFILE_LIBRARIES, "the profiler's libraries", str(_has_verbs()))


def _has_verbs() -> bool:
    return Path("/usr/include/infiniband/verbs.h").exists()
