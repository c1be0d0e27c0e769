"""The cells of virtual clusters as the controller publishes them: sums in `status`, both trees in the answer to `{"op": "cells"}`.

Each field states its meaning in `Annotated`; docs/status_page.py writes the reference page from these types. Moments are epoch
seconds, durations seconds. A missing key: empty, 0 or not known.
"""

from __future__ import annotations

from typing import Annotated, TypedDict


class PublishedCellLevel(TypedDict):
    """The cells of one type; parts of larger cells are counted."""

    type: Annotated[str, "name of the type: a level of the topology, such as leaf or node"]
    gpus: Annotated[int, "GPUs of each cell"]
    owned: Annotated[int, "topmost cells of this type that the virtual cluster owns; of the hardware, that all own"]
    cells: Annotated[int, "how many there are"]
    free: Annotated[int, "healthy ones that no job uses; in a virtual cluster, no guaranteed job"]
    largest: Annotated[int, "the most GPUs that one cell has free: the largest job within one cell that can start now"]


class PublishedVirtualCluster(TypedDict):
    """One virtual cluster (VC): what it owns and uses, and whether its guarantee is kept."""

    name: Annotated[str, "its name"]
    gpus: Annotated[int, "GPUs of its cells"]
    guaranteed: Annotated[int, "of these, used by its guaranteed jobs"]
    free: Annotated[int, "of these, free and healthy: its largest job over several cells that can start now"]
    opportunistic: Annotated[int, "GPUs that its jobs use beyond its cells"]
    nodes: Annotated[int, "nodes of its cells, and topmost cells below the node level"]
    fragmented: Annotated[int, "of these, those with some free GPUs that cannot give all of their GPUs"]
    levels: Annotated[list[PublishedCellLevel], "its cells by type, the largest first"]
    waiting: Annotated[int, "jobs that fit into its free cells and have not started yet"]
    longest_wait: Annotated[float, "seconds since the first of them fitted; 0: none waits"]
    wait_limit: Annotated[float, "seconds within which such a job is to start"]
    kept: Annotated[int, "jobs that started within the limit, since the controller leads"]
    broken: Annotated[int, "jobs that did not, since the controller leads"]


class PublishedCell(TypedDict, total=False):
    """A cell. Parts that are alike and that no job uses are left out."""

    type: Annotated[str, "name of the type"]
    name: Annotated[str, "hardware: the node, or the number of the group; of a VC: the cell's address"]
    state: Annotated[
        str,
        "free; owned (by a VC); used (by guaranteed jobs of the VC); opportunistic; unmanaged; bad; doomed; mixed (its parts "
        "differ)",
    ]
    gpus: Annotated[int, "its GPUs"]
    guaranteed: Annotated[int, "of these, used by guaranteed jobs"]
    opportunistic: Annotated[int, "of these, used by opportunistic jobs"]
    unmanaged: Annotated[int, "of these, used by unmanaged jobs"]
    cluster: Annotated[str, "the VC that owns it now"]
    bound: Annotated[
        str, "hardware: the address of the VC's cell to which it is bound; of a VC: the name of its hardware"
    ]
    nodes: Annotated[list[str], "its first and its last node; missing of a VC's cell that is not bound"]
    pinned: Annotated[str, "of a pinned cell: its hardware, such as gpu07, gpu[05-08] or gpu07 GPUs 4-7"]
    jobs: Annotated[list[tuple[str, int]], "[job, GPUs] that use it, where it has no parts"]
    parts: Annotated[list[PublishedCell], "the cells below it, where they differ or jobs use them"]


class PublishedClusterCells(PublishedVirtualCluster):
    """One virtual cluster with its tree."""

    cells: Annotated[list[PublishedCell], "its topmost cells"]


class Cells(TypedDict):
    """The answer to `{"op": "cells"}`."""

    version: Annotated[int, "of this format, that of the status"]
    time: Annotated[float, "moment of Slurm's snapshot"]
    cluster: Annotated[str, "ClusterName"]
    period: Annotated[float, "seconds between two cycles when nothing wakes the controller"]
    virtual_clusters: Annotated[list[PublishedClusterCells], "the virtual clusters"]
    outside: Annotated[int, "GPUs of managed jobs that belong to no virtual cluster"]
    unmanaged: Annotated[int, "GPUs of unmanaged jobs"]
    levels: Annotated[list[PublishedCellLevel], "the hardware by type, the largest cells first"]
    hardware: Annotated[list[PublishedCell], "the topmost cells of the hardware; none where PrivateData hides nodes"]
