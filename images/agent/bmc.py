"""The BMC as it is seen from inside the machine: `ipmitool lan print`. Pure."""

import ipaddress
import re

MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")


def parse_lan(text: str) -> dict[str, str] | None:
    """Address and MAC; nothing when there is no BMC, or none that has an address or a MAC."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(" : ")
        if colon and key.strip():
            fields.setdefault(key.strip(), value.strip())
    address, mac = fields.get("IP Address", ""), fields.get("MAC Address", "").lower()
    if not MAC.match(mac) or mac == "00:00:00:00:00:00":
        mac = ""
    if not usable(address):
        address = ""
    return {"address": address, "mac": mac, "source": fields.get("IP Address Source", "")} if address or mac else None


def usable(address: str) -> bool:
    try:
        return not ipaddress.IPv4Address(address).is_unspecified
    except ValueError:
        return False
