"""Network interfaces from /sys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SYS = Path("/sys/class/net")


def collect(neighbours: Mapping[str, Mapping[str, str]], sys: Path = SYS) -> list[dict[str, Any]]:
    """Real ones only: those with a device behind them."""
    found = sorted(path for path in sys.iterdir() if (path / "device").exists()) if sys.is_dir() else []
    return [facts(path, neighbours.get(path.name)) for path in found]


def facts(path: Path, neighbour: Mapping[str, str] | None) -> dict[str, Any]:
    speed = read(path / "speed")
    driver = path / "device/driver"
    return {
        "name": path.name,
        "mac": read(path / "address").lower(),
        "link": read(path / "carrier") == "1",
        # Unknown speeds read as -1, and as an error when the port is down.
        "speed_mbps": int(speed) if speed.isdigit() and int(speed) < 2**31 else None,
        "driver": driver.resolve().name if driver.exists() else "",
        "pci": (path / "device").resolve().name,
        "type": "infiniband" if read(path / "type") == "32" else "ethernet",
        "lldp": dict(neighbour) if neighbour else None,
    }


def read(path: Path) -> str:
    """A file of /sys; reading some of them fails when the hardware has no answer."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
