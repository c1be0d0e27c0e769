"""`tiresias services` at fixed sizes against golden files, and as users start it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.example_service import ALICE, BOB, CAROL, NOW, ExampleService
from tests.golden import compare
from tests.pseudo_terminal import LEAVE, Terminal
from tests.slurm_plugin.views.command_runs import tiresias
from tiresias.protocol.service_report import JOBS, REPORT, STALE_S
from tiresias.services.parameter_service.manager.report_folder import ReportFolder
from tiresias.services.parameter_service.manager.use_limits import UseLimits
from tiresias.slurm_plugin.service_report_files import ServiceView, read_service
from tiresias.slurm_plugin.views.services_page import milliseconds, number, render_services
from tiresias.slurm_plugin.views.svg_rendering import as_svg
from tiresias.slurm_plugin.views.table_layout import UNLIMITED

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[3] / "docs"
NAMES = {ALICE: "alice", BOB: "bob", CAROL: "carol"}


@pytest.fixture
def example(tmp_path: Path) -> Iterator[ExampleService]:
    found = ExampleService(tmp_path / "state")
    yield found
    found.close()


@pytest.fixture
def whole(example: ExampleService) -> ServiceView:
    return ServiceView(*example.shown(), sees_all=True)


def drawn(view: ServiceView, width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None)
    console.print(render_services(view, width, height, NOW, lambda uid: NAMES.get(uid, "?")))
    return out.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40), (UNLIMITED, 10)])
def test_golden(whole: ServiceView, width: int, height: int) -> None:
    name = "pipe" if width == UNLIMITED else f"{width}x{height}"
    compare(drawn(whole, width, height), GOLDEN / f"services-{name}.txt")


def test_golden_of_a_user(whole: ServiceView) -> None:
    own = [job for job in whole.jobs if job["uid"] == ALICE]
    view = ServiceView({**whole.report, "problem": "squeue: cannot connect"}, own, sees_all=False)
    compare(drawn(view, 100, 30), GOLDEN / "services-alice-100x30.txt")


def test_limits_and_waiting_jobs(example: ExampleService) -> None:
    example.limits, example.waiting = UseLimits(aggregators=0.5, jobs=3, bytes=8 * 10**9), 2
    report, jobs = example.shown()
    lines = drawn(ServiceView(report, jobs, sees_all=True), 120, 40)
    assert lines[1].startswith(
        "6 of 8 aggregators for 9 declared servers (0.67 for each)   2 jobs waiting for aggregators"
    )
    assert lines[2] == "limits of a user: 4 aggregators, 3 jobs, 8.0GB of tensors"
    own = [job for job in jobs if job["uid"] == ALICE]
    lines = drawn(ServiceView(report, own, sees_all=False), 120, 40)
    assert lines[2] == "you use: 1.6 of 4 aggregators, 2 of 3 jobs, 252.0MB of 8.0GB of tensors"


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
@pytest.mark.parametrize("height", [2, 6, 10, 14, 24, 100])
def test_any_size_holds(whole: ServiceView, width: int, height: int) -> None:
    lines = drawn(whole, width, height)
    assert len(lines) <= height
    assert all(cell_len(line) <= width for line in lines)


def test_rows_that_are_left_out_are_counted(whole: ServiceView) -> None:
    many = ServiceView(whole.report, [{**whole.jobs[0], "name": f"job-{at}"} for at in range(50)], sees_all=True)
    lines = drawn(many, 120, 30)
    shown = sum(line.startswith("job-") for line in lines)
    assert 5 < shown < 50
    assert f"… and {50 - shown} more; tiresias services --json has all" in lines
    assert sum(line.startswith("job-") for line in drawn(many, UNLIMITED, 30)) == 50


def test_names_change_no_layout(whole: ServiceView) -> None:
    hostile = json.loads(json.dumps(whole.jobs).replace("vgg19", "\\u001b[2J\\u202ex"))
    lines = drawn(ServiceView(whole.report, hostile, sees_all=True), 120, 40)
    assert len(lines) == len(drawn(whole, 120, 40))
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


def test_the_figure_of_the_manual_is_the_present_view(whole: ServiceView) -> None:
    page = render_services(whole, 120, 26, NOW, lambda uid: NAMES.get(uid, "?"))
    compare(as_svg(page, 120, "tiresias services").splitlines(), DOCS / "services.svg")


@pytest.mark.parametrize(("seconds", "text"), [(None, ""), (0.0854, "85 ms"), (1.234, "1.23 s")])
def test_durations(seconds: float | None, text: str) -> None:
    assert milliseconds(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(950, "950"), (33_500, "33.5k"), (143_667_240, "143.7M"), (2 * 10**9, "2.0G")]
)
def test_numbers(count: int, text: str) -> None:
    assert number(count) == text


# as a command


@pytest.fixture
def folder(example: ExampleService, tmp_path: Path) -> Path:
    ReportFolder(tmp_path / "report").write(*example.shown(time.time()))
    return tmp_path / "report"


def test_what_each_user_reads(folder: Path) -> None:
    assert read_service(folder, ALICE).sees_all, "the service account reads all"
    (folder / JOBS).unlink()
    for uid, names in ((ALICE, ["vgg19-a", "vgg19-b"]), (BOB, ["alexnet-1"]), (1, [])):
        view = read_service(folder, uid)
        assert ([job["name"] for job in view.jobs], view.sees_all) == (names, False)


def test_a_page_and_json(folder: Path, tmp_path: Path) -> None:
    done = tiresias(tmp_path, "services", "--report", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "tiresias-ps-ps1-0" in done.stdout
    assert not any(line.endswith(" ") for line in done.stdout.splitlines())
    found = json.loads(tiresias(tmp_path, "services", "--report", str(folder), "--json").stdout)
    assert [job["name"] for job in found["jobs"]] == ["vgg19-a", "vgg19-b", "alexnet-1", "lm", "new"]
    assert found["report"] == json.loads((folder / REPORT).read_text())


def test_errors_are_one_line(folder: Path, example: ExampleService, tmp_path: Path) -> None:
    def error(*words: str) -> str:
        done = tiresias(tmp_path, "services", *words)
        assert (done.returncode > 0, done.stdout) == (True, "")
        return done.stderr.removeprefix("tiresias: ")

    assert error() == 'no parameter service is configured: set service_report = "FOLDER" in tiresias.toml\n'
    none = tmp_path / "none"
    assert error("--report", str(none)).startswith(f"no report in {none}: the manager has not run yet")
    report, jobs = example.shown(time.time() - STALE_S - 9)
    ReportFolder(folder).write(report, jobs)
    expected = "s; see systemctl status tiresias-parameter-service on ctl1\n"
    late = error("--report", str(folder))
    assert late.startswith("the manager has not reported for 4")
    assert late.endswith(expected)
    for content, words in (("{", "cannot be read"), ("[]", "no JSON object"), ('{"version": 2}', "has version 2")):
        (folder / REPORT).write_text(content)
        found = error("--report", str(folder))
        assert words in found
        assert found.count("\n") == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a command as another user")
def test_a_report_that_may_not_be_read(folder: Path) -> None:
    code = (
        "import os; from pathlib import Path\n"
        "from tiresias.errors import TiresiasError\n"
        "from tiresias.slurm_plugin.service_report_files import read_service\n"
        "os.setuid(4009)\n"
        "try: read_service(Path(), 4009)\n"
        "except TiresiasError as error: print(error)"
    )
    (folder / REPORT).chmod(0o600)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == "report.json may not be read by this user; report.json has mode 0644, its folders need x for all\n"
    )


def test_the_configured_folder_is_read(folder: Path, tmp_path: Path) -> None:
    keep = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME")}
    env = keep | {"TIRESIAS_SERVICE_REPORT": str(folder), "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    terminal = Terminal([sys.executable, "-m", "tiresias", "services", "--watch"], env, (120, 40))
    try:
        terminal.shows("parameter service on ctl1", "alexnet-1", "tiresias-ps-ps1-0")
        (folder / REPORT).write_text("{")
        terminal.shows("report.json cannot be read", "alexnet-1")
        terminal.press(b"q")
        terminal.read_until(LEAVE)
        assert terminal.process.wait(timeout=20) == 0
    finally:
        terminal.close()
