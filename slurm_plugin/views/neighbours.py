"""What is expected of a job on its nodes, beside the jobs there and by their speeds, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiresias.slurm_plugin.views.text import printable

if TYPE_CHECKING:
    from tiresias.protocol.explanation import PublishedInterference, PublishedNeighbour, PublishedSpeed

_SHOWN = 0.005  # a smaller slowdown is none
_MOST = 5  # jobs that are named


def interference_text(found: PublishedInterference | None) -> str:
    """Return the expected slowdown of a job and of its neighbours; "" where none is looked for."""
    if not found:
        return ""
    if not found["learned"]:
        return "none expected: the runs of this site do not show that jobs on one node slow each other"
    if not found["known"]:
        return "not known: too few runs of jobs of its kind were timed beside others"
    beside = found["beside"]
    if not beside:
        return "none expected: no other job of a known kind is on its nodes"
    texts = [_beside(one) for one in beside[:_MOST]]
    return "; ".join([*texts, *([f"{len(beside) - _MOST} more jobs"] if len(beside) > _MOST else [])])


def _beside(one: PublishedNeighbour) -> str:
    job = f"job {printable(one['job'], 20)}" if one["job"] else "a job of another user"
    own = f"{one['own']:.0%} slower" if one["own"] >= _SHOWN else "not slower"
    other = f", which becomes {one['other']:.0%} slower" if one["other"] >= _SHOWN else ""
    return f"{own} beside {job}{other} (expected)"


def speed_text(found: PublishedSpeed | None) -> str:
    """Return the expected speed of a job on its nodes; "" where nothing is known."""
    if not found:
        return ""
    more = found["slowdown"] - 1.0
    if found["sensitivity"] <= 0.0:
        return "as on other nodes: the runs of its kind do not show that slow nodes slow it"
    change = f"{abs(more):.0%} {'slower' if more > 0.0 else 'faster'} than" if abs(more) >= _SHOWN else "as fast as"
    return f"{change} on the median node, by {printable(found['slowest'], 100)}, the slowest of its nodes (expected)"
