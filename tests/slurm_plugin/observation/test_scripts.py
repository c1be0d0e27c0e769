"""Which script a job runs, from the notes of tsbatch."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.protocol import control, submitted_scripts
from tiresias.protocol.submitted_scripts import note
from tiresias.slurm_plugin.backends.interface import JobRefused, SlurmJob, SlurmSnapshot, SlurmUnavailable
from tiresias.slurm_plugin.observation.batch_scripts import READS, BatchScripts
from tiresias.slurm_plugin.observation.scripts import NEW_SECONDS, KnownScripts
from tiresias.wrappers import inserted

A, B = "a" * 16, "b" * 16
NOW = int(time.time()) + 86_400  # after every note of these tests, which may run long after they were collected


class Slurm:
    def __init__(self, *jobs: SlurmJob) -> None:
        self.jobs = jobs

    def snapshot(self) -> SlurmSnapshot:
        return SlurmSnapshot(time=float(NOW), jobs=self.jobs, nodes=())

    def version(self) -> str:
        return "26.05.5"


def job(name: str = "1", command: str = "/home/a/train.sh", **more: Any) -> SlurmJob:
    values: dict[str, Any] = {"submit_time": NOW, "batch": True, "uid": os.getuid(), "name": "train.sh"} | more
    return replace(EXAMPLE, id=name, command=command, **values)


TEXTS = dict.fromkeys(("script", "command", "opportunistic", "elastic"), "")
EXAMPLE = SlurmJob(**dict.fromkeys(SlurmJob.__slots__) | TEXTS)  # type: ignore[arg-type]


def scripts(known: KnownScripts) -> dict[str, str]:
    return {one.id: one.script for one in known.snapshot().jobs}


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        ("/home/a/train.sh", "/home/a/train.sh"),
        ("/home/a/train.sh", "/home/a/train.sh --epochs 3"),
        ("/home/a/my train.sh", "/home/a/my train.sh x"),
        ("/home/a/my train.sh", f"/home/a/my train.sh {'--option value ' * 20}"),
        ("name:train.sh", ""),
    ],
)
def test_by_the_path_or_without_one_by_the_name(tmp_path: Path, of: str, shown: str) -> None:
    note(tmp_path, of, A)
    assert scripts(KnownScripts(Slurm(job(command=shown)), tmp_path)) == {"1": A}  # type: ignore[arg-type]


def test_of_several_scripts_at_one_path_the_one_at_the_submission(tmp_path: Path) -> None:
    folder = control.submitted_folder(tmp_path, os.getuid())
    folder.mkdir(parents=True)
    of = "/home/a/train.sh"
    control.write(folder, submitted_scripts.file_name(of), {"of": of, "scripts": [[NOW - 500, A], [NOW, B]]})
    jobs = [job("1", submit_time=NOW - 100), job("2"), job("3", submit_time=NOW - 900)]
    assert scripts(KnownScripts(Slurm(*jobs), tmp_path)) == {"1": A, "2": B, "3": ""}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("noted", "choice"),
    [
        ([], set()),
        ([(NOW, "restart")], {"restart"}),
        ([(NOW - 500, "yes"), (NOW, "restart")], {"restart"}),
        ([(NOW - 500, "restart"), (NOW + 100, "yes")], {"restart"}),
        ([(NOW + 1, "restart")], {"restart"}),
        ([(NOW - 500, "yes"), (NOW + 1, "restart")], {"yes", "restart"}),
        ([(NOW + 1, "yes"), (NOW + 2, "restart")], {"yes", "restart"}),
        ([(NOW + 3, "restart")], set()),
    ],
)
def test_the_choice_at_the_submission_unless_the_clocks_leave_it_open(
    noted: list[tuple[int, str]], choice: set[str]
) -> None:
    assert submitted_scripts.choices_at(noted, NOW) == choice


def test_a_job_has_the_choice_of_its_note_also_after_others_follow(tmp_path: Path) -> None:
    of, slurm = "/home/a/train.sh", Slurm(job())
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    note(tmp_path, of, A, "restart", "2-8")
    shown = [(one.script, one.opportunistic, one.elastic) for one in known.snapshot().jobs]
    assert shown == [(A, "restart", "2-8")]
    note(tmp_path, of, A, "yes")
    slurm.jobs = (job(submit_time=NOW + 50),)
    assert [(one.script, one.opportunistic) for one in known.snapshot().jobs] == [(A, "restart")]
    folder = control.submitted_folder(tmp_path, os.getuid())
    content = control.read(folder / submitted_scripts.file_name(of), os.getuid())
    assert [choice for _, choice in content["opportunistic"]] == ["restart", "yes"]
    assert len(content["scripts"]) == 1


def test_another_job_of_the_same_id_has_its_own_notes(tmp_path: Path) -> None:
    """A killed slurmctld gave the id of an elastic job to another one four seconds later, which ran on 28 GPUs in place of 4."""
    slurm = Slurm(job(restarts=0))
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    note(tmp_path, "/home/a/train.sh", A, "restart", "8-32:8")
    assert [(one.script, one.elastic) for one in known.snapshot().jobs] == [(A, "8-32:8")]
    slurm.jobs = (job(restarts=1, submit_time=NOW + 4),)
    assert [(one.script, one.elastic) for one in known.snapshot().jobs] == [(A, "8-32:8")], "it was requeued"
    slurm.jobs = (job(restarts=0, submit_time=NOW + 8, command="/home/a/other.sh"),)
    assert [(one.script, one.opportunistic, one.elastic) for one in known.snapshot().jobs] == [("", "", "")]


@pytest.mark.parametrize(
    "entry", [[NOW, "maybe"], [NOW, 1], ["x", "restart"], [-1, "restart"], [NOW], "restart", [True, "no"]]
)
def test_what_is_no_choice_is_left_out(tmp_path: Path, entry: Any) -> None:
    folder, of = control.submitted_folder(tmp_path, os.getuid()), "/home/a/train.sh"
    folder.mkdir(parents=True)
    content = {"of": of, "scripts": [[NOW, A]], "opportunistic": [entry]}
    control.write(folder, submitted_scripts.file_name(of), content)
    assert [one.opportunistic for one in KnownScripts(Slurm(job()), tmp_path).snapshot().jobs] == [""]  # type: ignore[arg-type]


def test_a_note_that_is_seen_late_and_a_job_that_is_requeued(tmp_path: Path) -> None:
    """A requeue moves the time of the submission; the script stays the one that was found."""
    now, slurm = [float(NOW)], Slurm(job())
    known = KnownScripts(slurm, tmp_path, lambda: now[0])  # type: ignore[arg-type]
    assert scripts(known) == {"1": ""}
    note(tmp_path, "/home/a/train.sh", A)
    now[0] += 10
    assert scripts(known) == {"1": A}
    note(tmp_path, "/home/a/train.sh", B)
    slurm.jobs = (job(submit_time=NOW + 50),)
    assert scripts(known) == {"1": A}
    assert known.version() == "26.05.5"


def test_a_script_that_is_noted_after_the_file_was_read(tmp_path: Path) -> None:
    """Two scripts of one name within the interval of the reads: the second job is not of the first one's kind."""
    now, slurm = [float(NOW)], Slurm(job())
    folder, of = control.submitted_folder(tmp_path, os.getuid()), "/home/a/train.sh"
    folder.mkdir(parents=True)
    known = KnownScripts(slurm, tmp_path, lambda: now[0])  # type: ignore[arg-type]
    control.write(folder, submitted_scripts.file_name(of), {"of": of, "scripts": [[NOW, A]]})
    assert scripts(known) == {"1": A}
    control.write(folder, submitted_scripts.file_name(of), {"of": of, "scripts": [[NOW, A], [NOW + 1, B]]})
    now[0] += 1.5
    slurm.jobs = (job(), job("2", submit_time=NOW + 1))
    assert scripts(known) == {"1": A, "2": B}


def test_many_new_jobs_of_one_name_cost_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def read(path: Path, uid: int) -> dict[str, object]:
        reads.append(path)
        return {}

    monkeypatch.setattr(control, "read", read)
    slurm = Slurm(*(job(str(number)) for number in range(100)))
    KnownScripts(slurm, tmp_path, lambda: float(NOW)).snapshot()  # type: ignore[arg-type]
    assert len(reads) == 1


def test_what_the_supervisor_reports_is_the_jobs_script(tmp_path: Path) -> None:
    note(tmp_path, "/home/a/train.sh", A)
    slurm = Slurm(job())
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    assert scripts(known) == {"1": A}
    known.correct("1", "")
    assert scripts(known) == {"1": A}
    known.correct("1", B)
    assert scripts(known) == {"1": B}


def test_a_job_that_tsbatch_never_saw_is_not_looked_up_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def read(path: Path, uid: int) -> dict[str, object]:
        reads.append(path)
        return {}

    monkeypatch.setattr(control, "read", read)
    now = [float(NOW)]
    known = KnownScripts(Slurm(job(), job("2", batch=False)), tmp_path, lambda: now[0])  # type: ignore[arg-type]
    for _ in range(100):
        known.snapshot()
        now[0] += 5
    assert 2 <= len(reads) <= NEW_SECONDS / 5 + 1


def test_a_private_copy_names_its_script_itself(tmp_path: Path) -> None:
    note(tmp_path, "/home/a/train.sh", A)
    assert scripts(KnownScripts(Slurm(job(script=B)), tmp_path)) == {"1": B}  # type: ignore[arg-type]


def test_a_note_is_written_where_the_script_changes_only(tmp_path: Path) -> None:
    path = control.submitted_folder(tmp_path, os.getuid()) / submitted_scripts.file_name("x")
    note(tmp_path, "x", A)
    first = path.stat().st_ino
    note(tmp_path, "x", A)
    assert path.stat().st_ino == first
    for number in range(40):
        note(tmp_path, "x", f"{number:016x}")
    found = submitted_scripts.known(control.read(path, os.getuid()), "x")
    assert [script for _, script in found] == [f"{number:016x}" for number in range(40 - submitted_scripts.KEPT, 40)]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda some: st.lists(some) | st.dictionaries(st.text(), some),
    )
)
def test_whatever_a_user_writes_is_read(content: Any) -> None:
    for scripts in (content, [content], [[0, content]], [[content, A]]):
        found = submitted_scripts.known({"of": "x", "scripts": scripts}, "x")
        assert all(type(since) is int and script == A for since, script in found)
        assert submitted_scripts.at(found, NOW) in ("", A)


@pytest.mark.parametrize(
    ("noted", "sizes"),
    [
        ([], set()),
        ([(NOW - 500, "1-4")], {"1-4"}),
        # the first elastic job of a script, and one of a fixed size just before it, of which nothing is noted
        ([(NOW, "1-4")], {"1-4", "fixed"}),
        ([(NOW + 2, "1-4")], {"1-4", "fixed"}),
        ([(NOW + 3, "1-4")], set()),
        ([(NOW - 500, "1-4"), (NOW, "2-8")], {"1-4", "2-8"}),
        ([(NOW - 1, "1-4"), (NOW, "2-8")], {"1-4", "2-8", "fixed"}),
        ([(NOW - 500, "2-8"), (NOW - 1, "1-4"), (NOW + 2, "fixed")], {"1-4", "2-8", "fixed"}),
        ([(NOW - 500, "1-4"), (NOW + 50, "2-8")], {"1-4"}),
    ],
)
def test_sizes_at_the_submission_and_those_of_others_at_about_that_time(
    noted: list[tuple[int, str]], sizes: set[str]
) -> None:
    assert submitted_scripts.sizes_at(noted, NOW) == sizes


class SlurmWithScripts(Slurm):
    """Also has batch scripts, by record. read: the ids of those that were read."""

    def __init__(self, *jobs: SlurmJob) -> None:
        super().__init__(*jobs)
        self.scripts: dict[str, bytes] = {}
        self.error: Exception | None = None
        self.read: list[str] = []

    def batch_script(self, job_id: str) -> bytes:
        self.read.append(job_id)
        if self.error:
            raise self.error
        return self.scripts[job_id]


def queued(name: str = "1", **more: Any) -> SlurmJob:
    return job(name, raw_id=int(name), array_id=0, state="PENDING", restarts=0, **more)


def batch_script(elastic: str, opportunistic: str = "yes") -> bytes:
    settings = {"TIRESIAS_ELASTIC": elastic, "TIRESIAS_OPPORTUNISTIC": opportunistic}
    return inserted.text("python3", "/lib", {name: value for name, value in settings.items() if value})


def noted(root: Path, entries: dict[str, list[list[Any]]], of: str = "/home/a/train.sh") -> None:
    folder = control.submitted_folder(root, os.getuid())
    folder.mkdir(parents=True, exist_ok=True)
    control.write(folder, submitted_scripts.file_name(of), {"of": of, "scripts": [[NOW - 900, A]], **entries})


def test_of_ambiguous_notes_the_batch_script_states_which_one_is_meant(tmp_path: Path) -> None:
    noted(
        tmp_path,
        {
            "elastic": [[NOW - 800, "1-4"], [NOW, "2-8"]],
            "opportunistic": [[NOW - 800, "saves"], [NOW + 1, "restart"]],
        },
    )
    slurm = SlurmWithScripts(queued("1"), queued("2"), queued("3"))
    slurm.scripts = {"1": batch_script("1-4"), "2": batch_script("2-8", "restart"), "3": batch_script("")}
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    for _ in range(3):
        shown = {one.id: (one.elastic, one.opportunistic) for one in known.snapshot().jobs}
        assert shown == {"1": ("1-4", "saves"), "2": ("2-8", "restart"), "3": ("fixed", "saves")}
    assert slurm.read == ["1", "2", "3"]


def test_no_batch_script_is_read_of_a_clear_note_or_of_a_job_that_ran(tmp_path: Path) -> None:
    noted(tmp_path, {"elastic": [[NOW - 800, "1-4"], [NOW, "2-8"]], "opportunistic": [[NOW - 800, "yes"]]})
    ran = replace(queued("2"), restarts=1)
    slurm = SlurmWithScripts(queued("1", submit_time=NOW - 500), ran, replace(queued("3"), state="RUNNING"))
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    assert [one.elastic for one in known.snapshot().jobs] == ["1-4", "", ""]
    assert slurm.read == []


def test_a_restarted_controller_takes_no_choices_of_others_for_a_job_that_was_requeued(tmp_path: Path) -> None:
    """Its record has the time of the requeue, after which another job of the same script was submitted."""
    noted(tmp_path, {"elastic": [[NOW - 50, "8-24:8"]], "opportunistic": [[NOW - 50, "restart"]]})
    requeued = replace(queued("1"), restarts=1)
    known = KnownScripts(Slurm(requeued, queued("2")), tmp_path)  # type: ignore[arg-type]
    first, second = known.snapshot().jobs
    assert (first.script, first.elastic, first.opportunistic) == (A, "", "")
    assert (second.elastic, second.opportunistic) == ("8-24:8", "restart")


def test_batch_scripts_are_read_a_few_at_a_time_and_again_after_slurm_was_unavailable(tmp_path: Path) -> None:
    noted(tmp_path, {"elastic": [[NOW - 800, "1-4"], [NOW, "2-8"]]})
    slurm = SlurmWithScripts(*(queued(str(number)) for number in range(1, 2 * READS + 1)))
    slurm.scripts = {one.id: batch_script("2-8") for one in slurm.jobs}
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    slurm.error = SlurmUnavailable("no answer")
    assert {one.elastic for one in known.snapshot().jobs} == {""}
    assert len(slurm.read) == 1
    slurm.error = None
    for sizes in (READS, 2 * READS):
        assert sum(one.elastic == "2-8" for one in known.snapshot().jobs) == sizes


def test_a_batch_script_that_slurm_refuses_is_not_read_again(tmp_path: Path) -> None:
    noted(tmp_path, {"elastic": [[NOW - 800, "1-4"], [NOW, "2-8"]]})
    slurm = SlurmWithScripts(queued())
    slurm.error = JobRefused("Access/permission denied")
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    for _ in range(2):
        assert [one.elastic for one in known.snapshot().jobs] == [""]
    assert slurm.read == ["1"]


def test_no_batch_script_is_read_without_spare_calls(tmp_path: Path) -> None:
    noted(tmp_path, {"elastic": [[NOW - 800, "1-4"], [NOW, "2-8"]]})
    slurm, spare = SlurmWithScripts(queued()), [0.5]
    slurm.scripts = {"1": batch_script("2-8")}
    known = KnownScripts(slurm, tmp_path)  # type: ignore[arg-type]
    known.batch_scripts = BatchScripts(slurm.batch_script, lambda: spare[0])
    assert [one.elastic for one in known.snapshot().jobs] == [""]
    spare[0] = 1.0
    assert [one.elastic for one in known.snapshot().jobs] == ["2-8"]
