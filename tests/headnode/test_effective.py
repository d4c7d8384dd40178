"""Every value in effect knows who gave it."""

from dataclasses import replace

import pytest

from headnode import sitefile
from headnode.effective import SETTINGS, Value, effective, known_profile, parse_setting, value
from headnode.errors import HeadnodeError, InvalidField, NotFound
from headnode.model import Node
from headnode.site import Site
from tests.headnode.test_site import VALID

SITE = VALID.replace(
    "profiles:\n  cpu:\n    layout: one\n  gpu:\n    parent: cpu\n",
    """\
defaults: {release: "11", console: ttyS1, image: fromsite, nvidia_branch: auto, packages: [vim]}
groups:
  second: {console: ttyS2, start_watts: 2}
  first: {start_watts: 1, architecture: aarch64}
profiles:
  base: {layout: one, image: frombase, nvidia_source: nvidia}
  cpu: {parent: base, image: fromcpu, method: preseed}
  gpu: {parent: cpu, method: autoinstall}
""",
)
NODE = Node("gpu01", "gpu", groups=("first", "second"), settings={"console": "ttyS9"})


@pytest.fixture
def site() -> Site:
    return sitefile.parse(SITE.encode(), "site.yaml")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("console", Value("ttyS9", "node")),
        ("start_watts", Value(2, "group second")),
        ("architecture", Value("aarch64", "group first")),
        ("method", Value("autoinstall", "profile gpu")),
        ("image", Value("fromcpu", "parent profile cpu")),
        ("nvidia_source", Value("nvidia", "parent profile base")),
        ("layout", Value("one", "parent profile base")),
        ("release", Value("11", "site defaults")),
        ("packages", Value(("vim",), "site defaults")),
        ("os", Value("debian", "built in")),
        ("kernel_args", Value((), "built in")),
        ("bmc_user", Value("admin", "site defaults")),
    ],
)
def test_the_nearest_voice_wins_and_is_named(site: Site, key: str, expected: Value) -> None:
    assert effective(site, NODE)[key] == expected
    assert value(site, NODE, key) == expected.value


def test_every_setting_has_a_value_for_a_node_that_says_nothing(site: Site) -> None:
    found = effective(site, Node("x", "base"))
    assert set(found) == set(SETTINGS)
    # Not said means: everybody may log in, and nothing in particular is expected of the hardware.
    unsaid = ["access", "gpus", "infiniband_ports", "infiniband_rate", "link_speed"]
    assert sorted(key for key, one in found.items() if one.source == "not set") == unsaid


def test_without_its_own_value_a_node_follows_its_groups_in_the_order_of_the_site(site: Site) -> None:
    bare = replace(NODE, settings={})
    assert effective(site, bare)["console"] == Value("ttyS2", "group second")
    assert effective(site, replace(bare, groups=()))["console"] == Value("ttyS1", "site defaults")


def test_a_group_that_the_site_does_not_describe_says_nothing(site: Site) -> None:
    assert effective(site, replace(NODE, settings={}, groups=("other",)))["console"].source == "site defaults"


def test_an_unknown_profile_is_refused_naming_the_known_ones(site: Site) -> None:
    assert known_profile(site, "gpu") == "gpu"
    with pytest.raises(InvalidField, match="profile is 'gqu'; use one of the site's profiles: base, cpu, gpu"):
        known_profile(site, "gqu")


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("kernel_args", "pci=realloc quiet", ("pci=realloc", "quiet")),
        ("packages", "vim git", ("vim", "git")),
        ("start_watts", "700", 700),
        ("release", "24.10", "24.10"),
        ("bmc_driver", "redfish", "redfish"),
    ],
)
def test_settings_are_read_from_text(key: str, text: str, expected: object) -> None:
    assert parse_setting(key, text) == expected


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("start_watts", "lots", "start_watts is 'lots'; use a whole number"),
        ("start_watts", "0", "of at least 1"),
        ("method", "magic", "'image', 'autoinstall' or 'preseed'"),
        ("console", "a\x07", "control characters"),
        ("packages", "ok not/ok", "use up to 64 letters"),
    ],
)
def test_settings_that_cannot_be_are_refused(key: str, text: str, words: str) -> None:
    with pytest.raises(HeadnodeError, match=words):
        parse_setting(key, text)


def test_an_unknown_setting_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(NotFound, match="there is no setting 'colour'; known are os, release"):
        parse_setting("colour", "red")
