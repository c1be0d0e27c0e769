"""`tiresias simulate` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from tests.scheduler.place.learned.networks import random_weights
from tiresias.__main__ import main
from tiresias.scheduler.place.learned.weights_file import written
from tiresias.simulator import ClusterSize

TRACE = "job_id,submit_time,num_gpus,duration\na,0,4,100\nb,10,4,20\nc,12,1,5\n"
CLUSTER = ("--nodes", "1", "--gpus-per-node", "4")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def test_compares_policies(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers, lines = tmp_path / "out.json", tmp_path / "jobs.csv"
    options = ["--threshold", "20,400", "--json", str(numbers), "--jobs-out", str(lines)]
    assert main(["simulate", str(trace), "--policy", "las,fifo", *CLUSTER, *options]) == 0
    shown = capsys.readouterr().out
    assert "JCT, seconds (and times that of las)" in shown
    report = json.loads(numbers.read_text())
    policies = report["policies"]
    assert list(policies) == ["las", "fifo"]
    assert {
        "mean_jct", "median_jct", "p95_jct", "p99_jct", "makespan", "mean_queueing", "preemptions", "gpu_utilization",
        "jobs", "wall_seconds",
    } <= set(policies["fifo"])  # fmt: skip
    assert policies["fifo"]["mean_jct"] == pytest.approx((100 + 110 + 113) / 3)
    assert policies["fifo"]["mean_queueing"] == pytest.approx((0 + 90 + 108) / 3)
    assert policies["fifo"]["gpu_utilization"] == pytest.approx(485 / (4 * 125))
    assert policies["las"]["preemptions"] > 0
    assert report["ratios"]["fifo"]["mean_jct"] == policies["fifo"]["mean_jct"] / policies["las"]["mean_jct"]
    assert report["thresholds"] == [20.0, 400.0]
    assert report["promote_knob"] is None
    with lines.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["job_id"]) for row in rows] == [
        (name, job) for name in ("las", "fifo") for job in "abc"
    ]
    assert {key: rows[4][key] for key in ("start", "finish", "jct", "preemptions")} == {
        "start": "100.0",
        "finish": "120.0",
        "jct": "110.0",
        "preemptions": "0",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv", "out.json", "trace.csv"]


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (
            ["--policy", "lass", *CLUSTER],
            "--policy 'lass': no such policy; there are las, ",
        ),
        (["--policy", "las", "--nodes", "0", "--gpus-per-node", "4"], "--nodes '0': give a whole number above 0"),
        (["--policy", "las", "--nodes", "1", "--gpus-per-node", "2"], "job a asks for 4 GPUs and the cluster has 2"),
        (["--policy", "las", "--threshold", "20,10", *CLUSTER], "thresholds = (20.0, 10.0) is not possible"),
        (["--policy", "las", "--promote-knob", "nan", *CLUSTER], "promote_knob = nan is not possible"),
        (["--policy", "las", "--preemption-cost", "-1", *CLUSTER], "--preemption-cost '-1': give seconds, 0 or more"),
    ],
)
def test_mistakes(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], output: str
) -> None:
    out = tmp_path / "out.json"
    assert main(["simulate", str(trace), *options, "--json", str(out)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert output in captured.err
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--policy", "las", "--threshold", "many", *CLUSTER], "--threshold 'many': give a number"),
        (["--policy", "las,las", *CLUSTER], "--policy: las occurs twice"),
        (["--policy", "las", "--nodes", "2.5", "--gpus-per-node", "4"], "--nodes '2.5': give a whole number above 0"),
        (["--policy", "las", "--nodes", "1"], "--gpus-per-node G is missing"),
        (CLUSTER, "--policy P is missing"),
        (
            ["--policy", "las", "--in-queue-order", "lifo", *CLUSTER],
            "--in-queue-order 'lifo' is not possible; there are",
        ),
        (["--policy", "las", "--preemption-cost", "1,2,3", *CLUSTER], "--preemption-cost '1,2,3': give seconds"),
        (["--policy", "las", "--preemption-cost", "nan", *CLUSTER], "--preemption-cost 'nan': give seconds"),
        (["--policy", "las", "--starve-limit", "-3", *CLUSTER], "starve_limit = -3.0 is not possible"),
        (["--policy", "las", "--min-run", "inf", *CLUSTER], "min_run = inf is not possible"),
        (["--policy", "las", "--quantum", "0", *CLUSTER], "quantum = 0.0 is not possible"),
        (["--policy", "las", "--interval", "-1", *CLUSTER], "--interval '-1': give seconds, 0 or more"),
        (["--policy", "las", "--mtbf", "nan", *CLUSTER], "--mtbf 'nan': give seconds, 0 or more"),
        (["--policy", "las", "--mtbf", "inf", *CLUSTER], "--mtbf 'inf': give seconds, 0 or more, 1e+15 at most"),
        (["--policy", "las", "--packlimit", "nan", *CLUSTER], "--packlimit 'nan': give a share, 0 to 1"),
        (
            ["--policy", "las", "--nodes", "99999999999", "--gpus-per-node", "4"],
            "--nodes '99999999999': give a whole number above 0, 1,000,000,000 at most",
        ),
        (
            ["--policy", "las", "--mtbf", "9", "--repair", "0", *CLUSTER],
            "--repair 0: a node that fails is down for a while",
        ),
        (["--policy", "las", "--format", "xml", *CLUSTER], "--format 'xml' is not possible; there are auto, "),
        (["--policy", "las", "--jobs-out", "/none/jobs.csv", *CLUSTER], "/none/jobs.csv: there is no folder /none"),
    ],
)
def test_more_mistakes_before_anything_is_simulated(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], output: str
) -> None:
    monkeypatch.setattr("tiresias.simulator.experiments.experiment.simulate", None)
    assert main(["simulate", str(trace), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert output in captured.err


def test_no_trace_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--policy", "las", *CLUSTER]) == 2
    assert "TRACE is missing" in capsys.readouterr().err


def test_one_number_costs_at_the_resume_and_two_at_both_ends(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = tmp_path / "out.json"

    def overhead(cost: str) -> Any:
        options = ["--threshold", "20", "--preemption-cost", cost, "--json", str(numbers)]
        assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, *options]) == 0
        report = json.loads(numbers.read_text())
        # Only job a is preempted, and resumes: each time it holds its 4 GPUs without progress for all its cost.
        assert report["policies"]["las"]["preemption_gpu_seconds"] == 4 * 3 * report["policies"]["las"]["preemptions"]
        return report["preemption_cost"]

    assert overhead("3") == {"pause": 0.0, "resume": 3.0}
    assert overhead("1,2") == {"pause": 1.0, "resume": 2.0}
    shown = " ".join(capsys.readouterr().out.split())
    assert "A preempted job works 3 s after its next start only." in shown
    assert "A preempted job keeps its GPUs 1 s longer and works 2 s after its next start only." in shown


def test_costs_of_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, costs, numbers = tmp_path / "trace.csv", tmp_path / "costs.csv", tmp_path / "out.json"
    trace.write_text("job_id,submit_time,num_gpus,duration,model\na,0,4,100,vgg\nb,10,4,5,\n")
    costs.write_text("model,pause,resume\nvgg,2,5\n")
    options = ["--threshold", "20", "--preemption-costs", str(costs), "--json", str(numbers)]
    assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, *options]) == 0
    report = json.loads(numbers.read_text())
    assert report["policies"]["las"]["preemption_gpu_seconds"] == 4 * 7
    assert report["preemption_costs"] == {"vgg": {"pause": 2.0, "resume": 5.0}}
    assert "1 model has its own cost." in " ".join(capsys.readouterr().out.split())


def test_a_history_and_a_target_slowdown_change_the_order_of_adaptive(tmp_path: Path) -> None:
    trace, past, numbers = tmp_path / "trace.csv", tmp_path / "past.csv", tmp_path / "out.json"
    trace.write_text("job_id,submit_time,num_gpus,duration\na,0,4,100\nb,1,4,50\nc,2,1,50\n")
    ended = "".join(f"{row},0,{4 if row % 2 else 1},{1 if row % 2 else 90000}\n" for row in range(200))
    past.write_text(
        f"job_id,submit_time,num_gpus,duration\n{ended}9999,0,64,10\n"
    )  # the last one is larger than the cluster

    def finishes(*options: str) -> list[float]:
        jobs = tmp_path / "jobs.csv"
        out = ["--json", str(numbers), "--jobs-out", str(jobs)]
        assert (
            main(["simulate", str(trace), "--policy", "adaptive", *CLUSTER, "--min-run", "1000", *options, *out]) == 0
        )
        with jobs.open() as file:
            return [float(row["finish"]) for row in csv.DictReader(file)]

    assert finishes() == [100, 200, 150]
    assert not {"history_jobs", "target_slowdown"} & set(json.loads(numbers.read_text()))
    assert finishes("--history", str(past)) == [100, 150, 200]
    assert json.loads(numbers.read_text())["history_jobs"] == 201
    assert finishes("--target-slowdown", "0.001") == [100, 150, 200]
    assert json.loads(numbers.read_text())["target_slowdown"] == 0.001


def test_a_history_that_is_not_there(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(trace), "--policy", "adaptive", *CLUSTER, "--history", "absent.csv"]) == 2
    captured = capsys.readouterr()
    assert "absent.csv" in captured.err
    assert captured.err.count("\n") == 1


def test_decisions_at_intervals(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = tmp_path / "out.json"
    options = ["--interval", "50", "--json", str(numbers), "--jobs-out", str(tmp_path / "jobs.csv")]
    assert main(["simulate", str(trace), "--policy", "continuous_las", *CLUSTER, *options]) == 0
    starts = [float(line.split(",")[2]) for line in (tmp_path / "jobs.csv").read_text().splitlines()[1:]]
    assert {start % 50 for start in starts} == {0.0}
    assert json.loads(numbers.read_text())["interval"] == 50.0
    assert "A decision every 50 s." in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("options", "moments"), [([], {0.0}), (["--interval", "0"], {0.0, 20.0})])
def test_a_preset_decides_at_its_own_interval_unless_one_is_given(
    trace: Path, tmp_path: Path, options: list[str], moments: set[float]
) -> None:
    jobs, own = tmp_path / "jobs.csv", tmp_path / "own.toml"
    own.write_text('[policy]\nname = "best_effort"\ninterval = 100\n')
    assert main(["simulate", str(trace), "--preset", str(own), *CLUSTER, "--jobs-out", str(jobs), *options]) == 0
    starts = {float(line.split(",")[2]) % 100 for line in jobs.read_text().splitlines()[1:]}
    assert starts == moments


def test_nodes_that_fail_undo_work(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = tmp_path / "out.json"

    def lost(*options: str) -> float:
        assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, "--json", str(numbers), *options]) == 0
        return float(json.loads(numbers.read_text())["policies"]["las"]["lost_gpu_seconds"])

    failing = ["--mtbf", "60", "--repair", "5"]
    assert lost() == lost(*failing) == 0.0
    assert lost(*failing, "--checkpoint-interval", "30") > 0.0
    assert json.loads(numbers.read_text())["failures"] == {"mtbf": 60.0, "repair": 5.0, "seed": 1}
    shown = " ".join(capsys.readouterr().out.split())
    assert "A node fails every 60 s and is down for 5 s; its jobs save every 30 s." in shown


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("model,pause\n", "line 1: no column resume"),
        ("model,pause,resume\nvgg,-1,2\n", "line 2, column pause: '-1' is not possible"),
        ("model,pause,resume\nvgg,1,2\nvgg,1,2\n", "model 'vgg' occurs twice"),
    ],
)
def test_mistakes_in_the_costs(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, output: str
) -> None:
    costs = tmp_path / "costs.csv"
    costs.write_text(text)
    assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, "--preemption-costs", str(costs)]) == 2
    captured = capsys.readouterr()
    assert output in captured.err
    assert captured.err.count("\n") == 1


def test_series_over_time(trace: Path, tmp_path: Path) -> None:
    series = tmp_path / "series.csv"
    assert main(["simulate", str(trace), "--policy", "fifo,las", *CLUSTER, "--series", str(series)]) == 0
    with series.open() as file:
        rows = [tuple(row.values()) for row in csv.DictReader(file) if row["policy"] == "fifo"]
    assert rows == [
        ("fifo", "0.0", "4", "1", "0"),
        ("fifo", "10.0", "4", "1", "1"),
        ("fifo", "12.0", "4", "1", "2"),
        ("fifo", "100.0", "4", "1", "1"),
        ("fifo", "120.0", "1", "1", "0"),
        ("fifo", "125.0", "0", "0", "0"),
    ]


def test_what_a_trace_lost_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, numbers = tmp_path / "jobs.csv", tmp_path / "out.json"
    trace.write_text(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n1,8,0,1,vgg,10,0\n2,1,0,1,vgg,10,0\n"
    )
    options = ["--format", "symbioticlab", "--json", str(numbers)]
    assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, *options]) == 0
    assert "jobs.csv: dropped 1 job: job 1 is larger than the cluster of 4 GPUs" in capsys.readouterr().err
    assert json.loads(numbers.read_text())["dropped"] == [
        {"reason": "is larger than the cluster of 4 GPUs", "jobs": 1, "first": "1"}
    ]


def test_tables_fit_eighty_columns(
    trace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["simulate", str(trace), "--policy", "las,fifo,best_effort", *CLUSTER]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_results_of_each_virtual_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Job b waits 90 s for a in the other virtual cluster, c 108 s; d starts at once."""
    file, numbers = tmp_path / "trace.csv", tmp_path / "out.json"
    file.write_text(
        "job_id,submit_time,num_gpus,duration,vc\na,0,4,100,one\nb,10,4,20,two\nc,12,1,5,two\nd,500,1,5,two\n"
    )
    options = ("--policy", "fifo", *CLUSTER, "--by-virtual-cluster", "--json", str(numbers))
    assert main(["simulate", str(file), *options]) == 0
    shown = capsys.readouterr().out
    assert "queueing by virtual cluster, seconds" in shown
    clusters = json.loads(numbers.read_text())["virtual_clusters"]["fifo"]
    assert list(clusters) == ["one", "two"]
    assert clusters["one"] == {"jobs": 1, "mean_queueing": 0.0, "p99_queueing": 0.0, "mean_jct": 100.0}
    assert clusters["two"]["jobs"] == 3
    assert clusters["two"]["mean_queueing"] == pytest.approx((90 + 108 + 0) / 3)
    assert clusters["two"]["p99_queueing"] == pytest.approx(108 - 0.02 * 18)


def test_names_are_shown_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the markup of rich, nor its emoji, nor a terminal's control characters."""
    file = tmp_path / "a[red]:x:.csv"
    file.write_text("job_id,submit_time,num_gpus,duration,vc\na,0,4,100,[/b]\nb,0,1,5,:gem:\nc,0,1,5,x\x1b[31m\n")
    assert main(["simulate", str(file), "--policy", "fifo", *CLUSTER, "--by-virtual-cluster"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("a[red]:x:.csv: 3 jobs on")
    assert all(f" {name} " in shown for name in ("[/b]", ":gem:", "x?[31m"))
    assert "\x1b" not in shown


VIRTUAL_CLUSTERS = '[[virtual_cluster]]\nname = "a"\ncells = [{ level = "node", count = 1 }]\n'


def test_virtual_clusters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, file, numbers = tmp_path / "trace.csv", tmp_path / "vcs.toml", tmp_path / "out.json"
    trace.write_text("job_id,submit_time,num_gpus,duration,vc\nx,0,4,100,\ny,0,4,100,\nz,10,4,20,a\n")
    file.write_text(VIRTUAL_CLUSTERS)
    tenants = ["--admission", "virtual_clusters", "--virtual-clusters", str(file), "--nodes-per-leaf", "1"]
    size = ["--nodes", "2", "--gpus-per-node", "4"]
    options = [*size, *tenants, "--by-virtual-cluster", "--json", str(numbers)]
    assert main(["simulate", str(trace), "--policy", "fifo", *options]) == 0
    assert "1 virtual cluster shares it by virtual_clusters." in " ".join(capsys.readouterr().out.split())
    report = json.loads(numbers.read_text())
    assert report["virtual_clusters"]["fifo"]["a"]["mean_queueing"] == 0
    assert report["tenants"]["rule"] == "virtual_clusters"
    assert (report["nodes_per_leaf"], report["by_node"]) == (1, True)


def test_cells_that_name_simulated_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Job x of `a` gets node00001, on which job y runs opportunistically; a node of another name does not exist."""
    trace, file, placed = tmp_path / "trace.csv", tmp_path / "vcs.toml", tmp_path / "out.json"
    trace.write_text("job_id,submit_time,num_gpus,duration,vc\nx,10,4,20,a\ny,0,8,100,\n")
    options = [
        "--policy",
        "fifo",
        "--nodes",
        "2",
        "--gpus-per-node",
        "4",
        "--by-virtual-cluster",
        "--json",
        str(placed),
    ]
    for node, code in (("node00001", 0), ("gpu07", 2)):
        file.write_text(VIRTUAL_CLUSTERS.replace("count = 1", f'nodes = "{node}"'))
        tenants = ["--admission", "virtual_clusters", "--virtual-clusters", str(file)]
        assert main(["simulate", str(trace), *options, *tenants]) == code
    assert json.loads(placed.read_text())["virtual_clusters"]["fifo"]["a"]["mean_queueing"] == 0
    assert capsys.readouterr().err == (
        f"tiresias: {file}: virtual cluster a: nodes = gpu07: there is no node gpu07 with GPUs\n"
    )


@pytest.mark.parametrize(
    ("options", "content", "message"),
    [
        (("--admission", "private_clusters"), VIRTUAL_CLUSTERS, "give --virtual-clusters FILE"),
        (("--virtual-clusters", "{file}"), VIRTUAL_CLUSTERS, "no rule uses them; give --admission"),
        (("--admission", "virtual_clusters", "--virtual-clusters", "{file}x"), VIRTUAL_CLUSTERS, "No such file"),
        (("--admission", "virtual_clusters", "--virtual-clusters", "{file}"), VIRTUAL_CLUSTERS * 2, "vcs.toml: "),
        (
            ("--admission", "private_clusters", "--virtual-clusters", "{file}"),
            VIRTUAL_CLUSTERS.replace("count = 1", "count = 2"),
            "vcs.toml: ",
        ),
    ],
)
def test_virtual_clusters_that_are_not_possible(
    trace: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], content: str, message: str
) -> None:
    file = trace.with_name("vcs.toml")
    file.write_text(content)
    given = [each.format(file=file) for each in options]
    assert main(["simulate", str(trace), "--policy", "las", *CLUSTER, *given]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--preset", "none"], "--preset 'none': no such preset; there are drf, elastic"),
        (["--preset", "drf,drf"], "--preset: drf occurs twice; remove one"),
        (["--preset", "drf", "--policy", "las"], "--preset: --policy has no meaning with it"),
        (["--preset", "drf", "--sensitivity", "threshold"], "--preset has no meaning with it"),
        (["--preset", "hived"], "no virtual clusters are declared"),
        (["--policy", "las", "--speeds", "none.csv"], "none.csv: cannot be read"),
    ],
)
def test_impossible_presets_are_refused(
    options: list[str], problem: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(trace), *CLUSTER, *options]) != 0
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "rows", "words"),
    [
        ((), "a,1", "--shares has no meaning without --fairness users or accounts"),
        (("--fairness", "users"), "a,1\na,2", "owner 'a' occurs twice"),
        (("--fairness", "users"), "a,-1", "write a share, a number of 0 or more"),
        (("--fairness", "users"), "a", "line 2"),
    ],
)
def test_mistakes_in_the_shares(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], rows: str, words: str
) -> None:
    shares = tmp_path / "shares.csv"
    shares.write_text(f"owner,share\n{rows}\n")
    command = ("simulate", str(trace), "--policy", "las", "--nodes", "1", "--gpus-per-node", "8")
    assert main([*command, "--shares", str(shares), *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_shares_change_the_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two users with 60 jobs of an hour each: the one with the larger share waits less."""
    rows = [f"{2 * row + at},0,1,3600,{user}" for row in range(60) for at, user in enumerate("ba")]
    trace, shares = tmp_path / "trace.csv", tmp_path / "shares.csv"
    trace.write_text("\n".join(["job_id,submit_time,num_gpus,duration,user", *rows]))
    shares.write_text("owner,share\na,4\nb,1\n")
    size, more = ("--nodes", "1", "--gpus-per-node", "4"), ("--fairness", "users", "--shares", str(shares))
    mean = dict[str, float]()
    assert (
        main(["simulate", str(trace), "--policy", "las", *size, *more, "--jobs-out", str(tmp_path / "jobs.csv")]) == 0
    )
    with (tmp_path / "jobs.csv").open() as file:
        lines = list(csv.DictReader(file))
    for user in "ab":
        mean[user] = sum(float(line["jct"]) for line in lines if (int(line["job_id"]) % 2 == 1) == (user == "a")) / 60
    assert mean["a"] < 0.8 * mean["b"]
    assert main(["whatif", str(trace), "--policy", "las", *size, *more]) == 0
    assert main(["whatif", str(trace), "--policy", "las", *size, "--shares", str(shares)]) == 2


def mean_jct(arguments: list[str], file: Path) -> float:
    assert main(["simulate", *arguments, "--json", str(file)]) == 0
    return float(json.loads(file.read_text())["policies"]["las"]["mean_jct"])


def test_learned_placements_need_weights_for_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, weights, out = (tmp_path / name for name in ("trace.csv", "w.npz", "out.json"))
    rows = (f"{row},{row},{1 + row % 6},100,,,VGG19,\n" for row in range(20))
    trace.write_text("job_id,submit_time,num_gpus,duration,user,vc,model,status\n" + "".join(rows))
    given = [str(trace), "--policy", "las", "--nodes", "8", "--gpus-per-node", "4", "--nodes-per-leaf", "4"]
    weights.write_bytes(written(random_weights(ClusterSize(8, 4, 4).topology(), 1)))
    least = mean_jct([*given, "--placement", "least_interference"], out)
    capsys.readouterr()
    learned = mean_jct([*given, "--placement", "learned", "--placement-weights", str(weights)], out)
    assert capsys.readouterr().err == ""
    assert learned > least  # random weights scatter the jobs
    given[4] = "12"
    least = mean_jct([*given, "--placement", "least_interference"], out)
    capsys.readouterr()
    assert mean_jct([*given, "--placement", "learned", "--placement-weights", str(weights)], out) == least
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"jobs are placed by least_interference: weights {weights}: trained for another topology (")
    assert mean_jct([*given, "--placement", "learned"], out) == least
    assert "without --placement-weights" in capsys.readouterr().err
    assert main(["simulate", *given, "--placement-weights", str(weights)]) == 2
    assert "no meaning without --placement learned" in capsys.readouterr().err
