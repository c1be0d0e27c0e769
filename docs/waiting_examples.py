"""Writes docs/reference/waiting-examples.md from a private cluster: what the commands show for ten reasons of waiting.

    python docs/waiting_examples.py [--output docs/reference/waiting-examples.md]

tests/docs/test_waiting.py compares the page with a new run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tiresias.errors import TiresiasError
from tiresias.sandbox.cluster import Cluster
from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.slurm_plugin.comments.writer import PASS_INTERVAL_S

CONFIG = """
mode = "exact"
partitions = ["gpu"]
period = 0.5
poll = 0.05
[paths]
control = "/shared/tiresias/control"
checkpoints = "/shared/tiresias/checkpoints"
[comment]
interval = 1.0
"""
HEAD = """# Ten reasons of waiting, side by side

What `squeue`, `scontrol show job`, `tiresias explain` and `tiresias status` show of the same job. [Why a job waits](waiting.md)
describes the comment. `python docs/waiting_examples.py` writes this page from a private cluster of 4 nodes with 4 GPUs each; job
{holder} runs on 15 GPUs there, with a time limit of 30 minutes and the only `matlab` licence. Where the reason is Slurm's own and
the controller does not hold the job, Slurm shows the reason itself, and there is no comment.
"""
SQUEUE = "squeue --array --states=PD -O JobArrayID:10,UserName:8,StateCompact:4,ReasonList:32,admin_comment:120"
COLUMNS = 110  # of the terminal in which explain is typed; status is piped, so that each job has one line
LIMIT_S = 120.0


class Example(NamedTuple):
    """title: the reason in words. job: that waits for it. ready: what squeue's line of it shows once it does."""

    title: str
    job: str
    ready: str


class Centre:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        for folder in ("tiresias", "tiresias/control", "tiresias/checkpoints"):
            (cluster.shared / folder).mkdir(exist_ok=True)
            (cluster.shared / folder).chmod(0o1777)
        (cluster.shared / "tiresias.toml").write_text(CONFIG)

    @contextlib.contextmanager
    def controller(self) -> Iterator[None]:
        user = self.cluster.spec.daemon_user
        with (self.cluster.log / "controller.log").open("ab") as log:
            words = ["tiresias", "controller", "--config", "/shared/tiresias.toml"]
            process = self.cluster.popen(words, user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            self.until(lambda: bool(self.run("tiresias status --json", check=False)), "the controller does not answer")
            yield
        finally:
            self.cluster.run(["pkill", "-KILL", "-f", "tiresias controller"], check=False)
            process.wait()

    def run(self, command: str, user: str = "slurm", check: bool = True) -> str:
        words = ["sh", "-c", command]
        return self.cluster.run(words, user=user, check=check).stdout

    def submit(self, options: str, gpus: int = 1, user: str = "bob") -> str:
        size = f"--gpus={gpus} --ntasks={gpus} --gpus-per-task=1 --output=/dev/null --chdir=/tmp"
        return self.run(f"sbatch --parsable {size} {options} --wrap 'sleep 3000'", user).strip()

    def line(self, job: str) -> str:
        """squeue's, of a waiting job."""
        found = [one for one in self.run(f"{SQUEUE} --noheader").splitlines() if one.split()[:1] == [job]]
        return re.sub(r"\(null\)$", "", found[0].rstrip()).rstrip() if found else ""

    def until(self, ready: Callable[[], bool], words: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not ready():
            if time.monotonic() > deadline:
                raise TiresiasError(f"{words}\n{self.run(SQUEUE)}")
            time.sleep(0.2)


def examples(centre: Centre, holder: str) -> list[Example]:
    """Submits the jobs of the ten reasons. The controller sees each before the next is submitted, so that their order is fixed."""
    found: list[Example] = []

    def add(title: str, job: str, ready: str) -> None:
        found.append(Example(title, job, ready))
        centre.until(lambda: re.search(ready, centre.line(job)) is not None, f"job {job} does not show {ready!r}")

    queued = centre.submit("--time=20", 4)
    add("GPUs are held by jobs ahead of it", queued, "Tiresias: 1st of .*estimate")
    add("the licence that it needs is in use", centre.submit("--time=20 --licenses=matlab"), "Licenses")
    tasks = centre.submit("--time=20 --array=1-3%1")
    centre.until(lambda: not centre.line(f"{tasks}_1"), "the first task does not start")
    add("its array runs as many tasks as it may", f"{tasks}_3", "JobArrayTaskLimit")
    centre.run("scontrol update PartitionName=gpu MaxTime=60")
    add("its time limit is above that of the partition", centre.submit("--time=120"), "PartitionTimeLimit")
    centre.run("scontrol update NodeName=gpu04 State=DRAIN Reason=repair")
    add("the node that it requests is drained", centre.submit("--time=20 --nodelist=gpu04"), "Tiresias: .*gpu04")
    add("it is submitted with --begin=now+2hours", centre.submit("--time=20 --begin=now+2hours"), "BeginTime")
    later = centre.submit("--time=20", 2)
    centre.until(lambda: "Tiresias: " in centre.line(later), f"job {later} has no comment")
    centre.run(f"scontrol update JobId={later} StartTime=now+2hours", "bob")
    add("its owner sets StartTime=now+2hours while it is held", later, "BeginTime")
    add("it depends on another job", centre.submit(f"--time=20 --dependency=afterok:{holder}"), "Dependency")
    add("its owner holds it", centre.submit("--time=20 --hold"), "JobHeldUser")
    held = centre.submit("--time=20 --hold")
    centre.run(f"scontrol hold {held}")
    add("an administrator holds it", held, "JobHeldAdmin")
    return found


def shown(centre: Centre, example: Example) -> str:
    """One reason in the four commands."""
    job, record = example.job, centre.run(f"scontrol show job {example.job}")
    fields = re.findall(r"^ *(?:AdminComment=.*|JobState=.*)$", record, re.MULTILINE)
    explained = centre.run(f"COLUMNS={COLUMNS} tiresias explain {job}", check=False).splitlines()
    facts = [line for line in explained if re.match(r"(estimate|note|latest start|no bound) ", line)]
    status = [
        re.sub(" {3,}", "  ", line)
        for line in centre.run("tiresias status").splitlines()
        if re.match(rf"\W*{job}\s", line)
    ]
    parts = {
        f"squeue --array --jobs={job} -O ...": [centre.line(job)],
        f"scontrol show job {job}": ["...", *fields, "..."],
        f"tiresias explain {job}": [*_opening(explained), "...", *facts, *(["..."] if facts else [])],
        "tiresias status | cat": ["...", *status, "..."],
    }
    return "\n".join(f"$ {command}\n" + "\n".join(line.rstrip() for line in lines) for command, lines in parts.items())


def _opening(lines: list[str]) -> list[str]:
    """Up to the first blank line."""
    return lines[: lines.index("")] if "" in lines else lines


def settle(centre: Centre) -> None:
    """Until the comments stay as they are for longer than the time between two passes of the controller."""
    before = ""
    while before != (found := centre.run(SQUEUE)):
        before = found
        time.sleep(4 * PASS_INTERVAL_S)


def block(centre: Centre, number: int, example: Example) -> str:
    title = example.title[0].upper() + example.title[1:]
    return f"## {number}. {title}\n\n```text\n{shown(centre, example)}\n```\n"


def page() -> str:
    spec = ClusterSpec(name=f"docs-waiting-{os.getpid()}", nodes=4, settings={"Licenses": "matlab:1"})
    centre = Centre(Cluster.up(spec))
    try:
        with centre.controller():
            holder = centre.submit("--time=30 --licenses=matlab", 15, "alice")
            centre.until(lambda: not centre.line(holder), "the first job does not start")
            found = examples(centre, holder)
            settle(centre)
            blocks = [block(centre, at, one) for at, one in enumerate(found, 1)]
            lines = f"The lines of `squeue` are those of\n\n    {SQUEUE}\n"
            return "\n".join([HEAD.format(holder=holder), lines, *blocks])
    finally:
        centre.cluster.down()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("reference") / "waiting-examples.md")
    parser.parse_args().output.write_text(page())


if __name__ == "__main__":
    main()
