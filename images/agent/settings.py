"""What the boot script told the kernel. Pure."""

from dataclasses import dataclass

from .errors import AgentError


@dataclass(frozen=True)
class Settings:
    url: str
    intent: str
    mac: str = ""
    # How long to listen for a switch to name itself; most say it every 30 seconds.
    lldp_seconds: float = 0.0


def parse_command_line(text: str) -> Settings:
    """The last of several equal arguments counts, as for the kernel itself."""
    words = dict(word.split("=", 1) for word in text.split() if "=" in word)
    url = words.get("headnode.url", "").rstrip("/")
    if not url.startswith("http://") or len(url) <= len("http://"):
        raise AgentError("the kernel was not told where the head node is (headnode.url=http://ADDRESS)")
    mac = words.get("BOOTIF", "").lower().replace("-", ":").removeprefix("01:")
    lldp = words.get("headnode.lldp", "0")
    seconds = float(lldp) if lldp.isdigit() else 0.0
    return Settings(url, words.get("headnode.intent", ""), mac, min(seconds, 120.0))
