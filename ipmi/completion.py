"""What a BMC's completion code means, as a fault with its own remedy."""

from collections.abc import Mapping

from ipmi.faults import BmcFault, NoFreeSession, Refused, TimedOut, Unsupported, WrongCredentials

UNSUPPORTED = frozenset({0xC1, 0xC2, 0xD6})
NO_PRIVILEGE = 0xD4
NOT_NOW = 0xD5
WORDS = {
    0xC0: "it is busy",
    0xC3: "it took too long inside",
    0xC4: "it is out of space",
    0xC5: "the reservation was lost",
    0xC7: "the request has a wrong length",
    0xC9: "a value is out of range",
    0xCB: "there is no such sensor, record or data",
    0xCC: "a field of the request is invalid",
    0xCE: "it cannot answer now",
    0xD0: "its sensor records are being updated",
    0xD2: "it is starting up",
    0xD5: "it cannot do that in its present state",
    0xFF: "no reason given",
}


def fault_for(code: int, address: str, what: str, words: Mapping[int, str] | None = None) -> BmcFault:
    """`words` are the meanings of codes below 0xC0, which differ per command."""
    if code in UNSUPPORTED:
        return Unsupported(f"BMC {address} cannot {what}")
    if code == NO_PRIVILEGE:
        return WrongCredentials(f"BMC {address} does not let this user {what}: it needs a higher privilege")
    if code == 0xC3:
        return TimedOut(f"BMC {address} could not {what}: it took too long inside")
    if code == 0xC4 and what == "log in":
        return NoFreeSession(f"BMC {address} has no free session")
    meaning = (words or {}).get(code) or WORDS.get(code) or "a code of its own"
    return Refused(f"BMC {address} refused to {what}: {meaning} (0x{code:02x})", code=code)
