"""What owners used of their shares, where GPUs are shared between users or accounts: a line of `status`, and of `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tiresias.slurm_plugin.views.table_layout import FAINT, styled, wrapped
from tiresias.slurm_plugin.views.text import printable

if TYPE_CHECKING:
    from tiresias.protocol.published_job import PublishedJob
    from tiresias.protocol.status import PublishedShare, Status

_MOST = 6  # owners in the line


def owner_text(job: PublishedJob | PublishedShare) -> str:
    """Return the owner of a job with its use and its share; "": owners do not share."""
    if not (owner := job.get("owner")):
        return ""
    use, share = job.get("owner_use"), job.get("owner_share")
    if use is None:
        return f"{printable(owner, 60)} has no share"
    of = "" if share is None else f" of {share:.0%}"
    return f"{printable(owner, 60)} used {use:.2f} times its share{of}"


def owner_lines(status: Status, width: int) -> list[Text]:
    """Return the line about the owners of the listed jobs, those that used most first; none where owners do not share."""
    rest = status.get("rest")
    owners = rest["owners"] if rest else [job for job in status.get("jobs", []) if job.get("owner")]
    found = {owner_text(one): one.get("owner_use") for one in owners}
    if not found:
        return []
    texts = sorted(found, key=lambda text: (-(found[text] or 0.0), text))
    others = len(texts) - _MOST + (rest["more_owners"] if rest else 0)
    more = f"; {others} more" if others > 0 else ""
    return [styled((line, FAINT)) for line in wrapped(f"fairness: {'; '.join(texts[:_MOST])}{more}", width)]
