"""Cases as data: a layout, a machine's facts and consent, and what must come of them."""

import shlex
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from headnode import layoutchecks, sitefile
from headnode.errors import HeadnodeError
from headnode.site import BUILT_IN, Layout, Site
from headnode.workflows import init
from images.owner import Owner
from images.plan import Image, deploy_plan

CASES = Path(__file__).parent / "cases"
OWNER = Owner("demo", "gpu01")
IMAGE = Image("gpu@3", "/images/gpu@3/image.tar.zst", "ab" * 32, 264_241_152, 850_395_136)
GIVEN = init.Proposal("demo", "demo.lan", provision_interface="hnprov0", management_interface="hnmgmt0")


@cache
def shipped() -> Site:
    """The site that `headnode init` writes."""
    return sitefile.parse(init.site_text(GIVEN).encode(), "site.yaml")


def read(path: Path) -> dict[str, Any]:
    """With the site file's reader, for which `on` is a word and not the truth."""
    data, _ = sitefile.read_yaml(path.read_bytes(), path.name)
    return dict(data)


def layout_of(given: str | dict[str, Any]) -> tuple[str, Layout]:
    """A shipped layout by name, or one written in the case; what the site file would refuse is no case."""
    if isinstance(given, str):
        return given, shipped().layouts[given]
    layout = Layout.model_validate(given)
    assert not list(layoutchecks.problems(layout))
    return "mine", layout


def facts_of(given: dict[str, Any]) -> dict[str, Any]:
    """Facts in which `ours keep` and `made for gpu02 partition` stand for the identifiers we would have given."""
    for disk in given["disks"]:
        for held in disk.get("holds", ()):
            *who, purpose = str(held.get("partuuid", "")).split()[-3:] or [""]
            if who and who[-1] == "ours":
                held["partuuid"] = OWNER.id(purpose, held["partlabel"])
            elif who:
                held["partuuid"] = Owner(OWNER.cluster, who[-1]).id(purpose, held["partlabel"])
    return given


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    name, layout = layout_of(case["layout"])
    settings = {**dict(BUILT_IN), **case.get("settings", {})}
    try:
        plan = deploy_plan(
            name,
            layout,
            facts_of(case["facts"]),
            OWNER,
            image=Image(**case["image"]) if "image" in case else IMAGE,
            settings=settings,
            deployment=7,
            consent=frozenset(case.get("consent", ())),
            deployed=case.get("deployed"),
        )
    except HeadnodeError as error:
        return {"refused": error.message, **({"hint": error.hint} if error.hint else {})}
    return {"disks": plan["disks"], "steps": [readable(step) for step in plan["steps"]]}


def readable(step: dict[str, Any]) -> dict[str, Any]:
    """A step as a person reads it: the command as one line, and its input below."""
    if step["do"] in ("run", "chroot"):
        more = {key: step[key] for key in ("input", "destroys") if step.get(key)}
        return {step["do"]: shlex.join(step["argv"]), **more}
    return {key: value for key, value in step.items() if key != "name"}


class Dumper(yaml.SafeDumper):
    """Text of several lines as it is, everything else as short as it can be."""


def text_of(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


Dumper.add_representer(str, text_of)


def expectation(found: dict[str, Any]) -> str:
    return yaml.dump({"expect": found}, Dumper=Dumper, sort_keys=False, width=10_000, allow_unicode=True)
