"""Names and numbers that mean two things, found in what systems say of themselves."""

import pytest

from headnode import collisions
from headnode.collisions import Known, Local, Owner
from headnode.workflows import audit

KNOWN = Known({"ada": 20_001, "bob": 20_002}, {"vision": 20_003}, {20_004: "carol"}, 20_000, 59_999)
PASSWD = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"


def said(**local: object) -> list[str]:
    return [finding.message for finding in collisions.of(KNOWN, Local("gpu01", **local))]  # type: ignore[arg-type]


def test_a_clean_machine_has_no_findings() -> None:
    owners = (Owner("/home/ada", 20_001), Owner("/home/lost+found", 0))
    assert said(users=collisions.numbered(PASSWD), groups={"root": 0}, owners=owners,
                subordinate=(("rescue", 100_000, 65_536),)) == []  # fmt: skip


@pytest.mark.parametrize(
    ("local", "message"),
    [
        ({"users": {"ada": 1001}}, "the local account ada (UID 1001) hides the directory's (UID 20001)"),
        ({"users": {"x": 20_002}}, "the local account x has UID 20002, which is bob's"),
        ({"users": {"x": 20_004}}, "the local account x has UID 20004, which was carol's and stays theirs"),
        ({"users": {"x": 1001}}, "the local account x has UID 1001; people belong in the directory"),
        ({"groups": {"vision": 5}}, "the local group vision has GID 5, the directory's has 20003"),
        ({"groups": {"x": 20_003}}, "the local group x has GID 20003, which is vision's"),
        ({"subordinate": (("x", 10_000, 65_536),)}, "/etc/subuid gives x the UIDs 10000 to 75535, which overlap"),
        ({"owners": (Owner("/home/ada", 20_002),)}, "/home/ada belongs to UID 20002 (bob), not to ada (20001)"),
        ({"owners": (Owner("/home/x", 20_004),)}, "/home/x belongs to UID 20004, which was carol's"),
        ({"owners": (Owner("/data/x", 4242),)}, "/data/x belongs to UID 4242, whom nobody knows"),
    ],
)
def test_each_collision_is_named(local: dict[str, object], message: str) -> None:
    (found,) = said(**local)
    assert found.startswith(message)


def test_the_local_account_of_the_site_is_allowed() -> None:
    assert said(users={"rescue": 1000}, allowed=("rescue",)) == []


def test_entries_beside_the_ledger() -> None:
    users = [("ada", 20_001), ("twin", 20_001), ("stray", 30_000)]
    given = {20_001: ("user", "ada"), 20_003: ("user", "x")}
    found = [finding.message for finding in collisions.ledger_collisions(users, [("vision", 20_003)], given)]
    assert "ada and twin have the same number 20001" in found
    assert "the user stray has the number 30000, which Headnode did not give" in found
    assert "the group vision has the number 20003, which is the user x's" in found


def test_what_systems_write_is_understood_and_garbage_is_not() -> None:
    assert collisions.numbered("a:x:5:6:::\nbroken\nb:x:y:1:::\n") == {"a": 5}
    assert collisions.subordinate("a:100000:65536\nnonsense\na:b:c\n") == (("a", 100_000, 65_536),)
    assert collisions.owners("1000 /home/a b\nx /y\n") == (Owner("/home/a b", 1000),)


def test_a_shared_file_system_is_named_once() -> None:
    found = [collisions.Finding(node, "/home/x belongs to UID 1") for node in ("gpu01", "gpu02")]
    found += [collisions.Finding(node, "/etc/subuid gives x") for node in ("gpu01", "gpu02")]
    assert len(audit.once(found)) == 3


def test_paths_cannot_leave_the_script_for_nodes() -> None:
    script = audit.questions(["/home", "/da ta'; rm -rf /"])
    assert "find '/da ta'\"'\"'; rm -rf /' -mindepth" in script
