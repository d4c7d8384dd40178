"""What may stand in a field, and what is refused at the door."""

from collections.abc import Callable

import pytest

from headnode import fields
from headnode.errors import HeadnodeError, InvalidField, shown
from tests.support import problems_are_lines

NASTY = ["a\nb", "a\x00b", "a\x1b[31mb", "a\u2028b", "${x}", "$(x)", "{{x}}", "{%x%}", "{#x#}", "'", '"', "`", "\\"]


@pytest.mark.parametrize(
    ("check", "good"),
    [
        (fields.host_name, ["gpu01", "a", "a" * 63, "a-b", "1a"]),
        (fields.domain_name, ["demo.lan", "a.b.c.example", "x1.y-z"]),
        (fields.ip_address, ["10.0.0.1", "255.255.255.255"]),
        (fields.plain_label, ["gpu", "r1", "A100", "lib:amd64", "g++", "a.b_c@d"]),
        (fields.interface_name, ["eth1", "enp5s0f0", "bond0.20"]),
    ],
)
def test_good_values_come_back_unchanged(check: Callable[[str], str], good: list[str]) -> None:
    assert [check(value) for value in good] == good


BAD = {
    "host_name": ["", "GPU01", "gpu_01", "-a", "a-", "a" * 64, "gpu.01", "gpu 01", "é", "\uff11", "01", "head"],
    "domain_name": ["", "lan", "Demo.lan", "a..b", ".a.b", "a.b.", "a.1", "a_b.c", ("a" * 63 + ".") * 4 + "bb", "a b"],
    "mac_address": [
        "", "52:54:00:aa:00", "52:54:00:aa:00:01:02", "52:54:00:aa:00:0g", "00:00:00:00:00:00", "01:00:5e:00:00:01",
        "ff:ff:ff:ff:ff:ff", "52-54:00:aa:00:01", "52:54:00:aa:00:01 ", "\uff152:54:00:aa:00:01", "000000000000",
        "0000.0000.0000", "5254.00aa.0001.0002", "525400aa001",
    ],
    "ip_address": ["", "10.0.0", "10.0.0.256", "10.0.0.01", "::1", "10.0.0.1/24", " 10.0.0.1", "1\uff10.0.0.1", "lo"],
    "plain_label": ["", "a b", "-a", ".a", "a/b", "a" * 65, "é", "a,b"],
    "interface_name": ["", "a" * 16, "a b", "eth/1", "-eth", "eth:1"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in BAD for value in [*BAD[name], *NASTY]])
def test_bad_values_are_refused_in_one_sentence_naming_field_value_and_place(name: str, value: str) -> None:
    with pytest.raises(InvalidField) as caught:
        getattr(fields, name)(value, field="thing", where="nodes.csv, line 3")
    problems_are_lines(caught.value.message)
    assert caught.value.message.startswith(f"nodes.csv, line 3: thing is {shown(value)}; ")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("written", ["52:54:00:AA:00:01", "52-54-00-aa-00-01", "5254.00aa.0001", "525400AA0001"])
def test_common_spellings_of_a_mac_are_one_address(written: str) -> None:
    assert fields.mac_address(written) == "52:54:00:aa:00:01"


@pytest.mark.parametrize(
    ("value", "words"),
    [("00:00:00:00:00:00", "belongs to no machine"), ("01:00:5e:00:00:01", "multicast"), ("zz", "hexadecimal pairs")],
)
def test_each_wrong_mac_is_told_why(value: str, words: str) -> None:
    with pytest.raises(InvalidField, match=words):
        fields.mac_address(value)


@pytest.mark.parametrize("value", [*NASTY, "a" * 201])
def test_text_that_could_mean_something_to_a_program_is_refused(value: str) -> None:
    with pytest.raises(InvalidField):
        fields.plain_text(value, field="console")


@pytest.mark.parametrize("value", ["", "ttyS0,115200", "Grüße aus Zürich", "100% {yes} $5"])
def test_harmless_text_passes(value: str) -> None:
    assert fields.plain_text(value, field="console") == value


@pytest.mark.parametrize("value", ["0", "101", "", "1.5", "1e2", "1_0", "٣", " 1", "+1", "--1", "9" * 5000, "0x10"])
def test_a_number_is_written_in_digits_and_within_its_bounds(value: str) -> None:
    with pytest.raises(InvalidField, match="whole number from 1 to 100"):
        fields.number(value, field="position", low=1, high=100)


def test_a_good_number_is_read() -> None:
    assert fields.number("42", field="position", low=1, high=100) == 42
    assert fields.number(7, field="position", low=1, high=100) == 7


def test_values_in_messages_are_bounded_and_printable() -> None:
    assert shown("a\x1b[0m\n\udcff") == r"'a\x1b[0m\n\udcff'"
    assert len(shown("x" * 1000)) < 100


def test_an_error_has_a_message_a_hint_and_an_exit_code() -> None:
    error = HeadnodeError("it failed", hint="try again")
    assert (str(error), error.hint, error.exit_code) == ("it failed", "try again", 1)
