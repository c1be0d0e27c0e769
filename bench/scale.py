"""How the controller carries a large cluster. Prints JSON.

    python bench/scale.py [--nodes 256] [--jobs 10000]      a real Slurm with so many slurmds, its GPUs busy, jobs waiting
    python bench/scale.py --curve [--repeat 5] [--changes 0]   the controller's own work, up to 100,000 jobs and 16,000 nodes

real     cpu: share of a processor; rss: MB; cycle: seconds, of all cycles of the phase; calls: to slurmctld, a minute.
         steady: nothing happens, the period is 30 s. churn: a running job is cancelled every other second, as by its owner;
         event_to_action: seconds from scancel until the first line of a job that takes its place.
curve    ms of processor time of one cycle between Slurm's answer and the controller's calls, by stage; `status` is what the
         first viewer after a cycle costs, in another thread. The records are made up (bench/status.py).
         changes: the jobs whose records change before each cycle; as many end, and as many arrive.
         garbage: the search for reference cycles among new objects, which the controller suspends during a cycle.
         garbage: of Python's search for reference cycles among new objects, which the controller suspends in a cycle.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpc import Site
from status import WAITING, Centre

from tiresias.sandbox.slurm_conf import ClusterSpec
from tiresias.scheduler import garbage_collection
from tiresias.scheduler.decide import decide
from tiresias.scheduler.next_change import next_change
from tiresias.slurm_plugin.backends.commands import CommandsBackend
from tiresias.slurm_plugin.sockets.publication import Publication

GPUS_PER_NODE = 8
SIZES = ((1_000, 250), (3_000, 500), (10_000, 2_000), (30_000, 5_000), (100_000, 16_000))
STARTED = "/shared/started"  # a file for each job, with the moment of its first line
TASKS = 1000  # of each array
AFTER = ("garbage", "status")  # not part of a cycle
TICKS = os.sysconf("SC_CLK_TCK")


# -- a real Slurm -------------------------------------------------------------------------------------------------------


@contextmanager
def site_of(nodes: int, backend: str) -> Iterator[tuple[Site, dict[str, Any]]]:
    """Yield a site with its controller, and what is known of it: its size, and the seconds until it was up."""
    began = time.monotonic()
    spec = ClusterSpec(
        name="bench-scale",
        nodes=nodes,
        gpus_per_node=GPUS_PER_NODE,
        cpus_per_node=64,
        memory_mb=512_000,
        nodes_per_rack=32,
        settings={"KillWait": "5", "MaxJobCount": "50000"},
    )
    site = Site(spec, backend)
    try:
        found: dict[str, Any] = {
            "nodes": nodes,
            "gpus": nodes * GPUS_PER_NODE,
            "up": round(time.monotonic() - began, 1),
        }
        (site.cluster.shared / "started").mkdir()
        (site.cluster.shared / "started").chmod(0o1777)
        with site.controller():
            site.until(lambda: bool(site.status()), "the controller does not answer")
            found["backend"] = site.status()["backend"]
            yield site, found
    finally:
        site.cluster.down()


def real(nodes: int, jobs: int, backend: str) -> dict[str, Any]:
    before = available()
    with site_of(nodes, backend) as (site, found):
        return found | load(site, nodes, jobs, before)


def load(site: Site, nodes: int, jobs: int, before: int) -> dict[str, Any]:
    command = f"date +%s.%N > {STARTED}/$SLURM_JOB_ID; sleep 100000"
    found: dict[str, Any] = {}
    fill = [(nodes * 3 // 4, 8), (nodes // 4, 4), (nodes, 1)]  # together all GPUs
    for count, gpus in fill:
        site.submit(count, gpus, command)
    running = sum(count for count, _ in fill)
    found["running"] = running
    found["all_run_after"] = round(site.until(lambda: site.count("RUNNING") == running, "not all run"), 1)
    found["memory_mb"] = before - available()
    arrays = jobs // 2 // TASKS
    site.submit(arrays, 4, command, array=f"0-{TASKS - 1}")
    found["waiting"] = jobs
    found["submitted_in"] = round(site.submit(jobs - arrays * TASKS, 1, command), 1)
    goal = site.status()["cycle"]["count"] + 3
    found["settled_after"] = round(site.until(lambda: settled(site, goal, jobs), "the controller does not settle"), 1)
    return found | {"steady": phase(site, lambda: time.sleep(60.0)), "churn": churn(site)}


def settled(site: Site, goal: int, jobs: int) -> bool:
    status = site.status()
    waiting = sum(queue["waiting"] for queue in status.get("queues", ()))
    return bool(status) and status["cycle"]["count"] >= goal and waiting >= jobs and not status["rpc"]["postponed"]


def churn(site: Site, events: int = 30) -> dict[str, Any]:
    latencies: list[float] = []

    def cancel_and_wait() -> None:
        for _ in range(events):
            latencies.append(replaced(site))
            time.sleep(2.0)

    found = phase(site, cancel_and_wait)
    found["event_to_action"] = {
        "events": events,
        "median": round(statistics.median(latencies), 3),
        "max": round(max(latencies), 3),
    }
    return found


def replaced(site: Site) -> float:
    """Seconds from the cancellation of a running job to the first line of the first job that started then."""
    folder = site.cluster.shared / "started"
    known = set(folder.iterdir())
    words = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
    victim = site.cluster.run(words, timeout=60).stdout.split()[-1]
    began = time.time()
    site.cluster.run(["scancel", victim], user="alice")
    site.until(lambda: any(file.read_text() for file in set(folder.iterdir()) - known), "no job takes the place")
    return min(float(text) for file in set(folder.iterdir()) - known if (text := file.read_text())) - began


def phase(site: Site, happens: Callable[[], object]) -> dict[str, Any]:
    calls, used, began = site.calls(), cpu(site), time.monotonic()
    happens()
    seconds = time.monotonic() - began
    shares = {name: round((after - used.get(name, 0.0)) / seconds, 4) for name, after in cpu(site).items()}
    status = site.status()
    return {
        "seconds": round(seconds),
        "cpu": shares,
        "rss": rss(site),
        "cycle": status["cycle"],
        "calls_per_minute": round(60 * (site.calls() - calls) / seconds, 1),
        "slurmctld": status["rpc"]["slurmctld"],
    }


def processes(site: Site) -> dict[str, Path]:
    """Return the folders in /proc of the measured processes."""
    patterns = {"controller": "tiresias controller", "worker": "pyslurm_worker", "slurmctld": "^slurmctld"}
    found = {}
    for name, pattern in patterns.items():
        pids = site.cluster.run(["pgrep", "-of", pattern], check=False).stdout.split()
        if pids:
            found[name] = Path(f"/proc/{site.cluster.init.pid}/root/proc/{pids[0]}")
    return found


def cpu(site: Site) -> dict[str, float]:
    """Seconds of processor time so far."""
    found = {}
    for name, folder in processes(site).items():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        found[name] = (int(fields[11]) + int(fields[12])) / TICKS  # utime, stime: proc(5)
    return found


def rss(site: Site) -> dict[str, int]:
    found = {}
    for name, folder in processes(site).items():
        lines = (folder / "status").read_text().splitlines()
        found[name] = next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))
    return found


def available() -> int:
    """MB of this machine's memory."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable"))


# -- the controller's own work ------------------------------------------------------------------------------------------


def curve(repeat: int, changes: int, sizes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    return [point(jobs, nodes, repeat, changes) for jobs, nodes in sizes]


def point(jobs: int, nodes: int, repeat: int, changes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        centre = Centre(Path(folder), jobs, nodes)
        rounds = [stages(centre)]
        for at in range(repeat):
            change(centre, at, changes)
            rounds.append(stages(centre))
        del rounds[0]
        centre.journal.close()
    least = round(min(sum(value for name, value in one.items() if name not in AFTER) for one in rounds), 1)
    medians = {name: round(statistics.median(one[name] for one in rounds), 1) for name in rounds[0]}
    own = round(sum(value for name, value in medians.items() if name not in AFTER), 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"jobs": jobs, "nodes": nodes, "cycle": own, "least_cycle": least, **medians, "peak_rss_mb": peak}


def change(centre: Centre, at: int, changes: int) -> None:
    """Change records of jobs, end as many of the jobs that ran first, and submit as many."""
    cache, newest = centre.backend._cache, max(centre.backend._cache._jobs)
    known = sorted(cache._jobs)
    for record in known[:changes]:
        del cache._jobs[record], cache._signatures[record]
    for record in known[len(known) // 3 :: 100][:changes]:
        cache.put(record, [replace(job, priority=job.priority + 1 + at) for job in cache.of(record)], None)
    for record in range(newest + 1, newest + 1 + changes):
        cache.put(record, [replace(WAITING, id=str(record), raw_id=record)], None)


def stages(centre: Centre) -> dict[str, float]:
    found: dict[str, float] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()
        answer = call()
        found[name] = 1e3 * (time.process_time() - began)
        return answer

    with garbage_collection.suspended():
        cycle(centre, timed)
    timed("garbage", lambda: gc.collect(1))
    timed("status", centre.answer)
    return found


def cycle(centre: Centre, timed: Callable[[str, Callable[[], Any]], Any]) -> None:
    ledger, observer, config = centre.ledger, centre.observer, centre.config
    slurm = timed("assemble", lambda: assembled(centre))
    managed = timed("apply", lambda: ledger.apply(slurm))
    seen = timed("observe", lambda: observer.observe(slurm, managed, {}))
    waiting = timed("waiting", lambda: observer.waiting(managed, slurm.time))
    assert waiting
    timed("next", lambda: (observer.next_settled(managed, slurm.time), next_change(seen, config.policy)))
    plan = timed("decide", lambda: decide(seen, config.policy))
    about = {"cluster": "bench", "mode": "exact", "alarms": []}
    running = [job for job in managed if job.state == "RUNNING"]
    unmovable = timed(
        "unmovable",
        lambda: dict(
            zip((job.id for job in running), observer.preemptability.why_each(running, slurm.time), strict=True)
        ),
    )
    news = Publication(about, slurm, seen, plan, dict(ledger.jobs), {}, unmovable, {}, (), config)
    timed("publish", lambda: centre.publisher.publish(news))


def assembled(centre: Centre) -> Any:
    """What a back end does with records that did not change."""
    if not hasattr(centre, "backend"):
        centre.backend = CommandsBackend()
        for job in centre.slurm.jobs:
            centre.backend._cache.put(job.raw_id, [job], None)
    return centre.backend._assemble(centre.slurm.time, centre.slurm.nodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--backend", choices=["auto", "pyslurm", "commands"], default="auto")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--largest", action="store_true", help="only the last size of --curve")
    args = parser.parse_args()
    found = (
        {"curve": curve(args.repeat, args.changes, SIZES[-1:] if args.largest else SIZES)}
        if args.curve or args.largest
        else {"real": real(args.nodes, args.jobs, args.backend)}
    )
    print(json.dumps({"machine": platform.machine(), "python": platform.python_version(), **found}, indent=2))


if __name__ == "__main__":
    main()
