"""What can be done to many nodes at once: what exactly would happen, and doing it.

The pages show the first before anybody may ask for the second; the API offers both.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headnode import effective
from headnode.bmclink import Answer
from headnode.errors import InvalidField, InvalidInput, NotFound, counted
from headnode.model import Intent, Node
from headnode.nodeset import fold
from headnode.workflows import deploy, maintenance, nodes, planning, power, publishing, verify
from headnode.workflows.asking import ask
from headnode.workflows.context import Context

Options = Mapping[str, str]
Tell = Callable[[Answer], None]
BOOT_DEVICES = ("pxe", "disk", "bios", "none")


@dataclass(frozen=True)
class Line:
    """What would happen to one node."""

    node: str
    text: str


@dataclass(frozen=True)
class Action:
    name: str
    title: str
    preview: Callable[[Context, Sequence[Node], Options], Iterator[Line]]
    run: Callable[[Context, Sequence[Node], Options, Tell], None]
    # Ends what runs on a node, erases it, or takes it away.
    danger: bool = False
    options: tuple[str, ...] = ()


def find(name: str) -> Action:
    if name not in ACTIONS:
        raise NotFound(f"there is no action '{name}'; known are {', '.join(ACTIONS)}")
    return ACTIONS[name]


def check_options(action: Action, options: Options) -> dict[str, str]:
    for key in options:
        if key not in action.options:
            known = ", ".join(action.options) or "none"
            raise InvalidField("options", key, f"{action.name} takes: {known}")
    return {key: value.strip() for key, value in options.items() if value.strip()}


def refuse_other_count(found: Sequence[Node], typed: str) -> None:
    """An answer that cannot be given by habit, and that no longer fits when the nodes have become others."""
    if typed.strip() != str(len(found)):
        raise InvalidField("count", typed, f"{counted(len(found), 'node')} would be changed; type {len(found)}")


# -- power -----------------------------------------------------------------------------------------------


def power_action(name: str, verb: str, title: str, *, danger: bool) -> Action:
    def preview(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
        power.refuse_untouchable(context.site, found)
        waves = power.planned_starts(context.site, found) if verb in ("on", "cycle") else {}
        for node in found:
            at = waves.get(node.name, 0.0)
            later = f", {at:g} s after the first because of its rack's budget" if at else ""
            yield Line(node.name, no_bmc(node) or f"{title.lower()}{later}")

    def run(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
        power.switch(context, found, verb, on_answer=lambda answer, total: tell(answer))

    return Action(name, title, preview, run, danger)


def no_bmc(node: Node) -> str:
    """Why a node's BMC cannot be asked, or nothing."""
    if node.bmc is None:
        return "nothing: it has no BMC"
    return "" if node.bmc.sealed_password else "nothing: no password is known for its BMC"


def preview_boot(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    device = boot_device(options)
    power.refuse_untouchable(context.site, found)
    for node in found:
        yield Line(node.name, no_bmc(node) or f"boots from {device} next time")


def run_boot(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    power.change(context, found, {"verb": "bootdev", "device": boot_device(options)}, lambda a, n: tell(a))


def boot_device(options: Options) -> str:
    device = options.get("device", "pxe")
    if device not in BOOT_DEVICES:
        raise InvalidField("device", device, f"use {', '.join(BOOT_DEVICES)}")
    return device


def preview_blink(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    for node in found:
        yield Line(node.name, no_bmc(node) or "its light blinks for a minute")


def run_blink(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    ask(context, found, {"verb": "identify", "seconds": 60}, lambda answer, total: tell(answer))


def preview_clear(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    power.refuse_untouchable(context.site, found)
    for node in found:
        yield Line(node.name, no_bmc(node) or "the event log of its BMC is emptied")


def run_clear(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    power.change(context, found, {"verb": "sel-clear"}, lambda answer, total: tell(answer))


# -- work of the agent -----------------------------------------------------------------------------------


def agent_action(intent: Intent, title: str, *, danger: bool, options: tuple[str, ...] = ()) -> Action:
    def preview(context: Context, found: Sequence[Node], given: Options) -> Iterator[Line]:
        refuse_work(context, found, intent)
        chosen = images_for(context, found, intent, given)
        for node in found:
            what = f"{intent}{f' of {chosen[node.name]}' if chosen else ''}"
            how = f"power-cycle it by hand: {no_bmc(node)[9:]}" if no_bmc(node) else "restarted from the network"
            yield Line(node.name, f"{what}; {how}")
            if intent is Intent.DEPLOY:
                for line in disks_in_words(context, node, chosen[node.name], consent_of(given)):
                    yield Line(node.name, line)

    def run(context: Context, found: Sequence[Node], given: Options, tell: Tell) -> None:
        refuse_work(context, found, intent)
        chosen = images_for(context, found, intent, given)
        for image in sorted({*chosen.values()}) or [""]:
            names = [node.name for node in found if chosen.get(node.name, "") == image]
            deploy.begin(context, names, intent, image=image or None, consent=consent_of(given))
        driven = [node for node in found if not no_bmc(node)]
        trouble = power.boot_from_network(context, driven)
        for node in found:
            wrong = trouble.get(node.name) or no_bmc(node)
            tell(Answer(node.name, "power-cycle it by hand" if wrong else "starts from the network", error=wrong))

    return Action(intent.value, title, preview, run, danger, options)


def refuse_work(context: Context, found: Sequence[Node], intent: Intent) -> None:
    """As on the command line: everything that is wrong with this wish, before anything is changed."""
    deploy.refuse_unsuitable(found, intent)
    power.refuse_untouchable(context.site, found)
    planning.refuse_without_ramdisk(context, found, intent)


def images_for(context: Context, found: Sequence[Node], intent: Intent, given: Options) -> dict[str, str]:
    return planning.image_for(context, found, given.get("image"), consent_of(given)) if intent is Intent.DEPLOY else {}


def consent_of(given: Options) -> tuple[str, ...]:
    return tuple(given.get("erase", "").replace(",", " ").split())


def disks_in_words(context: Context, node: Node, image: str, consent: Sequence[str]) -> Iterator[str]:
    for line in planning.preview(context, node, image, consent):
        if line.startswith(("disk ", "  erases", planning.REFUSED, "not inspected")):
            yield line


def preview_verify(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    for node in found:
        able = verify.may_verify(node)
        yield Line(node.name, "shows how it is, at once" if able else f"cannot: it is {node.state}")


def run_verify(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    verify.ask(context, found)
    for node in found:
        tell(Answer(node.name, "asked to show how it is"))


def preview_abort(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    for node in found:
        idle = node.intent is Intent.DISK and node.deadline is None
        yield Line(node.name, "nothing is under way" if idle else f"{node.state} ends here, and counts as failed")


def run_abort(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    stopped = deploy.abort(context, [node.name for node in found])
    for node in found:
        tell(Answer(node.name, "stopped" if node.name in stopped else "nothing was under way"))


def preview_maintain(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    for move in maintenance.plan_maintain(found, options.get("reason", "")):
        yield Line(move.node.name, move.text)


def run_maintain(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    changed = maintenance.maintain(context, [node.name for node in found], options.get("reason", ""))
    for node in found:
        tell(Answer(node.name, "in maintenance" if node.name in changed else "was in maintenance already"))


def preview_resume(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    for move in maintenance.plan_resume(context, found):
        yield Line(move.node.name, move.text)


def run_resume(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    for node in maintenance.resume(context, [node.name for node in found]):
        tell(Answer(node.name, f"back in service: {node.state}"))


# -- the inventory ---------------------------------------------------------------------------------------


def preview_set(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    names = [node.name for node in found]
    edits = nodes.set_fields(context, names, wanted_fields(context, options), rehearsal=True)
    for edit in edits:
        yield Line(edit.node, f"{edit.field}: {nodes.said(edit.before)} → {nodes.said(edit.after)}")
    for node in found:
        if all(edit.node != node.name for edit in edits):
            yield Line(node.name, "nothing: it is like that already")


def run_set(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    wanted = wanted_fields(context, options)
    changed = {edit.node for edit in nodes.set_fields(context, [node.name for node in found], wanted)}
    publishing.publish_changes(context)
    for node in found:
        tell(Answer(node.name, "changed" if node.name in changed else "unchanged"))


def wanted_fields(context: Context, options: Options) -> dict[str, str]:
    if not options:
        raise InvalidInput("say what to set, such as profile=gpu")
    return nodes.parse_assignments(context.site, [f"{key}={value}" for key, value in options.items()])


def preview_retire(context: Context, found: Sequence[Node], options: Options) -> Iterator[Line]:
    nodes.retire(context, [node.name for node in found], rehearsal=True)
    for node in found:
        yield Line(node.name, f"taken out for good; {node.mac}, {node.address} and its BMC become free")


def run_retire(context: Context, found: Sequence[Node], options: Options, tell: Tell) -> None:
    for name in nodes.retire(context, [node.name for node in found]):
        tell(Answer(name, "retired"))
    publishing.publish_changes(context)


SETTABLE = (*nodes.FIELDS, *effective.SETTINGS)
ACTIONS: Mapping[str, Action] = {
    action.name: action
    for action in (
        power_action("power-on", "on", "Switch on", danger=False),
        power_action("power-off", "off", "Switch off", danger=True),
        power_action("power-cycle", "cycle", "Power-cycle", danger=True),
        power_action("power-reset", "reset", "Reset", danger=True),
        power_action("power-soft", "soft", "Shut down", danger=True),
        Action("bootdev", "Choose what boots next", preview_boot, run_boot, options=("device",)),
        Action("identify", "Blink the light", preview_blink, run_blink),
        Action("sel-clear", "Empty the event log", preview_clear, run_clear, danger=True),
        agent_action(Intent.INSPECT, "Inspect", danger=True),
        agent_action(Intent.DEPLOY, "Deploy", danger=True, options=("image", "erase")),
        agent_action(Intent.RESCUE, "Rescue", danger=True),
        Action("verify", "Verify", preview_verify, run_verify),
        Action("abort", "Stop what is under way", preview_abort, run_abort, danger=True),
        Action("set", "Change fields", preview_set, run_set, options=SETTABLE),
        Action("maintain", "Take into maintenance", preview_maintain, run_maintain, danger=True, options=("reason",)),
        Action("resume", "Take back into service", preview_resume, run_resume),
        Action("retire", "Retire", preview_retire, run_retire, danger=True),
    )
}


@dataclass
class Report:
    """How an action goes on, node by node."""

    answers: dict[str, Answer] = field(default_factory=dict)

    def tell(self, answer: Answer) -> None:
        self.answers[answer.name] = answer

    def folded(self) -> list[tuple[str, bool, str]]:
        """Status, whether it is good, and the nodes with it; as the command line folds its output."""
        groups: dict[tuple[str, bool], list[str]] = {}
        for answer in list(self.answers.values()):
            groups.setdefault((answer.error or answer.status, answer.ok), []).append(answer.name)
        return [(status, good, fold(names)) for (status, good), names in groups.items()]


def document(answer: Answer) -> dict[str, Any]:
    return {"name": answer.name, "status": answer.status, "error": answer.error or None, "hint": answer.hint or None}
