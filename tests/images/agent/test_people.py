"""The first-boot report's look at names and numbers."""

from images.agent.firstboot import people

PASSWD = "root:x:0:0:root:/root:/bin/bash\nrescue:x:1000:1000::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = "root:x:0:\nsudo:x:27:\n"
WANTED = {
    "people": {
        "groups": {"admin": 20_000}, "users": {"ada": 20_001, "gone": 20_002}, "first": 20_000, "last": 59_999,
        "local": ["rescue"],
    }
}  # fmt: skip
SSSD = {("group", "admin"): "admin:*:20000:ada\n", ("passwd", "ada"): "ada:*:20001:20001:Ada:/home/ada:/bin/bash\n"}


def wrong(passwd: str = PASSWD, group: str = GROUP, sssd: dict[tuple[str, str], str] = SSSD) -> list[str]:
    found = people(WANTED, passwd, group, lambda database, name: sssd.get((database, name), ""))
    return [str(check["message"]) for check in found if not check["ok"]]


def test_a_node_that_agrees_with_the_directory_has_nothing_wrong() -> None:
    assert wrong() == []


def test_nothing_is_asked_of_an_older_report() -> None:
    assert people({}, PASSWD, GROUP, lambda *_: "") == []


def test_a_directory_that_is_not_found_or_is_another_is_wrong() -> None:
    assert "sssd does not find it" in wrong(sssd={})[0]
    other = {**SSSD, ("passwd", "ada"): "ada:*:1001:1001:Ada:/home/ada:/bin/bash\n"}
    assert wrong(sssd=other) == ["its number is 1001, and should be 20001"]


def test_local_people_and_shadows_are_wrong() -> None:
    assert "local account extra has UID 1001" in wrong(PASSWD + "extra:x:1001:1001::/:/bin/sh\n")[0]
    hidden = wrong(PASSWD + "ada:x:110:110::/:/bin/sh\n")
    assert hidden == ["the local account ada hides the directory's"]
    assert "local group g has GID 20005" in wrong(group=GROUP + "g:x:20005:\n")[0]


def test_elsewhere_only_local_people_are_looked_for() -> None:
    found = people({"people": {"local": []}}, PASSWD, GROUP, lambda *_: "anything")
    assert [check["ok"] for check in found] == [False]
