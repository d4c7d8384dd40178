"""The power button of emulated machines: ipmi_sim asks here what is on, and tells here what to switch."""

import socketserver
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

CLIENT = Path(__file__).with_name("chassis_client.py")


class Chassis(Protocol):
    """One machine's front panel. Called from several threads, never two at a time for one machine."""

    def powered(self) -> bool: ...

    def set_power(self, on: bool) -> None: ...

    def reset(self) -> None: ...

    def shut_down(self) -> None:
        """Ask the operating system to power off, as the button does."""
        ...

    def boot_device(self) -> str:
        """`none`, `pxe`, `default` (the disk), `cdrom` or `bios`: ipmi_sim's words."""
        ...

    def set_boot_device(self, device: str) -> None: ...

    def identify(self, seconds: int) -> None: ...


@dataclass
class FakeChassis:
    """A machine that is only a power state; it remembers what it was told, for tests."""

    on: bool = False
    boot: str = "none"
    stuck: bool = False
    history: list[str] = field(default_factory=list)

    def powered(self) -> bool:
        return self.on

    def set_power(self, on: bool) -> None:
        self.history.append("on" if on else "off")
        self.on = self.on if self.stuck else on

    def reset(self) -> None:
        self.history.append("reset")

    def shut_down(self) -> None:
        self.history.append("soft")
        self.on = self.on and self.stuck

    def boot_device(self) -> str:
        return self.boot

    def set_boot_device(self, device: str) -> None:
        self.history.append(f"boot {device}")
        self.boot = self.boot if self.stuck else device

    def identify(self, seconds: int) -> None:
        self.history.append(f"identify {seconds}")


def answer(chassis: Chassis, words: list[str]) -> str:
    """ipmi_sim's little language: `get power`, `set boot pxe`, several items in one question."""
    match words:
        case ["get", *items]:
            values = {"power": str(int(chassis.powered())), "boot": chassis.boot_device()}
            return "".join(f"{item}:{values[item]}\n" for item in items)
        case ["set", "power", value]:
            chassis.set_power(value == "1")
        case ["set", "reset", *_]:
            chassis.reset()
        case ["set", "shutdown", *_]:
            chassis.shut_down()
        case ["set", "boot", device]:
            chassis.set_boot_device(device)
        case ["set", "identify", seconds, *_]:
            chassis.identify(int(seconds))
        case _:
            raise ValueError(f"unknown chassis command {words}")
    return ""


class Handler(socketserver.StreamRequestHandler):
    server: "Server"

    def handle(self) -> None:
        name, *words = self.rfile.readline().decode().split() or [""]
        chassis = self.server.machines.get(name)
        try:
            if chassis is None:
                raise KeyError(f"no machine '{name}'")
            with self.server.locks.setdefault(name, threading.Lock()):
                said = answer(chassis, words)
        except Exception as error:  # noqa: BLE001 - a broken machine must not take the others' buttons away
            said = f"error:{type(error).__name__}: {error}\n"
        self.wfile.write(said.encode())


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: Path, machines: Mapping[str, Chassis]) -> None:
        path.unlink(missing_ok=True)
        self.machines = machines
        self.locks: dict[str, threading.Lock] = {}
        super().__init__(str(path), Handler)


class ChassisService:
    """Serves the buttons of all machines on one unix socket; `machines` may change while it runs."""

    def __init__(self, path: Path, machines: Mapping[str, Chassis]) -> None:
        self.path = path
        self.server = Server(path, machines)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)

    def command(self, name: str) -> str:
        """What goes into ipmi_sim's configuration for this machine."""
        return f"{sys.executable} -I -S {CLIENT} {self.path} {name}"

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
        self.path.unlink(missing_ok=True)
