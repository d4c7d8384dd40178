"""The discovery window, and the hardware that was seen asking outside of it."""

import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from headnode import fields
from headnode.errors import InvalidField, InvalidInput
from headnode.model import Sighting, Window
from headnode.sitevalues import AddressRange
from headnode.workflows.context import Context

FACT = "discovery"
FOREIGN = "foreign_dhcp"
LONGEST = timedelta(hours=24)


def open_window(context: Context) -> Window | None:
    """The window, if one is open at this moment."""
    window = recorded(context)
    return window if window is not None and window.until > datetime.now(UTC) else None


def recorded(context: Context) -> Window | None:
    """The window that was opened last, open or not, until it has been closed."""
    text = context.inventory.fact(FACT)
    if not text:
        return None
    data = json.loads(text)
    return Window(datetime.fromisoformat(data["until"]), data["first"], data["last"])


def open_for(context: Context, duration: timedelta, lent: str | None = None) -> Window:
    """Open the window; publishing makes it real."""
    if not timedelta(seconds=1) <= duration <= LONGEST:
        raise InvalidField("for", str(duration), "use up to 24h, such as 30m")
    chosen = range_to_lend(context, lent)
    until = (datetime.now(UTC) + duration).replace(microsecond=0)
    window = Window(until, str(chosen.first), str(chosen.last))
    with context.inventory.change(context.actor, context.cause) as change:
        change.set_fact(FACT, json.dumps({**asdict(window), "until": until.isoformat()}))
        message = f"discovery window open until {until:%H:%M:%S} UTC, lending {chosen}"
        change.record("discovery", message)
    return window


def close(context: Context, why: str) -> bool:
    """Close the window; false when none was recorded."""
    if recorded(context) is None:
        return False
    with context.inventory.change(context.actor, context.cause) as change:
        change.set_fact(FACT, "")
        change.record("discovery", f"discovery window closed: {why}")
    return True


def range_to_lend(context: Context, text: str | None) -> AddressRange:
    whole = context.site.provision.discovery_range
    if whole is None:
        raise InvalidInput("site.yaml has no networks.provision.discovery_range; add one to lend addresses from")
    if text is None:
        return whole
    try:
        chosen = AddressRange.parse(text)
    except ValueError as error:
        raise InvalidField("range", text, str(error)) from None
    if chosen.first not in whole or chosen.last not in whole:
        raise InvalidField("range", text, f"use a part of the site's discovery_range {whole}")
    return chosen


def parse_duration(text: str, field: str = "for") -> timedelta:
    """30s, 15m, 2h, 3d."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = text[:-1], text[-1:]
    if unit not in units or not number.isdecimal() or len(number) > 6:
        raise InvalidField(field, text, "use a number and s, m, h or d, such as 30m")
    return timedelta(seconds=int(number) * units[unit])


def seen(context: Context) -> list[Sighting]:
    """Unknown hardware that asked for an address; what has been enrolled since is left out."""
    owners, _ = context.inventory.owners()
    return [sighting for sighting in context.inventory.seen() if sighting.mac not in owners]


def foreign_servers(context: Context) -> list[str]:
    """Foreign DHCP servers, as the last regular look found them."""
    return context.inventory.fact(FOREIGN).splitlines()


def pick_seen(context: Context, wanted: str | None) -> str:
    """The one machine that was seen; with several, the admin has to say which."""
    found = seen(context)
    if wanted is not None:
        wanted = fields.mac_address(wanted)
        if all(sighting.mac != wanted for sighting in found):
            raise InvalidField("mac", wanted, "no such hardware was seen; 'headnode seen' lists what was")
        return wanted
    if len(found) != 1:
        listed = ", ".join(sighting.mac for sighting in found[-5:]) or "none"
        raise InvalidInput(
            f"{len(found)} unknown machines were seen ({listed}); --seen needs exactly one", hint="say which with --mac"
        )
    return found[0].mac


def vendor(mac: str) -> str | None:
    """Who made the network card, by the registry that netaddr ships."""
    from netaddr import EUI, NotRegisteredError

    try:
        return str(EUI(mac).oui.registration()["org"])
    except NotRegisteredError:
        return None
