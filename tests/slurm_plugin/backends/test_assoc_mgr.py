"""The limits in scontrol's words about associations, QOS, partitions, reservations and licences; hostile ones, too."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from tiresias.slurm_plugin.backends import assoc_mgr, qos_table, scontrol_records
from tiresias.slurm_plugin.backends.slurm_rules import Association, Qos, SlurmRules

USED = "cpu=N(0),mem=N(0),energy=N(0),node=N(0),billing=N(0),fs/disk=N(0),vmem=N(0),pages=N(0),gres/gpu=N(0)"


def association(account: str, user: str = "", parent: str = "", comment: str = "(null)", **limits: str) -> str:
    """A line of Slurm 26.05."""
    fields = {
        "GrpJobs": "N(0)", "GrpJobsAccrue": "N(0)", "GrpSubmitJobs": "N(0)", "GrpWall": "N(0.00)", "GrpTRES": USED,
        "GrpTRESMins": USED, "GrpTRESRunMins": USED, "MaxJobs": "", "MaxJobsAccrue": "", "MaxSubmitJobs": "", "MaxWallPJ": "",
        "MaxTRESPJ": "", "MaxTRESPN": "", "MaxTRESMinsPJ": "", "MinPrioThresh": "", **limits,
    }  # fmt: skip
    return (
        f"ClusterName=c Account={account} UserName={user + '(2001)' if user else ''} Partition= Priority=0 ID=4 "
        "SharesRaw/Norm/Level/Factor=1/0.33/3/1.00 UsageRaw/Norm/Efctv=0.00/0.00/0.00 "
        f"ParentAccount={parent + '(1)' if parent else ''} Lineage=/science/0-alice/ DefAssoc=Yes "
        f"{' '.join(f'{name}={value}' for name, value in fields.items())} Comment={comment}"
    )


def test_only_accounts_and_users_with_limits_are_kept() -> None:
    lines = [
        association("root"),
        association("science", parent="root"),
        association("science", "alice"),
        association("science", "bob", MaxJobs="7(2)", MaxTRESPJ="cpu=4,gres/gpu=2"),
    ]
    found = list(assoc_mgr.associations("\n".join(lines)))
    assert [(one.account, one.user, one.parent) for one in found] == [
        ("root", "", ""),
        ("science", "", "root"),
        ("science", "bob", ""),
    ]
    assert (found[2].max_jobs, found[2].max_tres) == (7, {"cpu": 4, "gres/gpu": 2})
    assert found[1] == Association(account="science", parent="root")


def test_group_limits_come_with_what_counts_against_them() -> None:
    line = association(
        "science",
        GrpJobs="9(3)",
        GrpWall="100(12.50)",
        GrpTRES=USED.replace("gres/gpu=N(0)", "gres/gpu=8(6)"),
        GrpTRESMins="cpu=1000(31)",
        GrpTRESRunMins="cpu=600(57),gres/gpu:v100=2(1)",
    )
    (found,) = assoc_mgr.associations(line)
    assert (found.grp_jobs, found.grp_wall, found.grp_tres) == (9, 100, {"gres/gpu": 8})
    assert (found.usage.jobs, found.usage.wall, found.usage.tres) == (3, 12.5, {"gres/gpu": 6})
    assert (found.grp_tres_mins, found.usage.tres_mins) == ({"cpu": 1000}, {"cpu": 31})
    assert found.grp_tres_run_mins == {"cpu": 600, "gres/gpu:v100": 2}


def test_a_comment_sets_no_limit() -> None:
    (found,) = assoc_mgr.associations(association("science", comment="see GrpJobs=0(0) MaxJobs=0(0) MinPrioThresh= "))
    assert found == Association(account="science")


def test_a_qos_limits_users_as_the_first_of_them_shows() -> None:
    line = (
        "QOS=two(3) UsageRaw=0.000000 GrpJobs=N(1) GrpWall=N(0.00) GrpTRES=cpu=N(1),gres/gpu=2(1) MaxWallPJ=60 MaxTRESPJ=mem=5000 "
        "MinTRESPJ=gres/gpu=1 PreemptMode=OFF Priority=0 Account Limits= science={MaxJobsPA=5(1) MaxTRESPA=cpu=N(1)} "
        "User Limits= alice(2001)={MaxJobsPU=1(1) MaxTRESPU=cpu=5(1),gres/gpu=N(1) MaxTRESRunMinsPU=cpu=60(9)} "
        "bob(2002)={MaxJobsPU=1(0) MaxTRESPU=cpu=5(0)}"
    )
    (found,) = assoc_mgr.qos(line)
    assert (found.name, found.max_wall, found.grp_tres, found.usage.tres) == (
        "two",
        60,
        {"gres/gpu": 2},
        {"gres/gpu": 1},
    )
    assert (found.max_jobs_account, found.max_jobs_user, found.max_tres_user) == (5, 1, {"cpu": 5})
    assert (found.max_tres_run_mins_user, found.min_tres, found.max_tres) == (
        {"cpu": 60},
        {"gres/gpu": 1},
        {"mem": 5000},
    )


def test_a_qos_without_jobs_shows_no_limit_of_its_users() -> None:
    line = "QOS=one(2) UsageRaw=0.0 GrpJobs=N(0) MaxWallPJ= Account Limits=No Accounts User Limits=No Users"
    assert list(assoc_mgr.qos(line)) == [Qos(name="one")]


def test_absurd_limits_are_none() -> None:
    (found,) = assoc_mgr.associations(
        association("a", GrpJobs=f"{2**64}(0)", GrpTRES=f"cpu={2**64 - 1}(0),node=4(0)", MaxJobs="9" * 400 + "(0)")
    )
    assert (found.grp_jobs, found.max_jobs, found.grp_tres) == (math.inf, math.inf, {"node": 4})


def test_a_job_counts_against_its_user_and_all_accounts_above() -> None:
    lines = [
        association("root"),
        association("a", parent="root"),
        association("b", parent="a"),
        association("b", "u", MaxJobs="1(0)"),
    ]
    found = {(one.account, one.user, one.partition): one for one in assoc_mgr.associations("\n".join(lines))}
    rules = SlurmRules(associations=found)
    assert [(one.account, one.user) for one in rules.chain("b", "u", "gpu")] == [
        ("b", "u"),
        ("b", ""),
        ("a", ""),
        ("root", ""),
    ]
    assert [(one.account, one.user) for one in rules.chain("b", "other", "gpu")] == [("b", ""), ("a", ""), ("root", "")]
    assert rules.chain("none", "u", "gpu") == ()


def test_accounts_in_a_circle_end() -> None:
    rules = SlurmRules(
        associations={(name, "", ""): Association(account=name, parent=up) for name, up in (("a", "b"), ("b", "a"))}
    )
    assert len(rules.chain("a", "u", "gpu")) == 2


def test_partitions() -> None:
    (one,) = scontrol_records.partitions(
        "PartitionName=gpu AllowAccounts=a,b AllowQos=ALL DenyQos=x QoS=part DefaultTime=00:05:00 MaxTime=1-02:00:00 MinNodes=1 "
        "MaxNodes=2 MaxCPUsPerNode=UNLIMITED Nodes=gpu[01-02],x OverSubscribe=EXCLUSIVE State=DOWN PriorityTier=7"
    )
    assert (one.state, one.nodes, one.max_time, one.default_time) == ("DOWN", ("gpu01", "gpu02", "x"), 93600, 300)
    assert (one.min_nodes, one.max_nodes, one.qos, one.priority_tier) == (1, 2, "part", 7)
    assert (one.allow_accounts, one.allow_qos, one.deny_qos, one.exclusive) == (
        frozenset({"a", "b"}),
        None,
        frozenset({"x"}),
        True,
    )


def test_reservations_and_licenses() -> None:
    (one,) = scontrol_records.reservations(
        "ReservationName=maint StartTime=2026-11-22T18:29:44 EndTime=2026-11-22T20:29:44 Nodes=gpu[01-02] "
        "PartitionName=(null) Flags=MAINT,SPEC_NODES Users=root Accounts=(null) Licenses=(null) State=INACTIVE"
    )
    assert (one.end - one.start, one.nodes, one.flags) == (7200, ("gpu01", "gpu02"), frozenset({"MAINT", "SPEC_NODES"}))
    assert (one.users, one.partition, one.licenses, one.state) == (("root",), "", "", "INACTIVE")
    (licence,) = scontrol_records.licenses(
        "LicenseName=m@db Total=9 Used=2 Free=6 Reserved=1 Remote=yes LastConsumed=3 LastDeficit=1"
    )
    found = (licence.name, licence.total, licence.used, licence.free, licence.reserved, licence.remote, licence.deficit)
    assert found == (
        "m@db",
        9,
        2,
        6,
        1,
        True,
        1,
    )
    assert not list(scontrol_records.licenses("No licenses configured in Slurm."))


def test_flags_of_qos() -> None:
    first, second = qos_table.qos("one|DenyOnLimit,OverPartQOS|1.000000|||||||\nzero||0.000000|2.5||||||\nbroken|x")
    assert (first.flags, first.usage_factor, first.limit_factor) == (
        frozenset({"DenyOnLimit", "OverPartQOS"}),
        1.0,
        0.0,
    )
    assert (second.flags, second.usage_factor, second.limit_factor) == (frozenset(), 0.0, 2.5)


def test_limits_of_users_and_accounts_that_have_not_used_a_qos() -> None:
    (reported,) = qos_table.qos("two||1.0||1|5|cpu=8,gres/gpu=1,mem=4G|node=2|gres/gpu=60|")
    shown = Qos(name="two", grp_jobs=9, max_jobs_user=3)
    found = qos_table.completed(shown, reported)
    assert (found.grp_jobs, found.max_jobs_user, found.max_jobs_account) == (9, 3, 5)
    assert (found.max_tres_user, found.max_tres_account) == ({"cpu": 8, "gres/gpu": 1, "mem": 4096}, {"node": 2})
    assert (found.max_tres_run_mins_user, found.max_tres_run_mins_account) == ({"gres/gpu": 60}, {})
    assert qos_table.completed(shown, None) == shown


LINE = st.text(st.sampled_from("abZN0123456789=(),.:/[]{}- ")) | st.text()


@given(
    st.sampled_from(["", "ClusterName=c Account=", "QOS=", "PartitionName=", "ReservationName=", "LicenseName="]),
    LINE,
    LINE,
)
def test_no_text_is_too_odd(first: str, second: str, name: str) -> None:
    odd = f"{first}{name} UserName=u(1) Partition= GrpJobs={second} MaxTRESPJ={second} MaxTime={second} MinPrioThresh="
    text = f"{odd}\nPartitionName=gpu MaxTime=60:00 State=UP\n{association('good')}"
    assert list(assoc_mgr.associations(text))[-1].account == "good"
    assert list(scontrol_records.partitions(text))[-1].max_time == 3600
    for read in (assoc_mgr.qos, scontrol_records.reservations, scontrol_records.licenses, qos_table.qos):
        list(read(text))
