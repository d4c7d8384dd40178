"""Node sets: ClusterShell's arithmetic, our words for what is wrong."""

import pytest

from headnode import nodeset
from headnode.errors import InvalidField
from tests.support import problems_are_lines

GROUPS = {"a100": ["gpu01", "gpu02"], "h100": ["gpu02", "gpu03"], "all": ["gpu01", "gpu02", "gpu03", "cpu1"]}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu01", ["gpu01"]),
        ("gpu[01-03]", ["gpu01", "gpu02", "gpu03"]),
        ("gpu[1-9/4]", ["gpu1", "gpu5", "gpu9"]),
        ("gpu[01-03]!gpu02", ["gpu01", "gpu03"]),
        ("gpu[1-3]&gpu[2-5]", ["gpu2", "gpu3"]),
        ("gpu[1-2]^gpu[2-3]", ["gpu1", "gpu3"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("@a100", ["gpu01", "gpu02"]),
        ("@a100&@h100", ["gpu02"]),
        ("@all!@a100", ["cpu1", "gpu03"]),
        ("gpu*", ["gpu01", "gpu02", "gpu03"]),
        ("cpu?", ["cpu1"]),
    ],
)
def test_sets_are_expanded(text: str, names: list[str]) -> None:
    assert sorted(nodeset.expand(text, groups=GROUPS)) == sorted(names)


@pytest.mark.parametrize(
    "text",
    [
        "gpu[1-", "gpu]", "gpu[a-b]", "gpu[5-1]", "gpu[1-2", "@nosuch", "gpu01,@nosuch", "@a:b", "gpu[01-100000000]",
        "a\nb", "x[0000000000001-0000009999999]", "!", "[]", "@", ",,[",
    ],
)  # fmt: skip
def test_what_is_no_set_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(InvalidField) as caught:
        nodeset.expand(text, groups=GROUPS, where="here")
    problems_are_lines(caught.value.message)
    assert caught.value.message.startswith("here: node set is ")


def test_large_unions_are_fine_and_large_products_are_not() -> None:
    assert len(nodeset.expand("gpu[0001-5000],cpu[0001-5000]")) == 10_000
    with pytest.raises(InvalidField, match="more than 100000"):
        nodeset.expand("r[1-1000]n[1-1000]")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu02,gpu01", ["gpu02", "gpu01"]),
        ("gpu[3,1-2]", ["gpu3", "gpu1", "gpu2"]),
        ("b[1-2],a[2,1]", ["b1", "b2", "a2", "a1"]),
        ("gpu01,gpu01", ["gpu01", "gpu01"]),
        ("10.21.0.[11-12]", ["10.21.0.11", "10.21.0.12"]),
        ("gpu[1-3]!gpu2", ["gpu1", "gpu3"]),
    ],
)
def test_lists_that_belong_together_keep_the_order_they_were_written_in(text: str, names: list[str]) -> None:
    assert nodeset.expand_in_order(text) == names


def test_names_fold_to_the_shortest_spelling() -> None:
    assert nodeset.fold(["gpu01", "gpu02", "gpu03", "cpu1"]) == "cpu1,gpu[01-03]"
    assert nodeset.fold([]) == ""


def test_names_sort_as_people_count() -> None:
    assert sorted(["gpu10", "gpu2", "cpu1", "gpu"], key=nodeset.natural_key) == ["cpu1", "gpu", "gpu2", "gpu10"]
