"""Hostile texts in all fields of a submission to a real Slurm: they are displayed, logged and stored as plain text."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.slurm_plugin.controller.centre import Centre

pytestmark = [pytest.mark.sandbox, pytest.mark.ci]

TEXTS = {
    "escape": "\x1b[2J\x1b]0;owned\x07\x1b[31m",
    "eight bits": "\x9b31m\x85",
    "lines": "a\nJobId=1 JobState=RUNNING\r\n[error] forged line",
    "tab": "a\tb\x0b\x0c\x08\x7f",
    "markup": "[bold red]x[/] [link=file:///etc/passwd]y[/link]",
    "right to left": "evil\u202egnp.\u2066exe",
    "wide": "训练" * 60 + "👩\u200d💻",
    "shell": "$(touch /tmp/owned) `touch /tmp/owned`; touch /tmp/owned | 'x' \"y\" \\",
    "sql": "x'); drop table job; --",
    "json": '"}],"jobs":[{"job_id":1}]',
    "html": "</text><script>alert(1)</script>&amp;",
    "bars": "1|0|RUNNING|None\n2|x|y",
    "formats": "%i %j %n {0} {job.id} %(x)s",
    "long": "x" * 1000,
}
# Options of sbatch with free text. Slurm refuses some texts in some of them, which is safe, too.
FIELDS = ("--job-name", "--comment", "--account", "--constraint", "--partition", "--gres", "--wckey", "--extra", "--dependency",
          "--licenses", "--mail-user", "--reservation", "--nodelist", "--exclude", "--qos", "--network", "--container")  # fmt: skip
ANY_WORDS = ("--job-name", "--comment")
EVERYWHERE = ("escape", "lines", "markup", "shell")  # texts for all options: each is a call of sbatch
HARMLESS = re.compile(r"[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]*")


def submit_all(centre: Centre) -> dict[str, tuple[str, str]]:
    """Submit held jobs with each text in each field; return (field, text) of each job that Slurm accepted."""
    taken, lines = {}, []
    for kind, text in TEXTS.items():
        for field in FIELDS if kind in EVERYWHERE else ANY_WORDS:
            options = ["--parsable", "--gpus=1", "--hold", "--chdir=/tmp", f"{field}={text}", "--wrap=sleep 300"]
            lines.append(
                f"printf '%s\\t%s\\t' {shlex.quote(kind)} {field}; timeout 20 sbatch {shlex.join(options)} 2>/dev/null || echo"
            )
    (centre.cluster.shared / "submit.sh").write_text("\n".join(lines))
    output = centre.cluster.run(["bash", "/shared/submit.sh"], user="alice", timeout=240).stdout
    for kind, field, job in re.findall(r"^(.*)\t(--.*)\t(\d+)$", output, re.MULTILINE):
        taken[job] = (field, kind)
    return taken


def strange_places(centre: Centre) -> list[str]:
    """Submit jobs whose script and folder have such names."""
    jobs = []
    for kind in ("escape", "lines", "markup", "shell"):
        folder = f"/tmp/{TEXTS[kind].replace('/', '_')}"
        script = (
            f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)} && printf '#!/bin/sh\\nsleep 300\\n' > job && "
            f"tsbatch --parsable --hold --gpus=1 --output=/dev/null {shlex.quote(folder)}/job"
        )
        jobs.append(centre.cluster.run(["sh", "-c", script], user="alice").stdout.strip())
    return jobs


def test_hostile_texts_stay_plain_text(centre: Centre) -> None:
    plain = centre.train(gpus=1)
    centre.wait_until_preemptable(plain)
    taken = submit_all(centre)
    assert {field for field, _ in taken.values()} > set(ANY_WORDS)
    assert {kind for field, kind in taken.values() if field == "--job-name"} == set(TEXTS), "Slurm takes any name"
    released = [job for job, (field, _) in taken.items() if field == "--job-name"]
    jobs = [*taken, *strange_places(centre)]
    centre.scontrol("release", ",".join(released), user="alice")
    centre.wait_until(lambda: all(centre.published(job) for job in released), "a job is not seen", *released)
    centre.wait_for_cycles(3)
    assert not (centre.cluster.run(["ls", "/tmp"]).stdout.split().count("owned"))
    assert centre.published(plain)["state"] == "RUNNING"
    assert centre.exit_code is None

    worst = [job for job in released if taken[job][1] in EVERYWHERE]
    shown = [centre.command("status"), *(centre.command("explain", job) for job in worst)]
    assert all(done.returncode == 0 for done in shown)
    for done in shown:
        for line in done.stdout.splitlines():
            assert HARMLESS.fullmatch(line), ascii(line)
    reported = json.loads(centre.command("status", "--json").stdout)
    names = {one["name"] for one in reported["jobs"]}
    assert TEXTS["markup"] in names, "names are published unchanged"
    assert centre.command("status", "--json").stdout.isascii()
    svg_file = "/var/lib/tiresias/status.svg"
    assert centre.command("status", "--svg", svg_file).returncode == 0
    assert "<script>" not in centre.cluster.run(["cat", svg_file]).stdout

    for line in centre.log():
        assert HARMLESS.fullmatch(line), ascii(line)
        assert not line.startswith("[error]")
    decided = centre.query_journal("select action, why from decision")
    assert centre.query_journal("select count(*) from job")[0][0] >= len(released)
    assert decided
    assert all(HARMLESS.fullmatch(f"{action} {why}") for action, why in decided)
    centre.cancel(*jobs)


@pytest.mark.long
def test_status_of_several_clusters(centre: Centre) -> None:
    """The same controller under two names, and a socket at which none answers."""
    job = centre.train(gpus=4)
    centre.wait_until_preemptable(job)
    socket = "/run/tiresias/control.sock"
    names = f"TIRESIAS_CLUSTERS=alpha={socket},beta={socket},gamma=/run/tiresias/none.sock"

    def ask(*options: str, code: int = 1) -> str:
        done = centre.cluster.run(["env", names, "tiresias", "status", "--clusters", *options], check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    shown = ask("--user", "alice").splitlines()
    assert [line.split()[0] for line in shown[1:4]] == ["alpha", "beta", "gamma"]
    assert "no controller answers at /run/tiresias/none.sock" in shown[3]
    titles = [line for line in shown if "jobs of alice on" in line]
    assert [title.split()[5] for title in titles] == ["alpha", "beta"]
    assert sum({job, "running", "4"} <= {*line.split()} for line in shown) == 2, "\n".join(shown)
    found = json.loads(ask("--json"))
    assert found["alpha"]["jobs"] == found["beta"]["jobs"]
    assert "no controller" in found["gamma"]["error"]
    assert ask("--watch", code=2) == ""
