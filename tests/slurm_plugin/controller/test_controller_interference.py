"""On a real Slurm a job starts beside the job that it suits, by what earlier runs of both kinds showed."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields
from itertools import count
from typing import Any

import pytest

from tests.slurm_plugin.controller.centre import Centre
from tiresias.slurm_plugin.state.journal_rows import JobRow, RunRow, columns

pytestmark = [pytest.mark.sandbox, pytest.mark.slow, pytest.mark.long]

LOADER, MATRIX = "loader", "matrix"
SECONDS = {(LOADER, LOADER): 2.0, (LOADER, MATRIX): 1.1, (MATRIX, LOADER): 1.2, (MATRIX, MATRIX): 1.0}  # 1 alone


def earlier_runs(kinds: dict[str, str], uid: int, now: float) -> Iterator[tuple[JobRow, RunRow]]:
    """Yield ended jobs: pairs on gpu03, and as many jobs alone on other nodes."""
    numbers = count(900_000)
    for period in range(30):
        start = now - 100_000.0 + 1000.0 * period
        pair = ((LOADER, MATRIX), (LOADER, LOADER), (MATRIX, MATRIX))[period % 3]
        for at, name in enumerate(pair):
            for node, seconds in (("gpu03", SECONDS[name, pair[1 - at]]), (f"gpu0{at + 1}", 1.0)):
                number, end = next(numbers), start + 900.0
                row = JobRow(f"{number}@1", str(number), uid, start, kind=kinds[name], ended=True, over=end)
                timed = seconds * (1.0 + 0.01 * (period % 5 - 2))
                yield row, RunRow(row.key, 0, start, end, 2, f"{node}:2", timed=timed)


def insert(db: sqlite3.Connection, table: str, row: Any) -> None:
    values = [getattr(row, each.name) for each in fields(row)]
    db.execute(f"insert into {table} ({columns(type(row))}) values ({','.join('?' * len(values))})", values)


def training(centre: Centre, name: str, *options: str) -> str:
    return centre.train(f"--job-name={name}", "--nodes=1", *options, gpus=2, seconds=3000)


def finding(centre: Centre, about: str) -> str:
    """Return what the doctor reports."""
    found = json.loads(centre.command("doctor", "--config", centre.config, "--json").stdout)
    [words] = [each["words"] for each in found if each["about"] == about]
    return str(words)


def test_a_job_starts_beside_the_job_that_it_suits(centre: Centre) -> None:
    centre.restart(placement={"style": "least_interference", "trial": "anywhere"})
    loader, matrix = training(centre, LOADER, "--nodelist=gpu01"), training(centre, MATRIX, "--nodelist=gpu02")
    for job in (loader, matrix):
        centre.wait_for_state(job, "RUNNING")
    assert not centre.status()["interference"]["used"]
    assert "0 timed runs beside jobs of one kind, and 10 are needed" in finding(centre, "interference")
    assert finding(centre, "learned placement") == "not used: placement.style is not learned"
    assert centre.explain(loader)["interference"] == {"learned": False, "known": False, "beside": []}
    query = f"select id, kind, uid from job where id in ('{loader}', '{matrix}') and kind != ''"
    centre.wait_until(lambda: len(centre.query_journal(query)) == 2, "their kinds are not known", loader, matrix)
    found = {job: (kind, uid) for job, kind, uid in centre.query_journal(query)}
    kinds = {LOADER: found[loader][0], MATRIX: found[matrix][0]}
    centre.stop()
    with closing(sqlite3.connect(centre.journal_file)) as db, db:
        for row, run in earlier_runs(kinds, found[loader][1], time.time()):
            insert(db, "job", row)
            insert(db, "run", run)
    centre.start(centre.config)
    centre.wait_until(lambda: (centre.status().get("interference") or {}).get("used"), "no interference is learned")
    assert finding(centre, "interference").startswith("used: mean error ")
    second = training(centre, LOADER, "--exclude=gpu03,gpu04")
    centre.wait_for_state(second, "RUNNING")
    assert centre.show(second)["NodeList"] == "gpu02", "gpu01 is as free, and the first node"
    centre.wait_until(lambda: centre.published(second).get("nodes"), "its nodes are not published", second)
    [beside] = centre.explain(second)["interference"]["beside"]
    assert beside["job"] == matrix
    assert beside["own"] == pytest.approx(0.1, abs=0.03)
    assert beside["other"] == pytest.approx(0.2, abs=0.03)
    assert f"slower beside job {matrix}, which becomes" in centre.command("explain", second).stdout
