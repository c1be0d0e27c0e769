"""How a start selects the parts of its nodes: by the types of the GPUs that the pinned request states.

Each option of the owner's request that states GPUs gets the types (interface.StatedGpus). Another option would add to it. Not every
selection can be stated: an option is for all nodes, or all tasks, of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiresias.slurm_plugin.backends.interface import StatedGpus

Parts = Sequence[tuple[int, ...]]


def with_types(stated: Sequence[StatedGpus], parts: Parts, types: Sequence[str]) -> tuple[StatedGpus, ...]:
    """Return the GPUs of a request with the types of the selected parts.

    Args:
        stated: The GPUs as the owner's request states them.
        parts: Of each node the GPUs from each of its parts.
        types: The type of the GPUs of each part (placement.part_types).

    Returns:
        The request; () where no request can state the parts, or the owner's states types already.
    """
    known = all(0 < len(each) <= len(types) for each in parts)
    if not stated or not parts or not known or any(one.kind for one in stated):
        return ()
    used = {kind for each in parts for kind, gpus in zip(types, each, strict=False) if gpus}
    if len(used) == 1:
        return tuple(one._replace(kind=kind) for one in stated for kind in used)
    found = tuple(each for one in stated for each in _several(one, parts[0], types))
    is_stated = all(one.per in ("job", "node") and one.gpus == sum(parts[0]) for one in stated)
    return found if len(parts) == 1 and is_stated else ()


def _several(one: StatedGpus, parts: Sequence[int], types: Sequence[str]) -> Iterator[StatedGpus]:
    """Return the GPUs of an option, part by part, of one node."""
    return (one._replace(gpus=gpus, kind=kind) for kind, gpus in zip(types, parts, strict=False) if gpus)
