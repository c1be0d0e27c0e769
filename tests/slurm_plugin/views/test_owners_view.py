"""The line about owners that share GPUs."""

from __future__ import annotations

from tiresias.protocol.published_job import PublishedJob
from tiresias.slurm_plugin.views.owners import owner_lines, owner_text


def job(owner: str, use: float | None, share: float | None = 0.5) -> PublishedJob:
    return {"id": "1", "owner": owner, "owner_use": use, "owner_share": share}


def test_owners_are_listed_once_those_that_used_most_first() -> None:
    jobs = [job("user bob", 0.4), job("user alice", 1.6), job("user bob", 0.4)]
    [line] = owner_lines({"jobs": jobs}, 200)
    assert (
        line.plain == "fairness: user alice used 1.60 times its share of 50%; user bob used 0.40 times its share of 50%"
    )


def test_the_line_names_few_owners() -> None:
    [line] = owner_lines({"jobs": [job(f"user {number}", float(number)) for number in range(9)]}, 900)
    assert line.plain.endswith("; 3 more")


def test_nothing_where_owners_do_not_share() -> None:
    assert owner_lines({"jobs": [{"id": "1"}]}, 80) == []
    assert owner_text({"id": "1"}) == ""
    assert owner_text(job("account x", None)) == "account x has no share"
    assert owner_text(job("user new", 0.0, None)) == "user new used 0.00 times its share"
