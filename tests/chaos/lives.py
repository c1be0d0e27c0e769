"""Runs inside the cluster, as the daemon's user: the real controller, life after life, as systemd would; each a fork of this
process, which has everything imported, so that a life begins in a few milliseconds.

    python3 lives.py CONFIG FOLDER '{"seed": 1, "chance": 0.3, "quota": 50, "gate": 0.1}'

A *point* is the moment before or after one write of one step to the journal, e.g. "preempt requeue before".

    chance   with which a controller kills itself (SIGKILL) at a point, while that point has fewer than `quota` kills
    gate     with which it waits at a point until the driver removes FOLDER/gate, which has the point and the job: time for
             a trouble at that very step. A second at most.

FOLDER/deaths.jsonl gets a line for each life that ended, FOLDER/requeues.jsonl one for each run that the controller requeues.
FOLDER/pid holds the process id of the present life, FOLDER/clock the seconds by which this controller's clock is wrong,
FOLDER/slow the seconds that each read of a control folder takes. Once FOLDER/peace exists nothing happens at points.
SIGTERM ends the present life in its own way, and then this program.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

CONFIG, FOLDER, PLAN = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
GATE_SECONDS = 1.0
right_time = time.time


def number(name: str) -> float:
    try:
        return float((FOLDER / name).read_text() or 0)
    except (FileNotFoundError, ValueError):
        return 0.0


def wrong_time() -> float:
    return right_time() + number("clock")


time.time = wrong_time  # before the imports below: some of them keep it as a default

from tiresias import __main__ as program  # noqa: E402
from tiresias.protocol import control  # noqa: E402
from tiresias.slurm_plugin.commands import controller as _imported_beforehand  # noqa: E402, F401
from tiresias.slurm_plugin.state.intents import Intent  # noqa: E402
from tiresias.slurm_plugin.state.journal import Journal  # noqa: E402

right_read = control.read


def slow_read(path: Path, uid: int) -> dict[str, Any]:
    if delay := number("slow"):
        time.sleep(delay)
    return right_read(path, uid)


class Points:
    """What happens to this life at its points. deaths: how many lives ended at each so far."""

    def __init__(self, life: int, deaths: Counter[str]) -> None:
        self._dice, self._deaths = random.Random(f"{PLAN['seed']}-{life}"), deaths

    def install(self) -> None:
        for name in ("begin", "step", "finish"):
            self._wrap(name)

    def _wrap(self, name: str) -> None:
        original = getattr(Journal, name)

        def write(journal: Journal, intent: Intent, *rest: Any) -> None:
            step = rest[0] if name == "step" else name
            before = intent.step
            self._at(f"{intent.kind} {step} before", intent)
            original(journal, intent, *rest)
            if step == "requeue":
                note(
                    "requeues.jsonl",
                    time=right_time(),
                    job=intent.id,
                    restart=intent.restart,
                    seconds=rest[1] - intent.began,
                    before=before,
                )
            self._at(f"{intent.kind} {step} after", intent)

        setattr(Journal, name, write)

    def _at(self, point: str, intent: Intent) -> None:
        if (FOLDER / "peace").exists():
            return
        if self._deaths[point] < PLAN.get("quota", 0) and self._dice.random() < PLAN.get("chance", 0.0):
            note("deaths.jsonl", time=right_time(), point=point, job=intent.id)
            os.kill(os.getpid(), signal.SIGKILL)
        if self._dice.random() < PLAN.get("gate", 0.0):
            self._wait(point, intent)

    def _wait(self, point: str, intent: Intent) -> None:
        gate, temporary = FOLDER / "gate", FOLDER / ".gate"
        temporary.write_text(json.dumps({"point": point, "job": intent.id}))
        temporary.replace(gate)
        deadline = time.monotonic() + GATE_SECONDS
        while gate.exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        gate.unlink(missing_ok=True)


def note(name: str, **content: Any) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(json.dumps(content) + "\n")


def live(life: int, deaths: Counter[str]) -> int:
    """In the child: one controller, to its end."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    control.read = slow_read
    Points(life, deaths).install()
    return program.main(["controller", "--config", CONFIG])


def points_of(lines: str) -> Counter[str]:
    return Counter(found["point"] for found in map(json.loads, lines.splitlines()) if "point" in found)


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "deaths.jsonl").touch()
    child, stopping = 0, False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        if child:
            os.kill(child, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    life = 0
    while not stopping:
        life += 1
        deaths = points_of((FOLDER / "deaths.jsonl").read_text())
        child = os.fork()
        if not child:
            os._exit(live(life, deaths))
        (FOLDER / "pid").write_text(str(child))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        note("deaths.jsonl", time=right_time(), life=life, exit=code)
        if code > 0:
            time.sleep(0.3)  # it ended by itself: systemd waits a little, too
    return 0


if __name__ == "__main__":
    sys.exit(main())
