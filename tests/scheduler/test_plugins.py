"""Implementations of a separate package: found by the commands like built-in ones, and refused in one line where they are wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "plugin_package"
TRACE = "#acme\n" + "".join(f"job{n} {n * 10}.0 {1 + n % 8} 600.0\n" for n in range(12))
JOBS = "job_id,submit_time,num_gpus,duration\n" + "".join(f"{n},{n},{1 + n % 4},{600 + n}\n" for n in range(12))
Run = Callable[..., subprocess.CompletedProcess[str]]


def command(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`tiresias WORDS` with the packages of a folder."""
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "tiresias", *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **environ},
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the example package is installed in."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "--target",
        str(folder),
        str(PACKAGE),
    ]
    done = subprocess.run([sys.executable, *pip], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (folder / "trace.acme").write_text(TRACE)
    (folder / "jobs.csv").write_text(JOBS)
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """Write a package with one entry point: its group, its name and the code of its module."""

    def write(group: str, name: str, code: str, number: int = 0) -> Path:
        info = tmp_path / f"acme{number}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[tiresias.{group}]\n{name} = acme{number}:found\n")
        (tmp_path / f"acme{number}.py").write_text(code)
        (tmp_path / "jobs.csv").write_text(JOBS)
        (tmp_path / "tiresias.toml").write_text(f'[policy]\nname = "{name}"\n' if group == "policies" else "")
        return tmp_path

    return write


def simulated(folder: Path, trace: str, *options: str) -> dict[str, dict[str, float]]:
    """The finish time of each job by policy."""
    out = folder / "out.csv"
    size = ["--nodes", "3", "--gpus-per-node", "8"]
    done = command(folder, "simulate", str(folder / trace), *size, *options, "--jobs-out", str(out))
    assert done.returncode == 0, done.stderr
    header, *lines = (line.split(",") for line in out.read_text().splitlines())
    policy, job, finish = (header.index(name) for name in ("policy", "job_id", "finish"))
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        found.setdefault(line[policy], {})[line[job]] = float(line[finish])
    return found


def test_help_names_them_like_built_in_ones(installed: Path) -> None:
    text = " ".join(command(installed, "simulate", "--help", COLUMNS="200").stdout.split())
    for name in ("latest_first", "small_only", "halves", "last_node", "no_preemption", "acme_log"):
        assert f", {name}" in text, name


def test_a_policy_that_only_ranks_is_simulated(installed: Path) -> None:
    ends = simulated(installed, "jobs.csv", "--policy", "fifo,latest_first", "--nodes", "1", "--gpus-per-node", "4")
    assert sorted(ends) == ["fifo", "latest_first"]
    assert min(ends["latest_first"], key=ends["latest_first"].__getitem__) == "11", "submitted last, first to end"
    assert max(ends["fifo"], key=ends["fifo"].__getitem__) == "11"


def test_a_trace_format_reads_by_name_and_by_itself(installed: Path) -> None:
    by_name = simulated(installed, "trace.acme", "--policy", "las", "--format", "acme_log")
    assert simulated(installed, "trace.acme", "--policy", "las") == by_name
    assert len(by_name["las"]) == 12


def test_an_admission_rule_and_a_placement_run(installed: Path) -> None:
    plain = simulated(installed, "jobs.csv", "--policy", "las", "--by-node")
    own = simulated(installed, "jobs.csv", "--policy", "las", "--admission", "small_only", "--placement", "last_node")
    assert plain == own, "these jobs are small, and each node is as good as another"


def test_a_sizing_changes_the_gpus_of_each_job(installed: Path) -> None:
    size = ("--policy", "fifo", "--nodes", "2", "--gpus-per-node", "16")
    plain = simulated(installed, "jobs.csv", *size)["fifo"]
    half = simulated(installed, "jobs.csv", *size, "--sizing", "halves")["fifo"]
    took = {job: (plain[job] - int(job), half[job] - int(job)) for job in plain}  # submitted at the second of its name
    assert took["1"] == (601, 601 * 2), "2 GPUs for 601 s"
    assert took["2"] == (602, 602 * 3), "3 GPUs for 602 s"
    assert took["3"] == (603, 603 * 2), "4 GPUs for 603 s"
    assert took["4"] == (604, 604), "1 GPU"


def test_an_eviction_keeps_running_jobs(installed: Path) -> None:
    size = ("--policy", "time_sharing", "--nodes", "1", "--gpus-per-node", "8")
    assert preemptions(installed, *size) > 0
    assert preemptions(installed, *size, "--eviction", "no_preemption") == 0


def preemptions(folder: Path, *options: str) -> int:
    """Of all jobs together."""
    out = folder / "result.json"
    done = command(folder, "simulate", str(folder / "jobs.csv"), *options, "--by-node", "--json", str(out))
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(out.read_text())["policies"].values()
    return int(found["preemptions"])


def test_check_config_takes_them(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "tiresias.toml"
    stages = ['name = "latest_first"', 'admission = "small_only"', 'sizing = "halves"', 'eviction = "no_preemption"']
    file.write_text("\n".join(["[policy]", *stages, "[placement]", 'style = "last_node"']))
    done = command(installed, "check-config", str(file), "--json")
    assert done.returncode == 0, done.stderr
    values = {key: one["value"] for key, one in json.loads(done.stdout).items()}
    keys = ("policy.name", "policy.admission", "policy.sizing", "policy.eviction", "placement.style")
    assert [values[key] for key in keys] == ["latest_first", "small_only", "halves", "no_preemption", "last_node"]
    file.write_text('[policy]\nname = "oldest"\n')
    wrong = command(installed, "check-config", str(file))
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)
    assert ", latest_first" in wrong.stderr, "what is allowed names it"


RANKS = "class found:\n    def rank(self, snapshot, config):\n        "
BAD_POLICIES = {
    "raises at import": ("oldest", "raise ValueError('no licence')", "its import failed: ValueError: no licence"),
    "exits at import": ("oldest", "raise SystemExit(3)", "its import failed: SystemExit: 3"),
    "existing name": ("las", RANKS + "return None", "the name is built in"),
    "no method": ("oldest", "found = 3", "it has no method rank"),
    "no ranking": ("oldest", RANKS + "return [1, 2]", "rank() returned no Ranking"),
    "rows out of range": (
        "oldest",
        "from tiresias.scheduler.rank.policy import Ranking\n"
        + RANKS
        + "return Ranking.of(range(1, 1 + len(snapshot.jobs)))",
        "rank() returned an order in which not every row stands once",
    ),
    "rows missing": (
        "oldest",
        "from tiresias.scheduler.rank.policy import Ranking\n" + RANKS + "return Ranking.of(range(2))",
        "not one row for each of the",
    ),
    "too long": ("oldest", "import time\n" + RANKS + "time.sleep(60)", "rank() took over 5 s"),
}


@pytest.mark.parametrize("case", BAD_POLICIES)
def test_a_bad_policy_is_one_line(case: str, package: Callable[..., Path]) -> None:
    name, code, problem = BAD_POLICIES[case]
    folder = package("policies", name, code)
    check = command(folder, "check-config", str(folder / "tiresias.toml"))
    assert (check.returncode, check.stderr.count("\n")) == (2, 1), check.stderr
    assert f"policies: {name!r} of package acme0: " in check.stderr
    assert problem in check.stderr
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    simulate = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", name)
    assert (simulate.returncode, simulate.stderr) == (2, check.stderr)


def test_a_name_that_two_packages_register_is_refused(package: Callable[..., Path]) -> None:
    package("policies", "oldest", RANKS + "return None", 1)
    folder = package("policies", "oldest", RANKS + "return None", 2)
    check = command(folder, "check-config", str(folder / "tiresias.toml"))
    assert check.returncode == 2
    assert "is registered by package acme" in check.stderr


def test_a_bad_package_does_not_stop_commands_that_do_not_use_it(package: Callable[..., Path]) -> None:
    folder = package("policies", "oldest", "raise ValueError('no licence')")
    assert sorted(simulated(folder, "jobs.csv", "--policy", "las")) == ["las"]


BAD_PLACEMENTS = {
    "too many": "def found(request, gpus, nodes):\n    return ((0, 1000),)",
    "no row": "def found(request, gpus, nodes):\n    return ((77, gpus),)",
    "raises": "def found(request, gpus, nodes):\n    return 1 / 0",
    "no pairs": "def found(request, gpus, nodes):\n    return 3",
}


@pytest.mark.parametrize("case", BAD_PLACEMENTS)
def test_a_bad_placement_is_one_line(case: str, package: Callable[..., Path]) -> None:
    folder = package("placement", "best", BAD_PLACEMENTS[case])
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", "las", "--placement", "best")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "placement: 'best' of package acme0: " in done.stderr


@pytest.mark.parametrize("returned", ["True", "snapshot.jobs.gpus", "1 / 0"])
def test_a_bad_admission_rule_is_one_line(returned: str, package: Callable[..., Path]) -> None:
    folder = package(
        "admission", "rule", f"class found:\n    def admitted(self, snapshot, order):\n        return {returned}"
    )
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", "las", "--admission", "rule")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "admission: 'rule' of package acme0: admitted() " in done.stderr


SIZES = ["None", "snapshot.jobs.gpus * 0", "snapshot.jobs.gpus + 100", "snapshot.jobs.gpus * 0.5", "order[1:]", "1 / 0"]


@pytest.mark.parametrize("returned", SIZES)
def test_a_bad_sizing_is_one_line(returned: str, package: Callable[..., Path]) -> None:
    folder = package(
        "sizing", "rule", f"class found:\n    def sizes(self, snapshot, order):\n        return {returned}"
    )
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", "las", "--sizing", "rule")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "sizing: 'rule' of package acme0: sizes() " in done.stderr


@pytest.mark.parametrize("returned", ["None", "walk.gpus", "walk.runs[1:]", "1 / 0"])
def test_a_bad_eviction_is_one_line(returned: str, package: Callable[..., Path]) -> None:
    folder = package(
        "eviction", "rule", f"class found:\n    def released(self, snapshot, walk):\n        return {returned}"
    )
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", "sf", "--eviction", "rule")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "eviction: 'rule' of package acme0: released() " in done.stderr


HANGS = {
    "admission": "class found:\n    def admitted(self, snapshot, order):\n        time.sleep(60)",
    "sizing": "class found:\n    def sizes(self, snapshot, order):\n        time.sleep(60)",
    "placement": "def found(request, gpus, nodes):\n    time.sleep(60)",
    "eviction": "class found:\n    def released(self, snapshot, walk):\n        time.sleep(60)",
}


@pytest.mark.parametrize("group", HANGS)
def test_an_implementation_that_hangs_ends_the_simulation(group: str, package: Callable[..., Path]) -> None:
    folder = package(group, "slow", "import time\n" + HANGS[group])
    options = ["--nodes", "1", "--gpus-per-node", "4", "--policy", "sf", f"--{group}", "slow"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *options)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"{group}: 'slow' of package acme0: " in done.stderr
    assert "took over 5 s" in done.stderr


@pytest.mark.parametrize("returned", ["None", "1 / 0", "TraceColumns(['1'], *np.ones((3, 2)))"])
def test_a_bad_trace_format_is_one_line(returned: str, package: Callable[..., Path]) -> None:
    code = (
        "import numpy as np\nfrom tiresias.simulator.formats.trace_columns import TraceColumns\n"
        "from tiresias.simulator.formats.trace_format import TraceFormat\n"
        f"found = TraceFormat('x', lambda head: False, lambda file: {returned})\n"
    )
    folder = package("trace_formats", "log", code)
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "jobs.csv"), *size, "--policy", "las", "--format", "log")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "trace_formats: 'log' of package acme0: " in done.stderr


def test_a_trace_format_that_hangs_ends_the_simulation(package: Callable[..., Path]) -> None:
    code = (
        "import time\nfrom tiresias.simulator.formats.trace_format import TraceFormat\n"
        "found = TraceFormat('x', lambda head: time.sleep(60), lambda file: None)\n"
    )
    folder = package("trace_formats", "log", code)
    (folder / "trace").write_text("#log\n")
    size = ["--nodes", "1", "--gpus-per-node", "4"]
    done = command(folder, "simulate", str(folder / "trace"), *size, "--policy", "las")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "trace_formats: 'log' of package acme0: recognises() took over 5 s" in done.stderr
