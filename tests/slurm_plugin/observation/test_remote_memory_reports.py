"""The reports on remote memory as the controller reads them, and as it publishes and prints them."""

from __future__ import annotations

import argparse
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.slurm_plugin.sockets.test_publication import NOW, ROOT, Sight
from tests.slurm_plugin.sockets.test_published_types import faults
from tiresias.durable.leadership import Leadership
from tiresias.errors import Unavailable
from tiresias.protocol import control, remote_memory_use, site_configuration
from tiresias.protocol.explanation import Explanation
from tiresias.protocol.published_job import PublishedJob
from tiresias.protocol.remote_memory_use import RemoteMemoryUse
from tiresias.protocol.status import Status
from tiresias.slurm_plugin.backends.interface import NodeShare, SlurmJob
from tiresias.slurm_plugin.backends.slurm_rules import License, SlurmRules
from tiresias.slurm_plugin.cluster.site import Site
from tiresias.slurm_plugin.commands import explain
from tiresias.slurm_plugin.commands.ended_job_memory import CLOCKS_S, add_memory_use
from tiresias.slurm_plugin.config import Config
from tiresias.slurm_plugin.config.sections import Paths
from tiresias.slurm_plugin.controller import Controller
from tiresias.slurm_plugin.observation.remote_memory_reports import LONGEST_POLL_S, RemoteMemoryReports
from tiresias.slurm_plugin.sockets.shown_remote_memory import shown_use
from tiresias.slurm_plugin.state.journal import Journal
from tiresias.slurm_plugin.views.explain import render_explanation
from tiresias.slurm_plugin.views.remote_memory_text import memory_facts, memory_words
from tiresias.slurm_plugin.views.status import render_status
from tiresias.slurm_plugin.views.table_layout import UNLIMITED

START = 10_000
USE = RemoteMemoryUse(
    "gpu01", START + 1.0, START + 50.0, 1 << 30, 512, 384, 256, 64, 64, 2.5, {"node07:7600": 128 << 20, "node08:7600": 64 << 20}
)  # fmt: skip


@pytest.fixture
def job(running: Callable[..., SlurmJob]) -> SlurmJob:
    share = NodeShare("gpu01", 4, 4, 100)
    return replace(running(START), uid=os.getuid(), licenses="remote_memory:2", shares=(share,))


@pytest.fixture
def folder(tmp_path: Path, job: SlurmJob) -> Path:
    found = control.job_folder(tmp_path, job.uid, job.id)
    control.make(found, "")
    return found


def read(root: Path, job: SlurmJob, now: float = START + 60.0) -> Mapping[str, tuple[RemoteMemoryUse, ...]]:
    reports = RemoteMemoryReports(root)
    reports.poll(job, now)
    return reports.found


def test_what_is_written_is_read(tmp_path: Path, job: SlurmJob, folder: Path) -> None:
    remote_memory_use.write(folder, USE)
    assert read(tmp_path, job) == {job.id: (USE,)}
    assert read(tmp_path, replace(job, licenses="")) == {}


def test_reports_of_other_nodes_and_earlier_runs_do_not_count(tmp_path: Path, job: SlurmJob, folder: Path) -> None:
    remote_memory_use.write(folder, USE._replace(node="gpu09"))
    assert read(tmp_path, job) == {}
    remote_memory_use.write(folder, USE)
    assert read(tmp_path, replace(job, start_time=START + 1000, restarts=1), START + 1060.0) == {}


def test_a_run_is_polled_more_rarely_the_longer_it_lasts(tmp_path: Path, job: SlurmJob, folder: Path) -> None:
    reports = RemoteMemoryReports(tmp_path)
    reports.poll(job, START + 20_000.0)
    remote_memory_use.write(folder, USE)
    reports.poll(job, START + 20_000.0 + LONGEST_POLL_S - 1.0)
    assert not reports.found
    reports.poll(job, START + 20_000.0 + LONGEST_POLL_S)
    assert reports.found
    reports.begin_cycle(())
    assert not reports.found


@pytest.mark.parametrize(
    "change",
    [
        {"out": -1}, {"in": 10**16}, {"queue": True}, {"time": "now"}, {"seconds": 1e13}, {"lent": {"a:1": -1}}, {"lent": []},
        {"lent": {"a b": 1}}, {"lent": {f"n{at}:1": 1 for at in range(65)}}, {"refused": 1}, {"donors": None},
    ],
)  # fmt: skip
def test_a_value_out_of_its_bounds_makes_a_report_invalid(
    tmp_path: Path, job: SlurmJob, folder: Path, change: Any
) -> None:
    remote_memory_use.write(folder, USE)
    (folder / "memory/gpu01.json").write_text(json.dumps(USE.stated() | change))
    assert read(tmp_path, job) == {}


def test_links_and_files_of_other_names_are_not_read(tmp_path: Path, job: SlurmJob, folder: Path) -> None:
    remote_memory_use.write(folder, USE)
    report = folder / "memory/gpu01.json"
    report.rename(folder / "memory/.gpu01.json")
    assert read(tmp_path, job) == {}
    report.symlink_to(folder / "memory/.gpu01.json")
    assert read(tmp_path, job) == {}


@given(
    st.dictionaries(
        st.sampled_from(sorted(USE.stated())),
        st.one_of(st.integers(), st.floats(), st.text(), st.none(), st.dictionaries(st.text(), st.integers())),
    )
)
def test_any_content_is_a_report_or_none(content: dict[str, Any]) -> None:
    found = remote_memory_use.parsed("gpu01", USE.stated() | content)
    assert found is None or found.refused == " ".join(found.refused.split())


@pytest.fixture
def answer(
    journal: Journal, leadership: Leadership, pending: Callable[..., SlurmJob], running: Callable[..., SlurmJob],
    tmp_path: Path,
) -> Callable[..., Any]:  # fmt: skip
    """Answers of a controller whose job 1 runs with remote memory, and whose job 7 waits for some."""
    sight = Sight(running, pending)
    first, *others = sight.jobs
    first = replace(first, uid=os.getuid(), licenses="remote_memory:2")
    sight.jobs = (first, *(replace(one, licenses="remote_memory:40") if one.id == "7" else one for one in others))
    sight.rules = lambda: SlurmRules(licenses={"remote_memory": License("remote_memory", total=8)})  # type: ignore[method-assign]
    folder = control.job_folder(tmp_path, first.uid, "1")
    control.make(folder, "")
    remote_memory_use.write(folder, USE._replace(began=first.start_time, node=first.shares[0].node))
    control.write(
        folder, control.SUPERVISOR, {"restart": 0, "protocol": [1, 2], "state": "running", "step": -1, "began": 1.0}
    )
    site = Site("cluster", "gpu", frozenset({"gpu"}), ())
    config = Config(paths=replace(Paths(), control=tmp_path))
    one = Controller(config, sight, journal, leadership, site, lambda: NOW)  # type: ignore[arg-type]
    one.cycle()
    return lambda **request: one.publisher.answer(request, ROOT)


def printed(page: Any, width: int) -> str:
    out = Console(file=io.StringIO(), width=width, record=True)
    out.print(page)
    return out.export_text()


def test_status_and_explain_show_it(answer: Callable[..., Any]) -> None:
    status = answer(op="status")
    assert not [*faults(status, Status)]
    assert status["remote_memory"] == {"total": 8192.0, "free": 6144.0, "lendable": pytest.approx(190_000, rel=0.2)}
    page = printed(render_status(status, UNLIMITED, 40, NOW), 400)
    assert "remote memory: 6 GiB of 8 GiB free" in page
    assert "2 GiB of remote memory: 2 MiB out, 2 MiB in" in page
    found = answer(op="explain", job="1")
    assert not [*faults(found, Explanation)]
    text = " ".join(printed(render_explanation(cast(Explanation, found), 400, NOW), 400).split())
    assert (
        "2 MiB out, 2 MiB in: 1 MiB from donors, 0 MiB from the queue of the disk, 0 MiB from the disk; 2s in" in text
    )
    assert "192 MiB lent: node07:7600 128 MiB, node08:7600 64 MiB" in text
    waits = " ".join(
        printed(render_explanation(cast(Explanation, answer(op="explain", job="7")), 400, NOW), 400).split()
    )
    assert "40 GiB requested; 6 GiB of 8 GiB free" in waits
    assert "Licenses" in waits


def test_nodes_that_have_refused_it_are_counted_in_the_list_of_jobs(answer: Callable[..., Any], tmp_path: Path) -> None:
    use = {**shown_use([USE, USE._replace(node="gpu02", refused="no donor")]), "nodes": 1}
    job = cast(PublishedJob, {"remote_memory": 2048.0, "remote_memory_use": use})
    assert memory_words(job) == "2 GiB of remote memory: 4 MiB out, 3 MiB in; 1 of its nodes without it"
    alone = cast(
        PublishedJob, {"remote_memory": 2048.0, "remote_memory_use": shown_use([USE._replace(refused="no donor")])}
    )
    assert memory_words(alone) == "runs without the remote memory that it requests"


def test_a_job_that_has_ended_has_the_reports_of_its_last_run(tmp_path: Path, job: SlurmJob, folder: Path) -> None:
    """The controller reports none of it; the command reads the control folder."""
    remote_memory_use.write(folder, USE)
    remote_memory_use.write(folder, USE._replace(node="gpu02", began=USE.began + CLOCKS_S + 1))
    ended: dict[str, Any] = {"id": job.id, "uid": job.uid, "state": "ENDED"}
    add_memory_use(ended, tmp_path)
    assert ended["remote_memory_use"]["nodes"] == 1
    ended_before: dict[str, Any] = {"id": "99", "uid": job.uid}
    add_memory_use(ended_before, tmp_path)
    add_memory_use(competes := {"id": job.id}, tmp_path)
    assert "remote_memory_use" not in ended_before.keys() | competes.keys()
    facts = dict(memory_facts(cast(PublishedJob, ended), None))
    assert facts["remote memory"] == "1 GiB requested"
    assert facts["  pages"].startswith("2 MiB out, 2 MiB in")


def test_explain_prints_it_of_a_job_that_the_controller_does_not_know(
    tmp_path: Path, job: SlurmJob, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remote_memory_use.write(folder, USE)
    monkeypatch.setattr(site_configuration, "FILE", tmp_path / "none.toml")
    monkeypatch.setattr(site_configuration, "CONTROL", str(tmp_path))
    args = argparse.Namespace(job=job.id, json=False, socket=tmp_path / "none.sock")
    with pytest.raises(Unavailable):
        explain.run(args)
    printed_text = " ".join(capsys.readouterr().out.split())
    assert "remote memory 1 GiB requested" in printed_text
    assert "2 MiB out, 2 MiB in" in printed_text
