"""The less usual ways to the same causes: recorded cases with one thing changed."""

from typing import Any

import pytest

from headnode.why.case import Answer, Confidence
from headnode.why.engine import explain
from tests.headnode.why.recorded import CASES, case_of, read

HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW


def recorded(name: str) -> dict[str, Any]:
    return read(CASES / f"{name}.yaml")


def without(document: dict[str, Any], *kinds: str) -> dict[str, Any]:
    kept = [event for event in document["events"] if not event["kind"].startswith(kinds)]
    return {**document, "events": kept}


def having(document: dict[str, Any], kind: str, message: str = "", **more: Any) -> dict[str, Any]:
    """With one more event, later than all the others."""
    latest = max(event["at"] for event in document["events"])
    return {**document, "events": [*document["events"], {"at": latest, "kind": kind, "message": message, **more}]}


def said(document: dict[str, Any]) -> tuple[str | None, Confidence | None, str]:
    answer = explain(case_of(document))
    found = answer.finding
    return (found.cause, found.confidence, found.sentence) if found else (None, None, answer.sentence)


def test_a_clock_that_the_head_node_saw_going_wrong() -> None:
    document = having(recorded("healthy"), "clock", "its clock is 3.2 s off", severity="warning")
    assert said(document) == ("clock-off", HIGH, "its clock is 3.2 s off")


def test_a_request_for_somebody_elses_address() -> None:
    refused = without(recorded("dhcp-refused"), "dhcp.ignored")
    document = having(refused, "dhcp.nak", "was refused 10.66.0.9", severity="warning")
    cause, confidence, sentence = said(document)
    assert (cause, confidence) == ("dhcp-refused", MEDIUM)
    assert sentence.endswith("it insists on an address that is not its own")


def test_a_foreign_server_is_only_perhaps_the_reason_for_silence() -> None:
    document = {**recorded("no-dhcp"), "foreign": ["on provision: 10.66.0.1 (52:54:00:66:00:01)"]}
    answer = explain(case_of(document))
    assert answer.finding is not None
    assert answer.finding.cause == "no-dhcp"
    assert [(other.cause, other.confidence) for other in answer.others if other.cause == "foreign-dhcp"] == [
        ("foreign-dhcp", LOW)
    ]


def test_an_image_that_cannot_be_unpacked_may_be_damaged() -> None:
    document = recorded("image-damaged")
    reason = "the image /images/gpu@3/image.tar.zst could not be unpacked: zstd: unexpected end of file"
    document["node"]["reason"] = reason
    assert said(document) == ("image-damaged", MEDIUM, reason)


def test_two_digits_in_the_wrong_order_are_a_typo_too() -> None:
    document = recorded("mac-typo")
    enrolled = document["node"]["mac"]
    assert enrolled.endswith(("01", "02", "03")), enrolled
    document["sightings"][0]["mac"] = enrolled[:-2] + enrolled[-1] + enrolled[-2]
    cause, confidence, sentence = said(document)
    assert (cause, confidence) == ("mac-typo", HIGH)
    assert sentence.startswith(f"its MAC is enrolled as {enrolled}, but ")


def test_a_report_with_an_old_token() -> None:
    report = {"method": "POST", "path": "/node/v1/verify", "status": 404, "bytes": 0}
    document = having(recorded("no-report"), "http", "POST /node/v1/verify: 404", severity="warning", data=report)
    assert said(document) == (
        "report-refused", HIGH, "its report was refused: it carries the token of an older deployment"
    )  # fmt: skip


def test_a_node_that_was_asked_how_it_is_and_is_silent() -> None:
    document = recorded("no-report")
    document["asked"]["what"] = "verify"
    document["events"] = [{"at": document["asked"]["at"], "kind": "verify.asked", "message": "asked to show how it is"}]
    cause, confidence, sentence = said(document)
    assert (cause, confidence) == ("no-report", MEDIUM)
    assert sentence.startswith("it was asked for a report and did not answer: it is off, its network is down")


@pytest.mark.parametrize(
    ("count", "sentence", "next"),
    [
        (0, "not enrolled", "headnode nodes"),
        (1, "not enrolled; one unknown machine asks for an address: 52:54:00:00:00:00",
         "headnode enroll {node} --mac 52:54:00:00:00:00 --profile PROFILE"),
        (2, "not enrolled; 2 unknown machines ask for an address", "headnode seen"),
    ],
)  # fmt: skip
def test_a_name_that_nobody_enrolled(count: int, sentence: str, next: str) -> None:
    document = recorded("not-enrolled")
    document["sightings"] = [{"mac": f"52:54:00:00:00:0{n}", "last": document["now"]} for n in range(count)]
    answer = explain(case_of(document))
    assert answer.finding is not None
    assert (answer.sentence, answer.finding.confidence, answer.finding.next) == (sentence, HIGH, next)


def test_a_machine_with_little_memory() -> None:
    """Nobody saw its console, but it was inspected once."""
    document = recorded("no-agent")
    document["hardware"] = {"memory_bytes": 512 << 20}
    answer = explain(case_of(document))
    assert "it has 512 MiB of memory, and the ramdisk needs 1024 MiB" in all_sentences(answer)


def all_sentences(answer: Answer) -> list[str]:
    return [answer.sentence, *(other.sentence for other in answer.others)]


def test_a_boot_program_for_another_kind_of_firmware() -> None:
    """A fixed boot file in somebody's relay or firmware."""
    document = without(recorded("no-http"), "dhcp.architecture")
    told = {"at": document["events"][0]["at"], "kind": "dhcp.architecture", "message": "its firmware is uefi_x64",
            "data": {"architecture": "uefi_x64"}}  # fmt: skip
    document["events"].insert(1, told)
    for event in document["events"]:
        if event["kind"] == "tftp.sent":
            event["data"]["file"] = "/srv/tftp/undionly.kpxe"
    assert said(document) == (
        "wrong-architecture", HIGH, "its firmware is uefi_x64, but it fetched a boot program for bios"
    )  # fmt: skip


def test_uefi_http_boot_needs_another_port() -> None:
    document = without(recorded("no-loader"), "dhcp.architecture")
    document = having(
        document, "dhcp.architecture", "its firmware is uefi_x64_http", data={"architecture": "uefi_x64_http"}
    )
    cause, confidence, sentence = said(document)
    assert (cause, confidence) == ("no-loader", MEDIUM)
    assert "a firewall closes TCP port 80" in sentence


def test_a_failure_that_no_rule_knows_is_told_in_its_own_words() -> None:
    document = recorded("step-failed")
    document["node"]["reason"] = "something that never happened before"
    document["events"] = [event for event in document["events"] if event["kind"] != "failed"]
    cause, _, sentence = said(document)
    assert cause in ("failed", "agent-silent")
    document["events"] = []
    cause, confidence, sentence = said({**document, "asked": {"what": "nothing"}})
    assert (cause, confidence, sentence) == ("failed", LOW, "something that never happened before")


@pytest.mark.parametrize("state", ["up", "maintenance", "ready"])
def test_a_node_at_rest_is_not_blamed_for_its_past(state: str) -> None:
    document = recorded("healthy")
    document["node"].update(state=state, reason=None)
    document.update(events=[], asked={"what": "nothing"})
    cause, _, sentence = said(document)
    assert cause is None
    assert sentence.startswith("nothing wrong")
