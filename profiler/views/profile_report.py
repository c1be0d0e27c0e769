"""The output of `tiresias profile`: tables and text plots. Pure: a profile in, renderables and a dictionary out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tiresias.profiler.analysis import Profile
from tiresias.profiler.recordings.layout import Floats

BAR = 30  # characters
COURSE = 72  # characters of a time line
SHOWN = 4  # iterations in it
ROWS = 12  # of a table, at most
LEVELS = " ▁▂▃▄▅▆▇█"
COLOURS = {"consolidate": "bold red", "spread": "bold green", "unknown": "bold yellow"}


def as_json(profile: Profile) -> dict[str, object]:
    """Sizes in bytes, times in seconds; what is not known is null."""
    period, shape = profile.period, profile.shape
    return {
        "version": 1,
        "processes": list(profile.traffic.nodes[: profile.traffic.joined.recorded]),
        "period": period and {"seconds": period.seconds, "confidence": period.confidence, "opinions": period.opinions},
        "iterations": profile.iterations,
        "bytes_per_iteration": profile.bytes,
        "architecture": shape.kind, "workers": shape.workers or None, "model_bytes": shape.model or None,
        "largest_bytes": profile.largest, "largest_share": profile.share, "skew": profile.skew,
        "compute_seconds": profile.compute, "intensity": profile.intensity,
        "servers": [
            {"process": profile.traffic.nodes[each.node], "bytes": each.bytes, "share": each.bytes / shape.model,
             "largest_bytes": each.largest, "skew": each.skew, "messages": each.messages}
            for each in shape.servers
        ],
        "streams": [
            {"from": profile.traffic.nodes[each.sender], "to": profile.traffic.nodes[each.receiver],
             "bytes": each.bytes, "messages": int(each.counts.sum()), "other_bytes": each.other}
            for each in profile.streams
        ],
        "histogram": [{"from_bytes": low, "messages": count, "bytes": total} for low, count, total in histogram(profile)],
        "decision": profile.verdict.decision, "reasons": list(profile.verdict.reasons), "notes": list(profile.notes),
    }  # fmt: skip


def report(profile: Profile) -> Iterator[RenderableType]:
    """Yield the parts of the output of `tiresias profile`."""
    yield _verdict(profile)
    yield _facts(profile)
    if profile.shape.servers:
        yield _servers(profile)
    if profile.period:
        yield _sizes(profile)
        yield _time_line(profile)
    for note in profile.notes[:ROWS]:
        yield Text(f"note: {note}", style="dim")
    yield from _more(len(profile.notes), "notes")


def amount(size: float) -> str:
    """Format bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def histogram(profile: Profile) -> list[tuple[int, int, float]]:
    """(power of two, messages from there to the next, their bytes) of one iteration, small ones first."""
    sizes, counts = _of_all(profile)
    power = np.floor(np.log2(np.maximum(sizes, 1))).astype(int)
    found = np.unique(power).tolist()
    return [(1 << p, int(counts[power == p].sum()), float(sizes[power == p] @ counts[power == p])) for p in found]


def _of_all(profile: Profile) -> tuple[Floats, Floats]:
    if not profile.streams:
        return np.empty(0), np.empty(0)
    return (
        np.concatenate([each.sizes for each in profile.streams]),
        np.concatenate([each.counts for each in profile.streams]).astype(float),
    )


def _verdict(profile: Profile) -> Text:
    decision = profile.verdict.decision
    return Text.assemble((decision, COLOURS[decision]), ": " + "; ".join(profile.verdict.reasons))


def _facts(profile: Profile) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in _named_facts(profile):
        table.add_row(name, Text(value))
    return table


def _named_facts(profile: Profile) -> Iterator[tuple[str, str]]:
    shape, period = profile.shape, profile.period
    yield "processes", f"{profile.traffic.joined.recorded} recorded"
    if period is None:
        return
    yield "iteration", f"{_time(period.seconds)}, confidence {period.confidence:.2f}, {profile.iterations} seen"
    yield "traffic", f"{amount(profile.bytes)} an iteration, {_time(profile.compute)} of silence in it"
    among = f"{len(shape.servers)} servers, {shape.workers} workers" if shape.servers else f"{shape.workers} processes"
    yield "architecture", f"{shape.kind}, {among}" if shape.workers else shape.kind
    if shape.workers:
        yield "model", amount(shape.model)
    share = f", {profile.share:.1%} of the model" if profile.share is not None else ""
    yield f"largest {_what(profile)}", amount(profile.largest) + share
    if profile.intensity is not None:
        yield "intensity", f"{profile.intensity:.2f} s on the wire a second of computing"


def _what(profile: Profile) -> str:
    if profile.groups:
        return "collective"
    return "tensor" if profile.shape.shows_tensors else "message"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


def _servers(profile: Profile) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, title="parameter servers", title_justify="left", pad_edge=False)
    for heading in ("process", "part", "share", "largest", "skew", "messages"):
        table.add_column(heading, justify="left" if heading == "process" else "right")
    servers = sorted(profile.shape.servers, key=lambda server: -server.bytes)
    for each in servers[:ROWS]:
        share = each.bytes / profile.shape.model
        table.add_row(
            Text(profile.traffic.nodes[each.node]),
            amount(each.bytes),
            f"{share:.1%}",
            amount(each.largest),
            f"{each.skew:.1%}",
            str(each.messages),
        )
    table.caption = f"and {len(servers) - ROWS} more" if len(servers) > ROWS else None
    return table


def _sizes(profile: Profile) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, title="messages of an iteration", title_justify="left", pad_edge=False)
    table.add_column("from", justify="right")
    table.add_column("messages", justify="right")
    table.add_column("bytes", justify="right")
    table.add_column("share of the bytes")
    for low, count, total in histogram(profile):
        share = total / max(profile.bytes, 1)
        table.add_row(amount(low), f"{count:,}", amount(total), f"{'█' * round(share * BAR):{BAR}} {share:6.1%}")
    return table


def course(profile: Profile, sender: int, bins: int) -> Floats:
    """Bytes sent in each of `bins` steps of SHOWN iterations from the middle of the recording."""
    streams = [stream for stream in profile.traffic.streams if stream.sender == sender]
    assert profile.period
    start, length = window(profile)
    time = np.concatenate([stream.time for stream in streams])
    size = np.concatenate([stream.size for stream in streams])
    load, _ = np.histogram(time, bins, (start, start + length), weights=size)
    return load.astype(float)


def window(profile: Profile) -> tuple[float, float]:
    """Where the time line starts and how long it is, seconds."""
    assert profile.period
    last = max(float(stream.time[-1]) for stream in profile.traffic.streams)
    length = max(min(SHOWN * profile.period.seconds, last), 1e-9)
    return (last - length) / 2, length


def senders(profile: Profile) -> Sequence[int]:
    """The messages of an iteration, by sender in descending order of bytes."""
    sums: dict[int, float] = {}
    for each in profile.streams:
        sums[each.sender] = sums.get(each.sender, 0.0) + each.bytes
    return sorted((sender for sender, total in sums.items() if total), key=lambda sender: -sums[sender])


def _time_line(profile: Profile) -> RenderableType:
    start, length = window(profile)
    title = f"senders over time, {_time(length)} from {_time(start)} after the first message"
    table = Table(box=None, show_header=False, title=title, title_justify="left", pad_edge=False)
    shown = senders(profile)
    for sender in shown[:ROWS]:
        table.add_row(Text(profile.traffic.nodes[sender]), Text(_bars(course(profile, sender, COURSE)), style="cyan"))
    table.caption = f"and {len(shown) - ROWS} more" if len(shown) > ROWS else None
    return table


def _bars(load: Floats) -> str:
    """Heights by the square root, so that small messages show too."""
    height = np.ceil(np.sqrt(load / max(load.max(), 1)) * (len(LEVELS) - 1)).astype(int)
    return "".join(LEVELS[each] for each in height)


def _more(count: int, what: str) -> Iterator[Text]:
    if count > ROWS:
        yield Text(f"and {count - ROWS} more {what}; --json has all", style="dim")
