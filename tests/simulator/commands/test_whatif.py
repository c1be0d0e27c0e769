"""`tiresias whatif` in virtual clusters, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tiresias.__main__ import main

VCS = """
[[virtual_cluster]]
name = "vision"
cells = [{ level = "node", count = 1 }]
accounts = ["vision"]
opportunistic = false

[[virtual_cluster]]
name = "speech"
cells = [{ level = "node", count = 1 }]
accounts = ["speech"]
"""
HEADER = "JobID|User|Account|QOS|Partition|Submit|Start|End|ElapsedRaw|State|AllocTRES"
CLUSTER = ("--nodes", "2", "--gpus-per-node", "4")


def sacct(*jobs: tuple[str, int, int, int, int]) -> str:
    """(account, submit, start, end, GPUs); moments in seconds of an hour"""
    moment = "2026-01-31T12:{0:02}:{1:02}".format
    rows = [HEADER]
    for row, (account, submit, start, end, gpus) in enumerate(jobs, 1):
        moments = "|".join(moment(*divmod(each, 60)) for each in (submit, start, end))
        rows.append(f"{row}|u|{account}|normal|gpu|{moments}|{end - start}|COMPLETED|gres/gpu={gpus}")
    return "\n".join(rows) + "\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Speech took both nodes under Slurm, so that vision waited for 100 s; a job of vision is larger than its cells."""
    (tmp_path / "vcs.toml").write_text(VCS)
    jobs = [
        ("speech", 0, 0, 100, 8),
        ("vision", 10, 100, 150, 4),
        ("vision", 20, 150, 160, 8),
        ("text", 300, 300, 310, 1),
    ]
    (tmp_path / "sacct").write_text(sacct(*jobs))
    return tmp_path


def whatif(files: Path, *options: str) -> int:
    return main(["whatif", str(files / "sacct"), "--preemption-cost", "0", *options])


def test_waits_of_each_virtual_cluster_now_and_then(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, page = files / "out.json", files / "out.html"
    options = ["--admission", "virtual_clusters,gpu_quotas", "--policy", "fifo", "--json", str(out)]
    vcs = ["--virtual-clusters", str(files / "vcs.toml"), "--html", str(page)]
    assert whatif(files, *CLUSTER, *options, *vcs) == 0
    found: dict[str, Any] = json.loads(out.read_text())
    assert list(found["policies"]) == ["best_effort", "fifo, VCs", "fifo, quotas"]
    vision = found["virtual_clusters"]["vision"]
    assert vision["jobs"] == 1
    assert vision["waiting"]["recorded"] == {"mean": 90.0, "p99": 90.0}
    assert vision["waiting"]["fifo, VCs"] == {"mean": 0.0, "p99": 0.0}
    assert list(found["groups"]) == ["GPUs", "virtual cluster"]
    shown = capsys.readouterr().out
    assert "waiting by virtual cluster, seconds: mean / 99th percentile" in shown
    assert "dropped 1 job: job 3 can never start under virtual_clusters: it is larger than its cells" in " ".join(
        shown.split()
    )
    report = page.read_text()
    assert "Waiting by virtual cluster" in report
    assert all(f"<dt>{term}</dt>" in report for term in ("fifo", "VCs", "quotas")), "each term is explained"


def test_a_cell_that_names_real_nodes_is_one_of_its_level(files: Path) -> None:
    """Simulated nodes have other names, so that the results are those of a cell on any hardware."""
    out, vcs = files / "out.json", files / "vcs.toml"
    options = ["--policy", "fifo", "--virtual-clusters", str(vcs), "--json", str(out)]
    assert whatif(files, *CLUSTER, *options) == 0
    anywhere = json.loads(out.read_text())["virtual_clusters"]
    vcs.write_text(VCS.replace("count = 1", 'nodes = "gpu07"', 1))
    assert vcs.read_text() != VCS
    assert whatif(files, *CLUSTER, *options) == 0
    assert json.loads(out.read_text())["virtual_clusters"] == anywhere


@pytest.mark.parametrize("width", [60, 80])
def test_wide_tables_are_shown_in_parts(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    options = ["--admission", "virtual_clusters,private_clusters", "--policy", "las,fifo"]
    assert whatif(files, *CLUSTER, *options, "--virtual-clusters", str(files / "vcs.toml")) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    waits = shown[shown.index("waiting by virtual cluster") :]
    assert waits.count(" vision ") >= 2, "each part has the names"
    assert all(f"{policy}, {rule}" in waits for policy in ("las", "fifo") for rule in ("VCs", "private"))


def test_jobs_of_no_duration_are_no_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "sacct").write_text("job_id,submit_time,num_gpus,duration\na,0,1,0\nb,5,1,0\n")
    assert whatif(tmp_path, *CLUSTER, "--policy", "las") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "las: mean JCT 0 s instead of 0 s, 0 preemptions" in shown
    assert "nan" not in shown


def test_without_leaf_switches_the_option_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vcs = files / "vcs.toml"
    vcs.write_text(VCS.replace('level = "node"', 'level = "leaf"'))
    assert whatif(files, *CLUSTER, "--virtual-clusters", str(vcs)) == 2
    assert "are left; --nodes-per-leaf N gives the nodes under each leaf" in capsys.readouterr().err


def test_cells_can_be_sockets(files: Path) -> None:
    out, vcs = files / "out.json", files / "vcs.toml"
    vcs.write_text(VCS.replace('level = "node"', 'level = "socket"'))
    options = ["--policy", "fifo", "--virtual-clusters", str(vcs), "--json", str(out)]
    assert whatif(files, *CLUSTER, "--sockets-per-node", "2", *options) == 0
    found = json.loads(out.read_text())
    assert found["sockets_per_node"] == 2
    assert "vision" not in found["virtual_clusters"], "its jobs are larger than its socket"


def test_a_job_too_large_for_its_private_cluster_is_dropped_there_alone(files: Path) -> None:
    """Job 1 of speech may use idle GPUs beyond its cells, but not in private clusters."""
    out, vcs = files / "out.json", ["--virtual-clusters", str(files / "vcs.toml"), "--policy", "fifo"]
    assert whatif(files, *CLUSTER, *vcs, "--json", str(out)) == 0
    assert json.loads(out.read_text())["virtual_clusters"]["speech"]["jobs"] == 1
    assert whatif(files, *CLUSTER, *vcs, "--json", str(out), "--admission", "private_clusters") == 0
    assert "speech" not in json.loads(out.read_text())["virtual_clusters"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--admission", "gpu_quotas"], "--admission: no virtual clusters are declared; give --virtual-clusters FILE"),
        (["--nodes-per-leaf", "2"], "--nodes-per-leaf: no virtual clusters are declared"),
        (["--sockets-per-node", "2"], "--sockets-per-node: no virtual clusters are declared"),
        (["--admission", "shared"], "--admission 'shared' is not possible; there are gpu_quotas, "),
        (["--admission", "gpu_quotas,gpu_quotas"], "--admission 'gpu_quotas,gpu_quotas': a word occurs twice"),
        (["--virtual-clusters", "none.toml"], "none.toml: No such file or directory"),
    ],
)
def test_mistakes_are_one_line(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert whatif(files, *CLUSTER, *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"tiresias: {message}")
    assert captured.err.count("\n") == 1


def test_cells_that_do_not_fit_name_the_level(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = ["--nodes", "1", "--gpus-per-node", "8"]
    assert whatif(files, *one, "--virtual-clusters", str(files / "vcs.toml")) == 2
    assert "virtual clusters own 2 cells of type node" in capsys.readouterr().err


def test_jobs_of_mode_shadow_have_no_accounts(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["whatif", "--from-shadow", str(files), "--virtual-clusters", str(files / "vcs.toml")]) == 2
    assert "--from-shadow" in capsys.readouterr().err
