"""BMCs of enrolled nodes: where they are, what they can be asked, and the answers as plain data.

The same questions are answered by headnode-bmc, whose sessions are open, and by a command that finds it not running.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from headnode import effective, vault
from headnode.bmclink import Answer
from headnode.errors import HeadnodeError, InvalidInput, NotFound
from headnode.model import BmcDriver, Node
from headnode.paths import Paths
from headnode.site import Site
from headnode.workflows.context import Context
from ipmi.bmc import Bmc
from ipmi.faults import Unsupported, WrongCredentials
from ipmi.fleet import FANOUT, Fleet, Outcome, Target, each
from ipmi.readings import BootDevice, Credentials, PowerAction, PowerState
from ipmi.stagger import watts

Question = Callable[[Bmc], Awaitable[Any]]


def answer_of(outcome: Outcome[Any]) -> Answer:
    if outcome.fault is None:
        status = outcome.value if isinstance(outcome.value, str) else "ok"
        return Answer(outcome.name, status, outcome.value, seconds=outcome.seconds)
    fault = outcome.fault
    return Answer(outcome.name, fault.status, None, fault.message, fault.hint, outcome.seconds)


def local_address(site: Site) -> str:
    """BMCs are spoken to from the head node's address on their own network, and from nowhere else."""
    if site.management is None or site.management.head is None:
        raise InvalidInput(
            "the site has no management network with an address of the head node on it",
            hint="add networks.management with cidr, interface and head to site.yaml",
        )
    return str(site.management.head)


@asynccontextmanager
async def fleet_of(site: Site) -> AsyncIterator[Fleet]:
    """A fleet that speaks from the management network's address."""
    address = local_address(site)
    async with AsyncExitStack() as stack:
        try:
            made = await stack.enter_async_context(Fleet(address))
        except OSError as error:
            raise HeadnodeError(
                f"the head node's address {address} on the management network cannot be used: {error.strerror}",
                hint="'headnode check' says what is wrong with the interface",
            ) from error
        yield made


def targets(context: Context, nodes: Iterable[Node]) -> list[Target]:
    """The BMCs of those nodes that have one and a password for it, unsealed."""
    unseal = vault.unsealer(context.paths.secret_key)
    return [
        target(context.site, node, node.bmc.address, unseal(node.bmc.sealed_password))
        for node in nodes
        if node.bmc is not None and node.bmc.sealed_password
    ]


def unanswerable(nodes: Iterable[Node]) -> list[Answer]:
    """An answer for each node that cannot be asked."""
    found = []
    for node in nodes:
        if node.bmc is None:
            error, hint = f"{node.name} has no BMC", f"headnode set {node.name} bmc=ADDRESS"
            found.append(Answer(node.name, "no BMC", error=error, hint=hint))
        elif not node.bmc.sealed_password:
            error = f"no password is known for the BMC of {node.name}"
            hint = f"headnode bmc set-password {node.name} --known tells Headnode the one it has"
            found.append(Answer(node.name, "no password", error=error, hint=hint))
    return found


def target(site: Site, node: Node, address: str, password: str) -> Target:
    user, driver = effective.values(site, node, ("bmc_user", "bmc_driver"))
    return Target(node.name, address, Credentials(str(user), password), BmcDriver(driver or BmcDriver.AUTO))


# -- questions -------------------------------------------------------------------------------------------


def question(request: Mapping[str, Any]) -> Question:
    """What is to be asked of each BMC; unknown verbs and values are refused before anything is done."""
    try:
        return QUESTIONS[request["verb"]](request)
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidInput(f"BMCs cannot be asked for '{request.get('verb')}' like that") from error


async def power_state(bmc: Bmc) -> str:
    return str((await bmc.power()).value)


def switch(action: PowerAction) -> Question:
    async def ask(bmc: Bmc) -> str:
        state = await bmc.set_power(action)
        # A soft shutdown takes its time: what was read back right now would mislead.
        return "asked to shut down" if action is PowerAction.SOFT and state is PowerState.ON else str(state.value)

    return ask


def boot_from(device: BootDevice, persistent: bool, uefi: bool) -> Question:
    async def ask(bmc: Bmc) -> str:
        await bmc.set_boot_device(device, persistent=persistent, uefi=uefi)
        return f"{device.value}, {'from now on' if persistent else 'once'}" if device is not BootDevice.NONE else "none"

    return ask


async def boot_from_network(bmc: Bmc) -> str:
    await bmc.set_boot_device(BootDevice.PXE)
    return str((await bmc.set_power(PowerAction.CYCLE)).value)


async def sensors(bmc: Bmc) -> list[dict[str, Any]]:
    return [
        {"sensor": r.name, "value": r.value, "unit": r.unit, "health": r.health.value, "states": list(r.states)}
        for r in await bmc.sensors()
    ]


async def draw(bmc: Bmc) -> dict[str, Any]:
    """Whether it is on, and what it draws if its sensors tell."""
    if await bmc.power() is PowerState.OFF:
        return {"on": False, "watts": 0.0}
    with suppress(Unsupported):
        return {"on": True, "watts": watts(await bmc.sensors())}
    return {"on": True, "watts": None}


async def event_log(bmc: Bmc) -> list[dict[str, Any]]:
    return [
        {
            "id": entry.id,
            "at": entry.at.isoformat() if entry.at else None,
            "source": entry.source,
            "message": entry.message,
            "health": entry.health.value,
        }
        for entry in await bmc.event_log()
    ]


async def clear_event_log(bmc: Bmc) -> str:
    await bmc.clear_event_log()
    return "cleared"


async def identity(bmc: Bmc) -> dict[str, Any]:
    found = asdict(await bmc.identity())
    found.pop("facts")
    return found


def blink(seconds: int) -> Question:
    async def ask(bmc: Bmc) -> str:
        await bmc.identify(seconds)
        return "blinking" if seconds else "not blinking"

    return ask


def power_question(request: Mapping[str, Any]) -> Question:
    return power_state if request["action"] == "status" else switch(PowerAction(request["action"]))


def boot_question(request: Mapping[str, Any]) -> Question:
    return boot_from(BootDevice(request["device"]), bool(request.get("persistent")), bool(request.get("uefi")))


QUESTIONS: Mapping[str, Callable[[Mapping[str, Any]], Question]] = {
    "power": power_question,
    "bootdev": boot_question,
    "netboot": lambda request: boot_from_network,
    "sensors": lambda request: sensors,
    "draw": lambda request: draw,
    "sel": lambda request: event_log,
    "sel-clear": lambda request: clear_event_log,
    "identity": lambda request: identity,
    "identify": lambda request: blink(int(request["seconds"])),
}


# -- asking ----------------------------------------------------------------------------------------------


async def perform(
    fleet: Fleet, names: Sequence[str], request: Mapping[str, Any], paths: Paths
) -> AsyncIterator[Answer]:
    """Ask these BMCs what a request says, each at its time and so many at once; answers as they come."""
    sealed: Mapping[str, str] = request.get("sealed") or {}
    asked = None if request.get("verb") == "set-password" else question(request)

    async def one(name: str) -> Answer:
        if name not in fleet.targets:
            # headnode-bmc follows every node whose password it can open.
            error, hint = (
                f"the stored password of {name}'s BMC cannot be opened",
                f"headnode bmc set-password {name} --known",
            )
            return Answer(name, "no password", error=error, hint=hint)
        forgive(fleet, name)
        try:
            if asked is None:
                return await change_password(fleet, name, [vault.unseal(s, paths.secret_key) for s in sealed[name]])
            return answer_of(await fleet.one(name, asked))
        except HeadnodeError as error:
            return Answer(name, "failed", error=error.message, hint=error.hint)

    fanout = max(1, int(request.get("fanout") or FANOUT))
    async with aclosing(each(names, one, starts=request.get("starts") or {}, fanout=fanout)) as answers:
        async for answer in answers:
            yield answer


def forgive(fleet: Fleet, name: str) -> None:
    """A person asks: a BMC that was left alone is tried again now, unless its password is what was wrong."""
    target = fleet.targets.get(name)
    link = fleet.engine.links.get((target.address, target.port)) if target else None
    if link is not None and not isinstance(link.last_fault, WrongCredentials):
        link.forgive()


async def change_password(fleet: Fleet, name: str, passwords: list[str]) -> Answer:
    """Set the first of these and prove it. The others are what an interrupted change may have left at the BMC."""
    new, *perhaps = passwords
    now = fleet.targets.get(name)
    if now is None:
        raise NotFound(f"node '{name}' has no BMC")
    for known in (now.credentials.password, *perhaps):
        await fleet.add(replace(now, credentials=replace(now.credentials, password=known)))
        outcome = await fleet.one(name, lambda bmc: set_password(bmc, now.credentials.user, new))
        if not isinstance(outcome.fault, WrongCredentials):
            break
    if outcome.fault is None:
        # The session is open with it already; the console rides on.
        fleet.targets[name] = replace(now, credentials=replace(now.credentials, password=new))
    return answer_of(outcome)


async def set_password(bmc: Bmc, user: str, password: str) -> str:
    await bmc.set_password(user, password)
    return "changed"
