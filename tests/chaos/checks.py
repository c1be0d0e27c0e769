"""What must hold after a chaos run, counted, and the evidence for what does not.

lost             trainers that neither finished nor were cancelled or killed by the campaign, and that Slurm did not forget
twice            jobs of which two runs were there at once, in Slurm's log or in their own
wrong_curves     finished trainings whose losses are not those of an uninterrupted one
orphan_holds     jobs that stayed held when the holds of owners and administrators were lifted and the controller had stopped
ledger_missing   runs in Slurm's log that the controller saw and the journal does not have
ledger_extra     runs in the journal that Slurm's log does not have
ledger_wrong     runs whose length differs from Slurm's, beyond what the controller could see at that moment
unfinished       jobs still in the queue when all should have ended
open_steps       starts and preemptions that the journal still has under way
redone, in_vain  preemptions.py
idle             idle.py
service_wrong    service.py
quarantined      quarantined.py

A slurmctld that is killed with SIGKILL loses its last seconds: jobs that it accepted are gone, jobs that ended or were requeued
run on in its books until their nodes register again, and it logs such a run twice. And a slurmd that registers takes the script
of a job that it is about to launch for a stray one and removes it, once in thousands of launches ("Purging vestigial job
script"). And a slurmctld that is away for the last quarter of a minute of a job's time ends it when it is back; so does 22.05 where
it is away when the job asks for the end of its run. What befalls the jobs of such a moment, in ways of lost, twice, redone and
ledger_*, is counted apart, as by_slurm.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.idle import idle
from tests.chaos.preemptions import in_vain, redone, requeues, victims
from tests.chaos.quarantined import quarantined
from tests.chaos.refused_updates import sorted_out, unindexed_jobs
from tests.chaos.samples import Sampler
from tests.chaos.scene import Scene, tasks
from tests.chaos.service import Accounted, promoted, service_wrong
from tests.chaos.troubles import Troubles
from tests.chaos.windows import Window, Windows
from tiresias.sandbox import completion_log
from tiresias.scheduler.host_lists import hosts

INVARIANTS = (
    "lost", "twice", "wrong_curves", "orphan_holds", "ledger_missing", "ledger_extra", "ledger_wrong", "unfinished", "open_steps",
    "redone", "in_vain", "idle", "service_wrong", "quarantined",
)  # fmt: skip
BY_SLURM = "by_slurm"
PURGED = re.compile(r"\[(?P<time>[-0-9T:]+)[.0-9]*\] .*Purging vestigial job script \S*/job0*(?P<job>[0-9]+)/")
GPUS = re.compile(r"gres/gpu=(\d+)")
WITHOUT_END_TIME = "22.05"  # releases that pass no SLURM_JOB_END_TIME (wrappers/time_limit.py)
TIME_TO_ASK = 15.0  # seconds before its time limit in which a job asks for its requeue, again and again
SHORTEST_SEEN = 3.0  # seconds: a shorter run may begin and end between two polls of the controller


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A line of Slurm's job completion log."""

    id: str  # as squeue's %i has it
    raw: int
    name: str
    state: str
    submit: int
    start: int
    end: int
    limit: float  # seconds
    managed: bool
    gpus: int
    nodes: tuple[str, ...] = ()
    account: str = ""

    def lost_its_script(self, purged: Iterable[tuple[int, int]]) -> bool:
        times = [moment for job, moment in purged if job == self.raw]
        return self.state == "FAILED" and any(self.start - 1 <= moment <= self.end + 1 for moment in times)

    def ended_without_requeue(self, absent: Iterable[tuple[float, float]], version: str) -> bool:
        """Whether it ended at its limit while slurmctld, away in the times `absent`, could not requeue it, or report its end."""
        last, half = self.start + self.limit - TIME_TO_ASK, self.start + self.limit / 2
        asks = version.startswith(WITHOUT_END_TIME)
        away = any(
            (first <= last and self.end <= back + 2) or (asks and first <= half and self.start <= back)
            for first, back in absent
        )
        return self.state == "TIMEOUT" and away


@dataclass(frozen=True, slots=True)
class JournaledRun:
    id: str
    restart: int
    start: float
    end: float


def logged_runs(log: Path) -> list[LoggedRun]:
    found = []
    for fields in completion_log.records(log):
        if fields.get("StartTime", "Unknown") != "Unknown" and fields.get("NodeList", "(null)") != "(null)":
            found.append(_logged(fields))
    return sorted(found, key=lambda run: run.start)


def _logged(fields: dict[str, str]) -> LoggedRun:
    array, task = fields.get("ArrayJobId", "0"), fields.get("ArrayTaskId", "4294967294")
    number = f"{array}_{task}" if array not in ("0", "") and task.isdigit() else fields["JobId"]
    managed = fields["Partition"] == "gpu" and fields.get("HetJobId", "0") == "0"
    limit = float(fields["TimeLimit"]) * 60 if fields.get("TimeLimit", "").isdigit() else 0.0
    start, end, submit = (completion_log.epoch(fields[name]) for name in ("StartTime", "EndTime", "SubmitTime"))
    return LoggedRun(
        number,
        int(fields["JobId"]),
        fields["Name"],
        fields["JobState"],
        submit,
        start,
        end,
        limit,
        managed,
        int(next(iter(GPUS.findall(fields.get("Tres", ""))), "0")),
        tuple(hosts(fields["NodeList"])),
        fields.get("Account", ""),
    )


def journaled_runs(journal: Path) -> list[JournaledRun]:
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
        rows = db.execute("select id, restart, start, end from run join job using (key)").fetchall()
    db.close()
    return [JournaledRun(*row) for row in rows]


def purged_scripts(logs: Iterable[Path]) -> list[tuple[int, int]]:
    """Which jobs' scripts a slurmd removed, and in which second."""
    found = [PURGED.match(line) for log in logs for line in log.read_text(errors="replace").splitlines()]
    return [(int(one["job"]), completion_log.epoch(one["time"])) for one in found if one]


def open_steps(journal: Path) -> list[str]:
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as db:
        return [str(row) for row in db.execute("select id, kind, step from intent where outcome = ''")]


class Check:
    """unfinished, held: what the queue still had at the end."""

    def __init__(
        self,
        scene: Scene,
        troubles: Troubles,
        sampler: Sampler,
        unfinished: Sequence[str],
        held: Sequence[str],
        deadline: float,
    ) -> None:
        self._sampler, self._deadline = sampler, deadline
        self._scene, self._blind, self._ahead = scene, troubles.blind, troubles.ahead
        self.logged = logged_runs(scene.cluster.log / "jobcomp.log")
        purged = purged_scripts(scene.cluster.log.glob("gpu*.log"))
        version = scene.cluster.slurm_version
        at_limit = {run.name for run in self.logged if run.ended_without_requeue(troubles.absent, version)}
        unscripted = {run.name for run in self.logged if run.lost_its_script(purged)}
        unlisted = {
            name for name, job in scene.submitted().items() if any(a <= job.time <= b for a, b in troubles.unlisted)
        }
        unindexed = unindexed_jobs(scene.cluster.log / "slurmctld.log", sampler.name)
        self.shaken = troubles.shaken | unlisted | unindexed | at_limit | unscripted
        journal = scene.journal()
        self.journal = journal
        self._journaled = journaled_runs(journal)
        self._results = scene.results()
        self.evidence: dict[str, list[str]] = {name: [] for name in (*INVARIANTS, BY_SLURM)}
        self.evidence["unfinished"] += unfinished
        self.evidence["orphan_holds"] += held
        self.evidence["open_steps"] += open_steps(journal)
        self.evidence["quarantined"] += quarantined(scene.cluster.log / "controller.log")
        self._check_jobs()
        self._check_runs()
        self._compare_ledger()
        self.windows = Windows([*troubles.changes.found, *(Window(first, last) for first, last in self._blind)])
        self.judged: dict[str, float] = {}
        self._judge_preemptions(journal)
        self._judge_idle_and_service(journal)
        for what in ("unfinished", "orphan_holds", "idle"):
            self.evidence[what], by_slurm_too = sorted_out(self.evidence[what], unindexed)
            self.evidence[BY_SLURM] += by_slurm_too

    @property
    def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in self.evidence.items()}

    @property
    def broken(self) -> list[str]:
        return [name for name, found in self.evidence.items() if found and name != BY_SLURM]

    def volume(self) -> dict[str, int]:
        return {
            "jobs": len(self._scene.submitted()),
            "trainings": len(self._results),
            "finished": sum(one.finished for one in self._results),
            "runs": len(self.logged),
            "preemptions": sum(len(one.runs) > 1 for one in self._results),
        }

    def _judge_preemptions(self, journal: Path) -> None:
        results, name = {one.id: one for one in self._results}, self._sampler.name
        found = requeues(self._scene.trouble / "requeues.jsonl")
        twins = self._submitted_twice()
        once = {one: result for one, result in results.items() if one.partition("_")[0] not in twins}
        for words in redone(found, self._deadline, once, name):
            self.note("redone", words.partition(":")[0].partition("_")[0], words)
        starts: dict[tuple[str, str], list[float]] = {}
        for run in self.logged:
            starts.setdefault((run.id, run.name), []).append(run.start)
        owners = {job.name: job.user for job in self._scene.jobs.values()}
        broken, judged = in_vain(victims(journal), starts, name, self.windows, owners)
        self.evidence["in_vain"] += broken
        self.judged |= {"requeues": len(found), "preemptions_judged": judged}

    def _submitted_twice(self) -> set[str]:
        """Names: slurmctld went away when it had accepted the job, its owner got no answer and submitted it again. Both write into
        one file of results."""
        ids: dict[str, set[str]] = {}
        for run in self.logged:
            ids.setdefault(run.name, set()).add(run.id.partition("_")[0])
        return {name for name, found in ids.items() if len(found) > 1}

    def _judge_idle_and_service(self, journal: Path) -> None:
        plain = {job.name: job.plain for job in self._scene.jobs.values() if job.plain}
        nodes = {job.name: job.nodes for job in self._scene.jobs.values() if job.nodes}
        broken, longest = idle(self._sampler.samples, plain, self.windows, nodes)
        self.evidence["idle"] += broken
        rows = [Accounted(run.id, run.name, run.start, run.end, self._held_gpus(run)) for run in self.logged]
        foreign = [job.name for job in self._scene.jobs.values() if job.foreign]  # Slurm may count no GPUs of them
        leave_out = dict.fromkeys([*self.shaken, *promoted(journal), *foreign])
        wrong, compared = service_wrong(self._sampler.samples, rows, self._blind, leave_out)
        self.evidence["service_wrong"] += wrong
        self.judged |= {"longest_idle": round(longest, 1), "services_compared": compared}

    def _held_gpus(self, run: LoggedRun) -> int:
        job = self._scene.jobs.get(run.name)
        return len(run.nodes) * self._scene.cluster.spec.gpus_per_node if job and job.exclusive else run.gpus

    def _check_jobs(self) -> None:
        fates = {name: job.fate for job in self._scene.jobs.values() for name in tasks(job)}
        for result in self._results:
            if result.finished and not result.curve_is_right:
                self.evidence["wrong_curves"].append(result.id)
            if not result.finished and not fates[result.id]:
                self.note("lost", result.id.partition("_")[0], result.id)

    def _check_runs(self) -> None:
        last: dict[tuple[str, str], LoggedRun] = {}
        for run in self.logged:
            before = last.get((run.id, run.name))
            if before and run.start < before.end:
                self.note("twice", run.name, f"{run.name} {run.id}: {before} and {run}")
            last[run.id, run.name] = run
        for result in self._results:
            if result.overlapping:
                self.note("twice", result.id.partition("_")[0], result.id)

    def note(self, what: str, name: str, words: str) -> None:
        """Count a violation about a job; one of a job of which a killed slurmctld may have forgotten something, as Slurm's own."""
        self.evidence[BY_SLURM if name in self.shaken else what].append(words)

    def _compare_ledger(self) -> None:
        foreign = {job.name for job in self._scene.jobs.values() if job.foreign}
        own: dict[str, list[JournaledRun]] = {}
        for one in self._journaled:
            own.setdefault(one.id, []).append(one)
        for run in self.logged:
            if run.managed and run.name not in foreign:
                self._compare(run, own.get(run.id, []))
        for left in (one for each in own.values() for one in each):
            name = self._name_of(left)
            if name not in foreign and left.end and not self._is_blind(left.start, left.end):
                self.note("ledger_extra", name, f"{left}")

    def _name_of(self, run: JournaledRun) -> str:
        """Slurm gives an id to job after job; "" where its log has no such run."""
        near = [one for one in self.logged if one.id == run.id and abs(one.start - run.start) <= 1]
        return near[0].name if near else ""

    def _compare(self, run: LoggedRun, own: list[JournaledRun]) -> None:
        """Compare a run with its row of the journal, and remove that from `own`."""
        same = [one for one in own if abs(one.start - run.start) <= 1]
        if not same:
            if run.end - run.start >= SHORTEST_SEEN and not self._is_blind(run.start, run.end):
                self.note("ledger_missing", run.name, f"{run}")
            return
        own.remove(same[0])
        first, last = sorted((float(run.end), same[0].end))
        is_corrected = last == run.end and any(begin <= run.end <= end for begin, end in self._ahead)
        if last - first > 1 and not is_corrected and not self._is_blind(first, last):
            self.note("ledger_wrong", run.name, f"{run}: {same[0]}")

    def _is_blind(self, start: float, end: float) -> bool:
        """Whether something happened in that time that hid it from the controller."""
        return any(start <= last and end >= first for first, last in self._blind)


def story(scene: Scene, words: Iterable[str], lines: int = 40) -> list[str]:
    """What controller and slurmctld logged of a job."""
    marks = list(words)
    found = []
    for log in ("controller.log", "slurmctld.log"):
        text = (scene.cluster.log / log).read_text(errors="replace").splitlines()
        found += [f"{log}: {line}" for line in text if any(mark in line for mark in marks)][-lines:]
    return found
