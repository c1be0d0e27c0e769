"""The numbers of aggregators before and after a change of the assignment, so that few tensors move. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiresias.services.parameter_service.assignment.aggregator_load import AggregatorLoad

TensorKey = tuple[str, str]  # (job, tensor)


def renumbered(
    found: Sequence[AggregatorLoad], before: Sequence[AggregatorLoad], following: int = 0
) -> list[AggregatorLoad]:
    """Return the loads with the numbers of those before that share the most work with them, so that few tensors move."""
    pairs = sorted(((-_shared_s(new, old), old.number, at) for at, new in enumerate(found) for old in before))
    numbers: dict[int, int] = {}
    for _, number, at in pairs:
        if at not in numbers and number not in numbers.values():
            numbers[at] = number
    for at, load in enumerate(found):
        load.number = numbers.get(at, following)
        following += at not in numbers
    return list(found)


def _shared_s(one: AggregatorLoad, other: AggregatorLoad) -> float:
    total = 0.0
    for job in one.parts.keys() & other.parts.keys():
        held = other.parts[job].tensors
        total += sum(work_s for tensor, work_s in one.parts[job].tensors.items() if tensor in held)
    return total


def moves(before: Mapping[TensorKey, int], after: Mapping[TensorKey, int]) -> dict[TensorKey, tuple[int, int]]:
    """Return the tensors that change their aggregator: (job, tensor) -> (from, to)."""
    return {key: (before[key], number) for key, number in after.items() if key in before and before[key] != number}
