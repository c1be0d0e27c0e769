"""The reader's side of the report of the parameter service's manager (protocol/service_report.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, cast

from tiresias.errors import TiresiasError, Unavailable, one_line
from tiresias.protocol.service_report import (
    JOBS,
    MAX_BYTES,
    REPORT,
    STALE_S,
    VERSION,
    PublishedServiceJob,
    ServiceJobs,
    ServiceReport,
    user_file,
)


class ServiceView(NamedTuple):
    """What a user may see of the service.

    Attributes:
        report: The service, its aggregators and sums.
        jobs: The jobs that the user may see.
        sees_all: Whether these are all jobs.
    """

    report: ServiceReport
    jobs: list[PublishedServiceJob]
    sees_all: bool


def read_service(folder: Path, uid: int) -> ServiceView:
    """Return what this process may read.

    Args:
        folder: Of the report.
        uid: The user whose own jobs are read where not all may be.

    Raises:
        TiresiasError: No report, or one that cannot be read.
    """
    report = read_report(folder)
    for name in (JOBS, user_file(uid)):
        try:
            jobs = cast(ServiceJobs, _read(folder / name))["jobs"]
        except (PermissionError, FileNotFoundError):
            continue
        return ServiceView(report, jobs, name == JOBS)
    return ServiceView(report, [], sees_all=False)


def read_report(folder: Path) -> ServiceReport:
    """Return the service, its aggregators and sums. Raises TiresiasError."""
    report = cast(ServiceReport, _read(folder / REPORT))
    if report.get("version") != VERSION:
        raise TiresiasError(
            f"{folder / REPORT} has version {report.get('version')!r:.20}; this program reads {VERSION}"
        )
    return report


def check_age(report: ServiceReport, now: float) -> None:
    """Raise Unavailable where the manager has not reported for STALE_S seconds."""
    if (age := now - report["time"]) > STALE_S:
        raise Unavailable(
            f"the manager has not reported for {age:.0f} s; see systemctl status tiresias-parameter-service on {report['host']}"
        )


def _read(path: Path) -> Any:
    """Return a JSON object.

    Raises:
        PermissionError, FileNotFoundError: Of a file other than the report.
        TiresiasError: It cannot be read.
    """
    try:
        with path.open("rb") as opened:
            content = json.loads(opened.read(MAX_BYTES + 1))
        if not isinstance(content, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError, RecursionError) as error:
        if path.name != REPORT and isinstance(error, (PermissionError, FileNotFoundError)):
            raise
        raise TiresiasError(_reason(path, error)) from None
    return content


def _reason(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"no report in {path.parent}: the manager has not run yet, or reports into another folder"
    if isinstance(error, PermissionError):
        return f"{path} may not be read by this user; report.json has mode 0644, its folders need x for all"
    return f"{path} cannot be read: {getattr(error, 'strerror', None) or one_line(error)}"
