"""The site's controller as a submission sees it: by its lease where it runs on this host, else by the configuration.

The lease is the file that job_submit.lua reads (protocol/job_submit_lease.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.protocol import job_submit_lease, site_configuration


class SiteController(NamedTuple):
    """The site's controller.

    Attributes:
        partitions: The managed partitions.
        users, accounts: The exempt ones.
        default: Slurm's default partition, "" where unknown.
        leads: Whether a controller leads, None where unknown on this host.
    """

    mode: str
    partitions: frozenset[str]
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    default: str = ""
    leads: bool | None = None


def of_host(document: Mapping[str, Any] | None, now: float) -> SiteController | None:
    """Return the controller of this site.

    Args:
        document: The configuration, None without one.
        now: Epoch seconds.
    """
    run = _table(document or {}, "paths").get("run", site_configuration.RUN)
    try:
        return _of_lease((Path(str(run)) / job_submit_lease.FILE).read_text(encoding="utf-8"), now)
    except (OSError, ValueError):
        return None if document is None else _of_configuration(document)


def _of_lease(text: str, now: float) -> SiteController:
    """Raises ValueError."""
    lease = job_submit_lease.parse(text)
    partitions, users, accounts = (frozenset(names) for names in (lease.partitions, lease.users, lease.accounts))
    return SiteController("exact", partitions, users, accounts, lease.default, lease.until > now)


def _of_configuration(document: Mapping[str, Any]) -> SiteController:
    """A key with a wrong type counts as missing: the controller reports it to the admin."""
    exempt, mode = _table(document, "exempt"), document.get("mode", "shadow")
    partitions = _list(document.get("partitions", ["gpu"]))
    return SiteController(str(mode), partitions, _list(exempt.get("users")), _list(exempt.get("accounts")))


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
