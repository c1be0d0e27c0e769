"""The repeat of a stream's sequence of sizes: exact, and blind to how long anything takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiresias.profiler.recordings.layout import Bools, Floats, Ints
from tiresias.profiler.recordings.messages import Stream
from tiresias.profiler.rhythm.message_windows import MessageWindows
from tiresias.profiler.rhythm.sizes import MULTIPLICITY, Classes, usual

LONGEST = 20_000  # messages that are looked at
NEARLY = 0.95
SEEDS = 6  # classes whose returns propose a length


class Repeat(NamedTuple):
    """The repeat of a stream's messages."""

    kind: str  # what was looked at
    iterations: float
    seconds: float
    score: float  # 0 to 1


def repeat(stream: Stream, classes: Classes) -> Repeat | None:
    """Return the repeat of a stream; None where its sizes show none: all are alike, or nothing comes three times."""
    keep = np.flatnonzero(_significant(classes)[classes.of])[:LONGEST]
    symbols, time = classes.of[keep], stream.time[keep]
    lengths = set(_proposals(symbols)) if len(set(symbols.tolist())) > 1 else set()
    if not lengths:
        return None
    chance = float(np.square(np.bincount(symbols) / len(symbols)).sum())
    scores = {length: _score(symbols, length, chance) for length in lengths}
    length, score = _best(scores, MessageWindows(symbols, classes.size))
    return Repeat("sequence", len(symbols) / length, _seconds(symbols, time, length), score)


def _best(scores: dict[int, float], windows: MessageWindows) -> tuple[int, float]:
    """The shortest of those that are nearly the best; what is repeated must be composed alike too."""
    found: dict[int, float] = {}
    for length in sorted(scores, key=lambda length: -scores[length]):
        if scores[length] < NEARLY * max(found.values(), default=0.0):
            break
        found[length] = scores[length] * windows.evenness(length)
    length = min(length for length, score in found.items() if score >= NEARLY * max(found.values()))
    return length, found[length]


def _significant(classes: Classes) -> Bools:
    """The classes that make up 99 % of the bytes (all, if that is one), without those that came once or twice."""
    often = classes.count >= 3
    order = np.argsort(-classes.bytes)
    before = np.cumsum(classes.bytes[order]) - classes.bytes[order]
    chosen = np.zeros(len(classes.count), bool)
    chosen[order] = before < 0.99 * classes.bytes.sum()
    return chosen & often if (chosen & often).sum() > 1 else often


def _proposals(symbols: Ints) -> Iterator[int]:
    """Distances, in messages, at which the most frequent and the rarest sizes return most often."""
    found, count = np.unique(symbols, return_counts=True)
    by_count = found[np.argsort(count, kind="stable")]
    for symbol in {*by_count[:SEEDS].tolist(), *by_count[-SEEDS:].tolist()}:
        places = np.flatnonzero(symbols == symbol)
        for times in range(1, min(MULTIPLICITY, len(places) // 3) + 1):
            length = int(np.bincount(places[times:] - places[:-times]).argmax())
            if length <= len(symbols) // 3:
                yield length


def _score(symbols: Ints, length: int, chance: float) -> float:
    """The share that repeats, beyond what would by chance (Cohen's kappa): long runs of one size repeat at any length."""
    same = np.count_nonzero(symbols[length:] == symbols[:-length]) / (len(symbols) - length)
    return max((same - chance) / (1 - chance), 0.0)


def _seconds(symbols: Ints, time: Floats, length: int) -> float:
    same = symbols[length:] == symbols[:-length]
    return usual((time[length:] - time[:-length])[same])
