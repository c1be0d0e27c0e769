"""The parameter service, by its manager's report, munge and Slurm; nothing where none is configured."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from tiresias.errors import TiresiasError
from tiresias.protocol.service_report import ServiceReport
from tiresias.slurm_plugin.backends import processes
from tiresias.slurm_plugin.backends.interface import SlurmUnavailable
from tiresias.slurm_plugin.cluster.finding import Finding, Level, fine, named
from tiresias.slurm_plugin.cluster.rights import user_name
from tiresias.slurm_plugin.doctor.host_checks import output
from tiresias.slurm_plugin.doctor.service_configuration_check import CONFIGURATION, configuration_findings
from tiresias.slurm_plugin.service_report_files import check_age, read_report

_ABOUT = "parameter service"
_TIMEOUT_S = 20.0


def findings(folder: str, slurm_conf: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings.

    Args:
        folder: The key service_report; "": none.
        slurm_conf: Of slurm.conf, as scontrol shows it.
    """
    if not folder:
        return
    yield munge()
    yield from configuration_findings(CONFIGURATION)
    try:
        report = read_report(Path(folder))
    except TiresiasError as error:
        yield Finding(Level.RISK, _ABOUT, str(error), "start the manager with this folder as its key report")
        return
    yield budget(report)
    yield partition(report["partition"], output("scontrol", "--all", "show", "partition", "-o"))
    if report["account"] and slurm_conf.get("AccountingStorageType", "").endswith("slurmdbd"):
        yield _account(report)
    yield _reported_jobs(Path(folder), report)


def munge() -> Finding:
    """Check that munged encodes and decodes a credential on this host."""
    try:
        made = processes.run(("munge", "--no-input"), _TIMEOUT_S)
        with tempfile.NamedTemporaryFile() as file:
            file.write(made.stdout)
            file.flush()
            read = processes.run(("unmunge", "--no-output", f"--input={file.name}"), _TIMEOUT_S)
    except SlurmUnavailable as error:
        problem = str(error).partition(": is ")[0]
    else:
        failed = next((each for each in (made, read) if each.returncode), None)
        if failed is None:
            return fine(_ABOUT, "munge answers")
        problem = failed.stderr.decode(errors="replace").strip().partition("\n")[0]
    return Finding(
        Level.RISK, _ABOUT, f"jobs cannot register: {problem}", "start munged on this host: systemctl start munge"
    )


def budget(report: ServiceReport) -> Finding:
    """Check that the budget allows aggregators."""
    if report["budget"] > 0:
        return fine(_ABOUT, f"up to {report['budget']} aggregators, {report['totals']['aggregators']} of them in use")
    return Finding(
        Level.RISK, _ABOUT, "the budget is 0: no new job is taken", "set budget in the manager's configuration"
    )


def partition(name: str, shown: str) -> Finding:
    """Check that the partition of the aggregators exists. shown: what `scontrol show partition -o` prints."""
    existing = set(re.findall(r"^PartitionName=(\S+)", shown, re.MULTILINE))
    if name and name not in existing:
        known = ", ".join(sorted(existing)) or "none"
        return Finding(
            Level.RISK,
            _ABOUT,
            f"partition {name} is not in slurm.conf: no aggregator starts",
            f"partition: any of {known}",
        )
    return fine(_ABOUT, f"partition {name} exists" if name else "aggregators run in Slurm's default partition")


def account(name: str, user: str, associated: Collection[str]) -> Finding:
    """Check that the service account may use its account in Slurm. associated: the accounts of its associations."""
    if name in associated:
        return fine(_ABOUT, f"user {user} may use account {name}")
    todo = f"sacctmgr add user {user} account={name}"
    return Finding(Level.RISK, _ABOUT, f"user {user} has no account {name} in Slurm: no aggregator starts", todo)


def differences(before: ServiceReport, queue: Mapping[int, str], after: ServiceReport) -> Finding:
    """Compare the reported Slurm jobs with the queue, which was read between two reports: what only changed meanwhile is equal.

    Args:
        before: The report before the queue was read.
        queue: The names of the aggregators' jobs in Slurm by id.
        after: The report after it was read.
    """
    reported = [{each["slurm_job"]: each["state"] for each in one["aggregators"]} for one in (before, after)]
    lost = [
        str(job)
        for job, state in reported[0].items()
        if _is_queued(state) and _is_queued(reported[1].get(job)) and job not in queue
    ]
    unknown = [
        f"{job} ({name})" for job, name in sorted(queue.items()) if job not in reported[0] and job not in reported[1]
    ]
    if not lost and not unknown:
        return fine(_ABOUT, f"the manager reports; its aggregators are those in Slurm ({len(queue)})")
    parts = [f"reported, but not in Slurm: {named(lost)}"] if lost else []
    parts += [f"in Slurm, but not reported: {named(unknown)}"] if unknown else []
    return Finding(
        Level.RISK,
        _ABOUT,
        "aggregators " + "; ".join(parts),
        "the manager repairs this in its next poll; if not, see its log",
    )


def _is_queued(state: str | None) -> bool:
    return state in ("waiting", "running", "draining")


def _account(report: ServiceReport) -> Finding:
    user = user_name(report["uid"])
    shown = output("sacctmgr", "--noheader", "--parsable2", "show", "association", f"user={user}", "format=account")
    return account(report["account"], user, set(shown.split()))


def _reported_jobs(folder: Path, before: ServiceReport) -> Finding:
    try:
        check_age(before, time.time())
        if before["problem"]:
            return Finding(Level.RISK, _ABOUT, f"Slurm does not answer the manager: {before['problem']}", "see its log")
        queue = _queue(before)
        return differences(before, queue, read_report(folder))
    except TiresiasError as error:
        return Finding(Level.RISK, _ABOUT, str(error), f"start the manager on {before['host']}")


def _queue(report: ServiceReport) -> dict[int, str]:
    shown = output("squeue", "--noheader", f"--user={report['uid']}", "--format=%A|%j")
    rows = [line.strip().partition("|") for line in shown.splitlines()]
    return {int(job): name for job, _, name in rows if name.startswith(f"tiresias-ps-{report['manager']}-")}
