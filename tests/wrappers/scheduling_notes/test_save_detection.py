"""Detection of checkpoints in a program: found where they are named, without opening what is no text file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tiresias.wrappers.scheduling_notes.save_detection import BYTES, seen_in

EXAMPLES = Path(__file__).parents[3] / "docs/examples"
SAVES = "from tiresias.checkpoint import Checkpointer\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", str(tmp_path))
    (tmp_path / "pack").mkdir()
    for name in ("train.py", "pack/run.py"):
        (tmp_path / name).write_text(SAVES)
    (tmp_path / "plain.py").write_text("# no tiresias.checkpoint here\nimport torch\n")
    return tmp_path


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.sh")), ids=lambda path: path.name)
def test_the_examples_are(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert seen_in(script.name, script.read_bytes(), []) in (script.name, script.with_suffix(".py").name)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tsrun python3 train.py --lr=1", "train.py"),
        ("python3 ./train.py", "./train.py"),
        ('python3 "$PLACE/train.py"', "{here}/train.py"),
        ("python3 -m pack.run", "pack/run.py"),
        ("python3 -c 'from tiresias import checkpoint'", "job.sh"),
        ("python3 plain.py", ""),
        ("# python3 train.py", ""),
        ("python3 train.pyc", ""),
        ("python3 not-tiresias-checkpoint.py", ""),
    ],
)
def test_where_checkpoints_are_named(line: str, expected: str, here: Path) -> None:
    assert seen_in("job.sh", f"#!/bin/sh\n{line}\n".encode(), []) == expected.format(here=here)


def test_an_argument_may_name_it() -> None:
    assert seen_in("job.sh", b'#!/bin/sh\npython3 "$1"\n', ["train.py"]) == "train.py"


def test_nothing_is_waited_for(here: Path) -> None:
    os.mkfifo(here / "fifo")
    (here / "large").write_bytes(SAVES.encode() + bytes(BYTES))
    (here / "loop").symlink_to("loop")
    words = ["fifo", "large", "loop", "pack", "/dev/zero", "a\0b", "x" * 5000, "~nobody-at-all/x", "$"]
    assert seen_in("job.sh", b"#!/bin/sh\n", words) == ""


def test_a_users_modules_are_not_what_it_is_made_of(here: Path) -> None:
    """Each module of the standard library that tsbatch itself does not need is hidden by one of the user's."""
    (here / "hidden").mkdir()
    code = "import sys; import tiresias.wrappers.tsbatch; print(*sys.modules)"
    needed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    windows = {"nt", "winreg", "msvcrt", "_winapi"}  # that Python tries to import
    for name in sys.stdlib_module_names - set(needed.split()) - windows:
        (here / "hidden" / f"{name}.py").write_text(f"raise SystemExit('{name} of the user')\n")
    from tiresias.wrappers import isolated  # in the environment of the test

    (here / "tsbatch").write_text("import sys; from tiresias.wrappers.tsbatch import main; sys.exit(main())\n")
    (here / "hidden/sbatch").write_text("#!/bin/sh\n")
    (here / "hidden/sbatch").chmod(0o755)
    done = subprocess.run(
        [sys.executable, here / "tsbatch"],
        input=b"#!/bin/sh\npython3 train.py\n",
        capture_output=True,
        timeout=60,
        check=False,
        cwd=here / "hidden",
        env={"PYTHONPATH": f"{isolated.LIBRARY}:{here}/hidden", "HOME": str(here), "PATH": f"{here}/hidden"},
    )
    assert (done.returncode, done.stdout, done.stderr.count(b"of the user")) == (0, b"", 0), done.stderr
    assert done.stderr.startswith(b"tiresias: this host")
    assert done.stderr.count(b"\n") == 1
