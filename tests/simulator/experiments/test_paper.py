"""`tiresias simulate --reproduce-paper`, with a short trace generated in the public one's place."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tiresias.__main__ import main
from tiresias.simulator.experiments import paper, reproduce
from tiresias.simulator.experiments.reproduce import Comparison, Reproduction


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "TRACE_JOBS", 400)
    monkeypatch.setattr(reproduce, "SEEDS", range(1, 3))


@pytest.mark.slow
def test_every_number_stands_beside_the_simulated_one(
    short: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = tmp_path / "paper.json"
    assert main(["simulate", "--reproduce-paper", "--traces", str(tmp_path), "--json", str(numbers)]) == 0
    found = json.loads(numbers.read_text())
    assert found["trace"] == "generated, as there is no philly_full.csv.gz"
    for each in found["numbers"]:
        if each["ours"] is not None:
            assert each["ratio"] == pytest.approx(each["ours"] / each["paper"])
        if each["ratio"] is None or abs(each["ratio"] - 1) > 0.1:
            assert each["why"], f"without a reason: {each}"
    example = [(each["ours"], each["paper"]) for each in found["numbers"] if each["section"] == paper.FIGURE_7]
    own, printed = zip(*example, strict=True)
    assert own == pytest.approx((28 / 3, 35 / 3, 10.0, 28 / 3))
    assert printed == pytest.approx((28 / 3, 35 / 3, 10.0, 10.0))
    shown = capsys.readouterr().out
    assert "YARN-CS / Tiresias-L, mean JCT" in shown
    assert "so a load of the same kind was generated" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 80


def test_the_tables_are_whole() -> None:
    assert Counter(each.section for each in paper.NUMBERS) == {
        paper.FIGURE_7: 4,
        paper.TABLE_1: 6,
        paper.TABLE_4: 12,
        paper.TABLE_5: 15,
        paper.FIDELITY: 6,
        paper.TESTBED: 11,
        paper.OVERHEAD: 6,
    }
    for each in paper.NUMBERS:
        assert {*each.why} <= {*paper.WHY}
        assert each.why or each.section == paper.FIGURE_7


def test_only_what_is_off_needs_a_reason() -> None:
    number = replace(paper.NUMBERS[4], paper=2.0, why=("load",))

    def reasons(own: float, generated: bool = False) -> tuple[str, ...]:
        return Reproduction("", generated, ()).reasons(Comparison(number, own, own))

    assert reasons(2.19) == reasons(1.81) == ()
    assert reasons(2.21) == reasons(1.79) == reasons(float("nan")) == ("load",)
    assert reasons(3.0, generated=True) == ("load", "generated")


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["trace.csv"], "--reproduce-paper: TRACE has no meaning with it; leave it out"),
        (["--policy", "las"], "--reproduce-paper: --policy has no meaning with it"),
        (["--gpus-per-node", "4"], "--reproduce-paper: --gpus-per-node has no meaning with it"),
        (["--traces", "/none"], "--traces /none: is no folder"),
        (["--json", "/none/x"], "/none/x: there is no folder /none"),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], output: str
) -> None:
    monkeypatch.setattr("tiresias.simulator.experiments.experiment.simulate", None)
    assert main(["simulate", "--reproduce-paper", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert output in captured.err
