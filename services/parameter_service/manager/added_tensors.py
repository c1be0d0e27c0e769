"""Where tensors go that a job declares after its first ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tiresias.errors import UsageError

MAX_TENSORS = 65_536


def added_sizes(job: str, known: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the tensors that were not declared before. Raises UsageError: another size than before, none, or too many."""
    for name, size in sizes.items():
        if known.get(name, size) != size:
            raise UsageError(
                f"job {job}: tensor {name} has {size} bytes, and had {known[name]} when it was declared; end the job, "
                f"then register it anew"
            )
    added = {name: size for name, size in sizes.items() if name not in known}
    if not 0 < len(known) + len(added) <= MAX_TENSORS:
        raise UsageError(f"job {job} has {len(known) + len(added)} tensors; 1 to {MAX_TENSORS} are allowed")
    return added


def bytes_on(numbers: Iterable[int], sizes: Mapping[str, int], at: Mapping[str, int]) -> dict[int, float]:
    """Return the bytes of a job on each aggregator; a tensor counts in equal parts where its blocks are.

    Args:
        numbers: The aggregators.
        sizes: Bytes of each tensor.
        at: The aggregator of each block.
    """
    blocks: dict[str, list[int]] = {}
    for block, number in at.items():
        blocks.setdefault(block if block in sizes else block.rpartition("#")[0], []).append(number)
    found = dict.fromkeys(numbers, 0.0)
    for tensor, places in blocks.items():
        for number in places:
            found[number] = found.get(number, 0.0) + sizes[tensor] / len(places)
    return found


def evenly(sizes: Mapping[str, int], present: Mapping[int, float]) -> dict[str, int]:
    """Return an aggregator for each tensor: the largest tensor first, each on the one with the fewest bytes.

    Args:
        sizes: Bytes of each tensor.
        present: Bytes on each aggregator, of one or more.
    """
    loads, placed = dict(present), dict[str, int]()
    for tensor, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        placed[tensor] = min(loads, key=lambda number: (loads[number], number))
        loads[placed[tensor]] += size
    return placed
