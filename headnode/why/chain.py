"""The expected chain for what was asked, and how far the node got. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from headnode.model import Event
from headnode.why.case import Case, Stage, Step
from headnode.why.timeline import Timeline, moment

KERNELS = ("/vmlinuz", "/linux", "/casper/vmlinuz")
RAMDISKS = ("/initrd",)
LOADERS = (".efi", ".kpxe", "/tftp/")


@dataclass(frozen=True)
class Recogniser:
    words: str
    shown: Callable[[Case], Event | None]


def fetched(*parts: str) -> Callable[[Case], Event | None]:
    return lambda case: first(booting(case).fetched(*parts))


def seen(*kinds: str) -> Callable[[Case], Event | None]:
    return lambda case: booting(case).first(*kinds)


def booting(case: Case) -> Timeline:
    """Since it was switched on: what its old system did before says nothing."""
    return case.timeline.after(switched(case)) if switched(case) else case.timeline


def first(timeline: Timeline) -> Event | None:
    return timeline.events[0] if timeline.events else None


def switched(case: Case) -> Event | None:
    found = case.timeline.kinds("bmc.netboot", "bmc.power")
    return next((event for event in found if event.data.get("ok") is True), None)


def installed(case: Case) -> Timeline:
    """What came after the work; of a node that was only asked how it is, everything."""
    deployed = case.timeline.last("deployed")
    if deployed is not None:
        return case.timeline.after(deployed)
    return case.timeline if case.asked.what == "verify" else Timeline()


def started_from_disk(case: Case) -> Event | None:
    """After the work: its own loader or kernel on the console, or the script that sends it to its disk."""
    later = installed(case)
    return first(
        Timeline((*later.phases("boot loader", "kernel", "login"), *later.scripts(), *later.fetched("/grub/disk")))
    )


def reported(case: Case) -> Event | None:
    return installed(case).last("verify")


def published(case: Case) -> Event | None:
    """The first time since it was asked; whether it holds is another matter, which the revision says."""
    return case.head.first("publish") if case.published else None


RECOGNISERS: Mapping[Stage, Recogniser] = {
    Stage.ENROLLED: Recogniser("is enrolled", lambda case: None),
    Stage.PUBLISHED: Recogniser("its boot script is published", published),
    Stage.POWER: Recogniser("its BMC switches it on to boot from the network", switched),
    Stage.DHCP: Recogniser("asks for an address", seen("dhcp.")),
    Stage.ADDRESS: Recogniser("takes its address", seen("dhcp.ack")),
    Stage.LOADER: Recogniser("fetches the first boot program", fetched(*LOADERS)),
    Stage.SCRIPT: Recogniser("fetches its boot script", lambda case: first(booting(case).scripts())),
    Stage.KERNEL: Recogniser("fetches the kernel", fetched(*KERNELS)),
    Stage.RAMDISK: Recogniser("fetches the ramdisk", fetched(*RAMDISKS)),
    Stage.AGENT: Recogniser("the agent or installer reports", seen("agent.", "installer.")),
    Stage.INVENTORY: Recogniser("reports its hardware", seen("agent.inventory")),
    Stage.PLAN: Recogniser("gets its plan", lambda case: first(case.timeline.fetched("/node/v1/plan"))),
    Stage.WORK: Recogniser("finishes the work", seen("deployed", "inspected", "done")),
    Stage.DISK: Recogniser("starts from its disk", started_from_disk),
    Stage.REPORT: Recogniser("reports how it is", reported),
    Stage.UP: Recogniser("passes every check", lambda case: None),
}
BOOT = (Stage.ENROLLED, Stage.PUBLISHED, Stage.POWER, Stage.DHCP, Stage.ADDRESS, Stage.LOADER, Stage.SCRIPT)
RAM = (Stage.KERNEL, Stage.RAMDISK, Stage.AGENT)
CHAINS: Mapping[str, tuple[Stage, ...]] = {
    "nothing": (Stage.ENROLLED, Stage.PUBLISHED),
    "inspect": (*BOOT, *RAM, Stage.INVENTORY, Stage.WORK),
    "rescue": (*BOOT, *RAM),
    "live": (*BOOT, Stage.KERNEL, Stage.RAMDISK),
    "deploy": (*BOOT, *RAM, Stage.INVENTORY, Stage.PLAN, Stage.WORK, Stage.DISK, Stage.REPORT, Stage.UP),
    "verify": (Stage.ENROLLED, Stage.PUBLISHED, Stage.REPORT, Stage.UP),
}


def chain(case: Case) -> tuple[Step, ...]:
    stages = CHAINS.get(case.asked.what, CHAINS["nothing"]) if case.node else (Stage.ENROLLED,)
    if case.node and case.node.bmc is None:
        stages = tuple(stage for stage in stages if stage is not Stage.POWER)
    shown = {stage: RECOGNISERS[stage].shown(case) for stage in stages}
    reached = {stage: shown[stage] is not None or known_without_event(case, stage) for stage in stages}
    furthest = max((index for index, stage in enumerate(stages) if reached[stage]), default=-1)
    return tuple(
        # Whoever is further on has been here, seen or not.
        Step(stage, RECOGNISERS[stage].words, reached[stage] or index < furthest, at(shown[stage]))
        for index, stage in enumerate(stages)
    )


def known_without_event(case: Case, stage: Stage) -> bool:
    if stage is Stage.ENROLLED:
        return case.node is not None
    if stage is Stage.PUBLISHED:
        return case.node is not None and case.published
    return stage is Stage.UP and case.node is not None and case.node.state == "up"


def at(event: Event | None) -> datetime | None:
    return moment(event) if event else None
