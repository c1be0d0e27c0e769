"""`tiresias vc suggest` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.simulator.tenant_file import read_tenant_file

HEADER = "JobID|User|Account|QOS|Partition|Submit|Start|End|ElapsedRaw|State|AllocTRES"
CLUSTER = ("--nodes", "4", "--gpus-per-node", "4")


def moment(seconds: int) -> str:
    return f"2026-01-31T12:{seconds // 60:02}:{seconds % 60:02}"


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """Each 100 s, vision has a job of two nodes that waits for 20 s, and speech two jobs of one node that do not."""
    rows = [HEADER]
    for at in range(0, 1000, 100):
        for account, gpus, waits in (("vision", 8, 20), ("speech", 4, 0), ("speech", 4, 0)):
            times = f"{moment(at)}|{moment(at + waits)}|{moment(at + waits + 60)}|60"
            rows.append(f"{len(rows)}|u|{account}|normal|gpu|{times}|COMPLETED|gres/gpu={gpus}")
    file = tmp_path / "sacct.txt"
    file.write_text("\n".join(rows) + "\n")
    return file


def suggest(history: Path, *options: str) -> int:
    return main(["vc", "suggest", str(history), *options])


def test_cells_by_account_for_the_configuration(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, numbers = history.with_name("vcs.toml"), history.with_name("out.json")
    options = ["--nodes-per-leaf", "2", "--target-wait", "30s", "--out", str(out), "--json", str(numbers)]
    assert suggest(history, *CLUSTER, *options) == 0
    shown = capsys.readouterr().out
    assert "1 leaf " in shown
    assert "2 nodes" in shown
    assert "20 / 20" in shown, "the wait in the past"
    assert "4 of 4 nodes are in cells; 0 remain" in shown
    tenants = read_tenant_file(out)
    assert [(each.name, each.cells[0].level, each.cells[0].count) for each in tenants.declared] == [
        ("speech", "node", 2),
        ("vision", "leaf", 1),
    ]
    assert tenants.members["vision"].accounts == ("vision",)
    found = json.loads(numbers.read_text())
    assert found["target"] == {"seconds": 30.0, "percentile": 95.0}
    assert found["tenants"]["vision"]["fitting"]["cells"] == [{"level": "leaf", "count": 1}]
    assert found["tenants"]["vision"]["past"] == {"mean": 20.0, "percentile": 20.0, "total": 200.0}
    assert found["tenants"]["speech"]["gpu_hours"] == pytest.approx(20 * 4 * 60 / 3600)
    assert (
        main(
            [
                "whatif",
                str(history),
                *CLUSTER,
                "--nodes-per-leaf",
                "2",
                "--virtual-clusters",
                str(out),
                "--policy",
                "las",
            ]
        )
        == 0
    )


def test_without_leaf_switches_the_output_names_what_is_missing(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert suggest(history, *CLUSTER) == 0
    assert "No leaf switches are known" in capsys.readouterr().out


def test_cells_that_do_not_fit_are_explained(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suggest(history, "--nodes", "3", "--gpus-per-node", "4", "--target-wait", "30s") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "do not fit: virtual clusters own 4 cells of type node (level 2 of chain leaf)" in shown
    assert "3 of 3 nodes are in cells" in shown


def test_held_out_jobs_are_shown(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = history.with_name("out.json")
    assert (
        suggest(
            history,
            *CLUSTER,
            "--hold-out",
            "shared",
            "--by",
            "partition",
            "--json",
            str(numbers),
            "--target-wait",
            "30s",
        )
        == 0
    )
    assert "later jobs" in capsys.readouterr().out
    found = json.loads(numbers.read_text())["tenants"]["gpu"]
    assert found["jobs"] == found["later"]["jobs"] == 15
    assert found["later"]["private_clusters"]["percentile"] == found["fitting"]["wait"]["percentile"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--target-wait", "0"], "--target-wait '0': give a time above 0, such as 90m, 1h or 2d"),
        (["--target-wait", "-1h"], "--target-wait '-1h': give a time above 0"),
        (["--target-wait", "soon"], "--target-wait 'soon': give a time above 0"),
        (["--percentile", "101"], "--percentile '101': give a percentage, 0 to 100"),
        (["--by", "user"], "--by 'user' is not possible; there are account, qos, partition, vc"),
        (["--tenant", "vision,text"], "no job is of account 'text'; there are speech, vision"),
        (["--hold-out", "half"], "--hold-out 'half' is not possible; there are private, shared"),
        (["--policy", "srtf"], "--policy 'srtf' is not possible"),
        (["--nodes-per-leaf", "0"], "--nodes-per-leaf '0': give a whole number above 0"),
    ],
)
def test_mistakes_are_one_line(
    history: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    arguments = [f"{options[0]}={options[1]}"]
    assert suggest(history, *CLUSTER, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"tiresias: {message}")
    assert captured.err.count("\n") == 1


def test_tables_for_a_folder_that_is_missing(history: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "absent" / "vcs.toml"
    assert suggest(history, *CLUSTER, f"--out={file}") == 2
    assert capsys.readouterr().err == f"tiresias: {file}: there is no folder {file.parent}; make it first\n"


def test_without_the_size_of_the_cluster(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert suggest(history) == 2
    assert "--nodes N is missing" in capsys.readouterr().err


def test_no_job_with_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(f"{HEADER}\n1|u|a|q|gpu|{moment(0)}|{moment(1)}|{moment(2)}|1|COMPLETED|cpu=1\n")
    assert suggest(file, *CLUSTER) == 2
    assert "has no jobs that can be replayed; dropped are 1 like 1, which asks for no GPU" in capsys.readouterr().err


def test_an_account_that_cannot_be_a_name_is_refused(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history.write_text(history.read_text().replace("vision", "vi sion"))
    out = history.with_name("vcs.toml")
    assert suggest(history, *CLUSTER, "--out", str(out)) == 2
    assert "accounts = ['vi sion'] is not possible" in capsys.readouterr().err
    assert not out.exists()
