"""What Slurm keeps of a job of tsbatch is what it keeps of one of sbatch, and the controller finds its script all the same."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.slurm_plugin.backends.conftest import Site
from tiresias.protocol.job_kind import script_hash
from tiresias.slurm_plugin.observation.scripts import KnownScripts

pytestmark = pytest.mark.sandbox
ROOTS = {"TIRESIAS_CONTROL_ROOT": "/shared/sc/control", "TIRESIAS_CHECKPOINT_ROOT": "/shared/sc/checkpoints"}
SCRIPT = "#!/bin/bash\n#SBATCH -o /dev/null --job-name=named\nsleep 300\n"
WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\nsleep 9\n"
CASES = [
    (["--hold", "my job.sh", "one", "two"], "", SCRIPT),
    (["--hold", "-n", "1", "./my job.sh"], "", SCRIPT),
    (["--hold", "/shared/sc/my job.sh"], "", SCRIPT),
    (["-D", "/shared/sc", "--hold", "other.sh"], "", SCRIPT + "true\n"),
    (["--hold", "--wrap", "sleep 9"], "", WRAPPED),
    (["--hold", "-J", "in"], SCRIPT, SCRIPT),
]


def kept(site: Site, job: str) -> dict[str, str]:
    """What scontrol shows; SubmitLine from Slurm 24.11 or 26.05 on, without the option that tsbatch adds."""
    shown = site.cluster.run(["scontrol", "show", "job", job]).stdout
    found = dict(re.findall(r"^\s+(Command|SubmitLine|WorkDir|StdOut)=(.*)$", shown, re.MULTILINE))
    found["SubmitLine"] = re.sub(r" --bbf=\S+/supervised-\w+\.sh", "", found.get("SubmitLine", ""))
    found |= {word: re.findall(rf"{word}=(\S+)", shown)[0] for word in ("JobName", "Requeue")}
    return {name: value.replace(f"slurm-{job}.out", "slurm-ID.out") for name, value in found.items()}


def script_of(known: KnownScripts, job: str) -> str:
    """As the controller finds it: it repeats the poll while the job is new."""
    end = time.monotonic() + 15
    while not (found := known.job(job).script) and time.monotonic() < end:
        time.sleep(0.2)
    return found


def test_path_and_options_are_the_users(site: Site) -> None:
    folder: Path = site.cluster.shared / "sc"
    for path in (folder, folder / "control", folder / "checkpoints"):
        path.mkdir(exist_ok=True)
        path.chmod(0o1777)
    (folder / "my job.sh").write_text(SCRIPT)
    (folder / "other.sh").write_text(SCRIPT + "true\n")
    known = KnownScripts(site.backend, folder / "control")
    for words, text, script in CASES:
        jobs = []
        for command in ("sbatch", "tsbatch"):
            done = site.cluster.run(
                [command, "--parsable", *words], user="alice", cwd="/shared/sc", env=ROOTS, input=text, check=False
            )
            assert done.returncode == 0, done.stderr
            jobs.append(done.stdout.strip())
        plain, own = (kept(site, job) for job in jobs)
        assert own == plain | {"SubmitLine": own["SubmitLine"]}, words
        assert own["SubmitLine"] == plain["SubmitLine"], words
        assert script_of(known, jobs[1]) == script_hash(script.encode()), words
        assert {job.id: job.script for job in known.snapshot().jobs}[jobs[1]] == script_hash(script.encode()), words
        site.cluster.run(["scancel", *jobs])


def choices_of(known: KnownScripts, jobs: list[str]) -> list[tuple[str, str]]:
    """As the controller finds them: it repeats the poll while the jobs are new."""
    end = time.monotonic() + 15
    while any(not known.job(job).script for job in jobs) and time.monotonic() < end:
        time.sleep(0.2)
    shown = {job.id: (job.opportunistic, job.elastic) for job in known.snapshot().jobs}
    return [shown[job] for job in jobs]


def test_submissions_of_one_name_with_different_choices(site: Site) -> None:
    """One after the other, as an inserted script, on standard input, as a private copy and as an array; those of another user
    with the same path are of that user alone."""
    folder: Path = site.cluster.shared / "choices"
    for path in (folder, folder / "control", folder / "checkpoints"):
        path.mkdir(exist_ok=True)
        path.chmod(0o1777)
    (folder / "job.sh").write_text(SCRIPT)
    (folder / "job.py").write_text("#!/usr/bin/python3\n#SBATCH -o /dev/null\nprint()\n")
    roots = {name: value.replace("/sc/", "/choices/") for name, value in ROOTS.items()}
    cases: list[tuple[str, list[str], str, tuple[str, str]]] = [
        ("alice", ["--elastic=1-4", "job.sh"], "", ("yes", "1-4")),
        ("alice", ["--elastic=2-8:2", "--opportunistic=restart", "job.sh"], "", ("restart", "2-8:2")),
        ("bob", ["--elastic=1-2", "job.sh"], "", ("yes", "1-2")),
        ("alice", ["--opportunistic=no", "job.sh"], "", ("no", "fixed")),
        ("alice", ["--array=1-2", "job.sh"], "", ("yes", "fixed")),
        ("alice", ["--elastic=1-4", "-Jin"], SCRIPT, ("yes", "1-4")),
        ("alice", ["--elastic=1-5", "-Jin"], SCRIPT, ("yes", "1-5")),
        ("alice", ["--elastic=1-3", "job.py"], "", ("yes", "1-3")),
    ]
    jobs = []
    for user, words, text, _ in cases:
        command = ["tsbatch", "--parsable", "--hold", "--ntasks=1", "--gpus-per-task=1", *words]
        done = site.cluster.run(command, user=user, cwd="/shared/choices", env=roots, input=text)
        jobs.append(done.stdout.strip() + ("_1" if "--array=1-2" in words else ""))
    known = KnownScripts(site.backend, folder / "control")
    assert choices_of(known, jobs) == [choices for *_, choices in cases]
    for user in ("alice", "bob"):
        site.cluster.run(["scancel", f"--user={user}", "--state=PENDING"], user=user)
