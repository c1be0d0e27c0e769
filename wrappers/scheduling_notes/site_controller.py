"""What a submission can know of the site's controller: from its lease where it runs on this host, else from the configuration.

The lease is the file that job_submit.lua reads (docs/reference/interfaces.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tiresias.protocol import site_configuration


class SiteController(NamedTuple):
    """partitions: the managed ones; default: Slurm's, "" where that is not known; users, accounts: the exempt ones.
    leads: whether a controller leads; None: that cannot be seen from here."""

    mode: str
    partitions: frozenset[str]
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    default: str = ""
    leads: bool | None = None


def of_host(document: Mapping[str, Any] | None, now: float) -> SiteController | None:
    """document: the configuration; None: there is none. now: epoch seconds."""
    run = _table(document or {}, "paths").get("run", site_configuration.RUN)
    try:
        return _of_lease((Path(str(run)) / "lease").read_text(encoding="utf-8"), now)
    except (OSError, ValueError):
        return None if document is None else _of_configuration(document)


def _of_lease(text: str, now: float) -> SiteController:
    """Raises ValueError."""
    until, partitions, default, _, users, accounts = text.split("\n")[:6]
    return SiteController("exact", _names(partitions), _names(users), _names(accounts), default, int(until) > now)


def _names(line: str) -> frozenset[str]:
    return frozenset(filter(None, line.split(",")))


def _of_configuration(document: Mapping[str, Any]) -> SiteController:
    """What is mistyped in it counts as not there: the controller tells its admin."""
    exempt, mode = _table(document, "exempt"), document.get("mode", "shadow")
    partitions = _list(document.get("partitions", ["gpu"]))
    return SiteController(str(mode), partitions, _list(exempt.get("users")), _list(exempt.get("accounts")))


def _table(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _list(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset()
