"""Check whether traffic of jobs can be recorded: the profiler's libraries on this host, or the tools that build them."""

from __future__ import annotations

from tiresias.errors import TiresiasError
from tiresias.profiler import build
from tiresias.protocol import environment
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine

_ABOUT = "profiler"
_REMEDY = (
    "the wheel or package with built libraries on all nodes; or make -C profiler/native OUT=DIR once, "
    f"and {environment.PROFILE_LIBRARIES}=DIR in jobs' environment"
)
_RDMA = "RDMA is not recorded"


def finding() -> Finding:
    """Check the recorder; nothing is built. Compute nodes may differ from this host: tsrun reports there what is missing."""
    if problem := build.problem():
        return Finding(Level.ADVICE, _ABOUT, f"traffic is not recorded: {problem}", _REMEDY)
    if not _records_rdma():
        return Finding(Level.ADVICE, _ABOUT, f"{_RDMA}: {build.VERBS} is built where rdma-core's headers are", _REMEDY)
    return fine(_ABOUT, "its libraries are installed, or are built at first use")


def _records_rdma() -> bool:
    try:
        return build.records_rdma()
    except TiresiasError:
        return False
