"""The back end made of Slurm's own commands (squeue, scontrol, sinfo, scancel), from Slurm 22.05 on.

Output is read as --json, where a job's name and comment are quoted strings that cannot imitate other fields. Only jobs that have
changed since the last snapshot are read; a line of fields that no user writes shows the change.
Each call is one process with a timeout. The user needs the rights of an Operator.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tiresias.scheduler.host_lists import compressed
from tiresias.slurm_plugin.backends import sdiag, unreadable
from tiresias.slurm_plugin.backends.cache import JobCache
from tiresias.slurm_plugin.backends.interface import (
    TOP_PRIORITY,
    CommentField,
    Comments,
    JobRefused,
    NoSuchJob,
    NotSignalled,
    RequestChange,
    SlurmJob,
    SlurmLoad,
    SlurmNode,
    SlurmSnapshot,
    SlurmUnavailable,
    StatedGpus,
    TimedOut,
)
from tiresias.slurm_plugin.backends.memory import Memory, mid_second
from tiresias.slurm_plugin.backends.record_values import RecordValues
from tiresias.slurm_plugin.backends.rules_reader import RulesReader
from tiresias.slurm_plugin.backends.slurm_commands import SlurmCommands, checked
from tiresias.slurm_plugin.backends.slurm_rules import SlurmRules

# record, start, priority, reason, array tasks, state, submit, limit, nodes, CPUs, node list, partition, -w, -x, memory,
# --gpus-per-node, reservation, features, QOS, licences, account, dependencies, --exclusive. The start of a job that waits is its
# begin time; the long format, which has that by name, has no -x on 22.05. Of a held job its owner may change the account alone.
_SIGNATURE = "%A|%S|%Q|%r|%K|%T|%V|%l|%D|%C|%N|%P|%n|%x|%m|%b|%v|%f|%q|%W|%a|%E|%h"
_LONG_SIGNATURE = ",".join(
    f"{field}:|"
    for field in (
        "jobid", "eligibletime", "prioritylong", "reason", "arraytaskid", "state", "submittime", "timelimit", "numnodes",
        "numcpus", "nodelist",
        "partition", "reqnodes", "excnodes", "minmemory", "tres-per-node", "reservation", "feature", "qos", "licenses", "account",
        "dependency", "exclusive",
    )
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_SIGNAL = re.compile(r"[A-Z][A-Z0-9+]*")
LOCAL = ("--all", "--local")  # without the latter squeue asks about a federation before each job
SIGNAL_S = 8.0  # in which a signal is sent: scancel tries twice
UNLIMITED = 1_000_000  # nodes: no request has a word for "any number"


class CommandsBackend:
    """The back end over Slurm's commands; backends/interface.py describes its methods."""

    name = "commands"
    why = ""

    def __init__(self, deadline: float = 10.0, prefix: Sequence[str] = ()) -> None:
        """`prefix`: words before each command, for a Slurm that is reached through another program (ssh, nsenter)."""
        self._slurm = SlurmCommands(deadline, prefix)
        self._signals = SlurmCommands(min(deadline, SIGNAL_S), prefix)
        self._memory, self._cache = Memory(), JobCache(self.records)
        self._largest, self._as_stated = -1, RecordValues(lambda job: job)  # GPUs of the largest node
        self._rules = RulesReader(self._slurm.read)
        self._exclusive: set[int] = set()  # records that get whole nodes: from 26.05 on no JSON shows it
        self._version = ""
        self._unreadable: list[str] = []  # records of this snapshot, one phrase each
        self._names: dict[str, None] = {}  # of the last snapshot, in its order

    # -- reading ------------------------------------------------------------------------------------------------------

    def version(self) -> str:
        """Return Slurm's version."""
        found = self._setting("SLURM_VERSION")
        if not found:
            raise SlurmUnavailable("`scontrol show config` printed no SLURM_VERSION: check slurm.conf on this host")
        return found

    def booted(self) -> float:
        """Return the epoch second at which slurmctld was started, 0 where unknown."""
        try:
            return time.mktime(time.strptime(self._setting("BOOT_TIME"), "%Y-%m-%dT%H:%M:%S"))
        except ValueError:
            return 0.0

    def _setting(self, name: str) -> str:
        config = self._slurm.read("scontrol", "show", "config").decode(errors="replace")
        found = re.search(rf"^{name}\s*=\s*(\S+)", config, re.MULTILINE)
        return found[1] if found else ""

    def topology(self, name: str = "") -> str:
        """Return the output of `scontrol show topology`, of one of topology.yaml's topologies if it is named."""
        named = [name] if name else []
        return self._slurm.read("scontrol", "show", "topology", *named).decode(errors="replace").strip()

    def load(self, uid: int) -> SlurmLoad:
        """Return the load of slurmctld."""
        return sdiag.load(self._slurm.read("sdiag").decode(errors="replace"), uid)

    def snapshot(self) -> SlurmSnapshot:
        """Return all jobs and nodes."""
        now, self._unreadable = time.time(), []
        self._cache.refresh(self._signatures())
        return self._assemble(now, self._nodes(self._slurm.read_json("nodes", *self._show_nodes())))

    def _nodes(self, found: Iterable[Any]) -> list[SlurmNode]:
        return unreadable.nodes(found, self._unreadable.append)

    def rules(self) -> SlurmRules:
        """Return Slurm's rules."""
        return self._rules.rules()

    def job(self, job_id: str) -> SlurmJob:
        """Return one job."""
        raw = re.split("[_+]", checked(job_id))[0]
        for job in self.records([raw]):
            if not job.readable:
                raise JobRefused(f"job {job_id}: {job.unmanaged}")
            if job.id == job_id:
                return self._memory.fill(job, time.time())
        raise NoSuchJob(f"job {job_id}: unknown to Slurm")

    def records(self, raw_ids: Sequence[str]) -> list[SlurmJob]:
        """At least the jobs of these numbers (22.05: all) as Slurm shows them now, without memory of earlier calls."""
        now = time.time()
        try:
            found = self._slurm.read_json(
                "jobs", "squeue", *LOCAL, "--json", "--states=all", "--jobs", ",".join(raw_ids)
            )
        except NoSuchJob:  # squeue's answer when the only one it was asked for is gone
            return []
        return [
            replace(job, exclusive=True) if job.raw_id in self._exclusive else job
            for job in unreadable.jobs(found, now, self._unreadable.append)
        ]

    def _assemble(self, now: float, nodes: Sequence[SlurmNode]) -> SlurmSnapshot:
        jobs = self._memory.fill_each(list(self._cache), now)
        self._names = {node.name: None for node in nodes}
        largest = max((node.gpus for node in nodes), default=0)
        if largest != self._largest:
            self._largest, self._as_stated = largest, RecordValues(lambda job: _without_guess(job, largest))
        return SlurmSnapshot(now, tuple(self._as_stated.of(jobs)), tuple(nodes), tuple(dict.fromkeys(self._unreadable)))

    def _signatures(self) -> dict[int, list[str]]:
        # --array: otherwise waiting tasks of one array share a line, though each may be a record of its own
        shape = f"--format={_SIGNATURE}" if self._older_than(26, 5) else f"--Format={_LONG_SIGNATURE}"
        options = (*LOCAL, "--array", "--states=all", "--noheader", shape)
        found: dict[int, list[str]] = {}
        for line in self._slurm.read("squeue", *options).decode(errors="replace").splitlines():
            record, _, rest = line.partition("|")
            if _NUMBER.fullmatch(record):
                found.setdefault(int(record), []).append(_without_forecast(rest))
        self._exclusive = {record for record, rest in found.items() if rest[0].endswith("|NODE|")}
        return found

    def _show_nodes(self) -> tuple[str, ...]:
        """scontrol has --json from 23.02 on; until then sinfo's showed whole nodes."""
        return ("sinfo", "--json") if self._older_than(23, 2) else ("scontrol", "show", "nodes", "--json")

    def _older_than(self, *version: int) -> bool:
        self._version = self._version or self.version()
        return tuple(int(part) for part in self._version.split(".")[:2]) < version

    # -- operations ---------------------------------------------------------------------------------------------------

    def hold(self, job_id: str) -> None:
        """Hold a job."""
        self._slurm.operate(job_id, "scontrol", "hold", job_id)

    def release(self, job_id: str) -> None:
        """Lift a job's hold and its wait after a requeue."""
        if self._sits_out(self.job(job_id)):
            with suppress(JobRefused):  # also the answer where it was done, but no partition serves the job now
                self.begin_now(job_id)
        self.lift(job_id)

    def lift(self, job_id: str) -> None:
        """Lift a job's hold."""
        self._slurm.operate(job_id, "scontrol", "release", job_id)

    def begin_now(self, job_id: str) -> None:
        """Make a pending job eligible now."""
        self._slurm.update(job_id, "StartTime=now")

    @staticmethod
    def _sits_out(job: SlurmJob) -> bool:
        """Return whether the begin time is of a requeue: a requeued job waits 121 s; any other begin time is its owner's."""
        return job.state == "PENDING" and job.begins_after_requeue and job.begin_time > time.time()

    def pin(self, job_id: str, change: RequestChange) -> None:
        """Change a held job's request to the nodes of its start."""
        self._slurm.update(job_id, *self._changes(change), *(["StartTime=now"] if change.begins_now else []))

    def prioritize(self, job_id: str) -> None:
        """Give a released job the highest priority."""
        self._slurm.update(job_id, f"Priority={TOP_PRIORITY}")

    def unpin(self, job_id: str, change: RequestChange) -> None:
        """Change a held job's request back."""
        if changes := self._changes(change):
            self._slurm.update(job_id, *changes)

    def _changes(self, change: RequestChange) -> list[str]:
        least, most = change.nodes or (0, 0)
        excluded = change.excluded if change.only is None else self._all_but(change.only)
        fields = (
            ("NumTasks", change.tasks),
            ("CPUsPerTask", change.cpus_per_task),
            ("NumCPUs", change.cpus),
            *_gpu_fields(change.gpus or ()),
            *self._total(change.total_gpus),
            ("NumNodes", change.nodes and f"{least}-{most or UNLIMITED}"),
            ("ReqNodeList", None if change.required is None else compressed(change.required)),
            ("ExcNodeList", None if excluded is None else compressed(excluded)),
        )
        removed = [f"{field}=" for field in change.uncommented]
        return [*(f"{name}={value}" for name, value in fields if value is not None), *removed]

    def _total(self, stated: StatedGpus | None) -> list[tuple[str, str]]:
        """Later releases find the GPUs of all tasks anew."""
        if stated is None or not self._older_than(24, 11):
            return []
        return [("TresPerJob", f"gres:gpu:{f'{stated.kind}:' if stated.kind else ''}{stated.gpus}")]

    def _all_but(self, nodes: Sequence[str]) -> list[str]:
        """All nodes of the cluster, as the last snapshot had them, without these. Raises JobRefused where one is unknown: the
        job would be free to run anywhere else."""
        if not self._names:
            self.snapshot()
        if unknown := [node for node in nodes if node not in self._names]:
            raise JobRefused(f"Invalid node name specified: {', '.join(unknown)}")
        return [name for name in self._names if name not in nodes]

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to the batch shell of a running job.

        While slurmctld cannot signal a job ("Job can not be altered now"), scancel tries again for a minute and a half. 22.05.8
        could not signal two tasks of arrays for as long as they ran (measured). No other job waits for that.
        """
        if not _SIGNAL.fullmatch(signal):
            raise JobRefused(f"job {job_id}: {signal!r} is no signal's name: write it as USR2")
        if self.job(job_id).state != "RUNNING":  # scancel would try again and again, and hit the job when it starts
            raise JobRefused(f"job {job_id}: is not running: nothing to signal")
        # --ctld: slurmctld looks the job up; otherwise scancel loads all jobs to find one
        try:
            self._signals.operate(job_id, "scancel", "--ctld", "--batch", f"--signal={signal}", job_id)
        except TimedOut:
            if self.job(job_id).state != "RUNNING":
                raise JobRefused(f"job {job_id}: is not running: nothing to signal") from None
            raise NotSignalled(f"job {job_id}: slurmctld answers, and does not signal it") from None

    def requeue(self, job_id: str) -> int:
        """Requeue a job; return the second of its run's end."""
        second = mid_second()
        self._memory.requeuing(job_id, second)
        try:
            self._slurm.operate(job_id, "scontrol", "requeue", "incomplete", job_id)
        except JobRefused:
            self._memory.refused(job_id)
            raise
        return second

    def requeue_together(self, job_ids: Sequence[str]) -> None:
        """Requeue several jobs."""
        second = mid_second()
        for job_id in map(checked, job_ids):
            self._memory.requeuing(job_id, second)
        try:
            self._slurm.call("scontrol", "requeue", "incomplete", *job_ids)
        except JobRefused:
            for job_id in job_ids:
                self._memory.refused(job_id)
            raise

    def stated_gpus(self, job_id: str) -> tuple[StatedGpus, ...]:
        """Return the GPUs of a job's request."""
        return CommandsBackend.job(self, job_id).stated_gpus

    def batch_script(self, job_id: str) -> bytes:
        """Return the batch script of a job."""
        return self._slurm.call("scontrol", "write", "batch_script", checked(job_id), "-")

    def comments(self, records: Sequence[int]) -> Mapping[int, Comments]:
        """Return the comments of these records."""
        asked = set(records)
        found = self.records([str(one) for one in records])
        return {job.raw_id: job.comments for job in found if job.raw_id in asked and job.readable}

    def set_comment(self, names: Sequence[str], field: CommentField, text: str) -> None:
        """Set a comment of several jobs."""
        self._slurm.operate(names[0], "scontrol", "update", f"JobId={','.join(map(checked, names))}", f"{field}={text}")

    def close(self) -> None:
        """Nothing is kept open."""


def _gpu_fields(stated: Iterable[StatedGpus]) -> list[tuple[str, str]]:
    """Return the fields of `scontrol update` for GPUs. Another field than that of the owner's option would add to it."""
    fields: dict[str, list[str]] = {}
    for per, gpus, kind, beside in stated:
        texts = fields.setdefault(f"TresPer{per.capitalize()}", [beside] if beside else [])
        texts.append(f"gres/gpu:{f'{kind}:' if kind else ''}{gpus}")
    return [(name, ",".join(texts)) for name, texts in fields.items()]


def _without_forecast(line: str) -> str:
    """Without the start of a job that has a priority, unless it waits for it: Slurm's forecast of it moves with the clock."""
    _, _, rest = line.partition("|")
    return line if not rest or rest.startswith("0|") or rest.split("|", 2)[1] == "BeginTime" else rest


def _without_guess(job: SlurmJob, largest: int) -> SlurmJob:
    """Slurm 24.11 shows one node as the limit of every request that states none; one that could never run is not from a user."""
    guessed = job.state == "PENDING" and 0 < job.max_nodes * largest < job.gpus
    return replace(job, max_nodes=0) if guessed else job
