"""The least rights by cluster: apart they are what they are together, and no cluster gets more."""

import itertools

import pytest

from livejoin.core import rights
from livejoin.core.names import Names
from livejoin.core.rights import Grant, Role

NAMES, INPUTS = Names("crm"), rights.Inputs(("users", "accounts"), "control")
ROLES: tuple[Role, ...] = ("own", "data", "control")
GROUPS = Grant("group", "crm.", ("Read",), is_prefix=True)


def _run(*roles: Role, creates: bool = True) -> list[Grant]:
    return list(rights.run_grants(NAMES, INPUTS, roles, creates=creates))


def _serve(*roles: Role) -> list[Grant]:
    return list(rights.serve_grants(NAMES, INPUTS, roles))


def test_sources_are_only_read() -> None:
    topics = [Grant("topic", name, ("Read",)) for name in ("users", "accounts")]
    assert _run("data") == _serve("data") == [*topics, GROUPS]


def test_the_control_topic_takes_the_replies_with_it() -> None:
    control = Grant("topic", "control", ("Read", "Write", "Create"))
    assert _run("control") == [control, Grant("topic", "crm.replies", ("Write", "Create")), GROUPS]
    assert _run("own", "control")[0] == control
    assert all(grant.name != "crm.replies" for grant in _run("own", "control"))


def test_only_livejoins_own_cluster_may_be_written_under_its_prefix() -> None:
    own = ("Read", "Write", "DescribeConfigs", "Create", "Delete")
    leader = Grant("transactional-id", "crm.leader", ("Write",))
    assert _run("own") == [Grant("topic", "crm.", own, is_prefix=True), GROUPS, leader]


def test_where_others_create_topics_only_those_of_generations_are_created() -> None:
    created = {
        grant.name: grant.operations
        for role in ROLES
        for grant in _run(role, creates=False)
        if {"Create", "Delete"} & set(grant.operations)
    }
    assert created == dict.fromkeys(("crm.changelog.", "crm.feed."), ("Create", "Delete"))


@pytest.mark.parametrize("creates", [True, False])
def test_one_cluster_needs_what_three_need_except_for_replies(*, creates: bool) -> None:
    apart = {grant for role in ROLES for grant in _run(role, creates=creates)}
    together = _run(*ROLES, creates=creates)
    assert len(together) == len(set(together))
    assert {grant for grant in apart if grant.name != "crm.replies"} == set(together)


def test_a_server_changes_nothing_but_audit_access_and_control_topic() -> None:
    for count in range(1, 4):
        for roles in itertools.combinations(ROLES, count):
            found = _serve(*roles)
            written = {grant.name for grant in found if "Write" in grant.operations}
            expected = {"crm.audit", "crm.access"} if "own" in roles else set()
            assert written == expected | ({"control"} if "control" in roles else set())
            assert {op for grant in found for op in grant.operations} <= {"Read", "Write"}


def test_a_server_reads_nothing_on_the_cluster_of_the_control_topic() -> None:
    assert _serve("control") == [Grant("topic", "control", ("Write",))]
