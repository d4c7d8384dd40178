"""The lab's resident process: owns machines, BMCs, wires and the head node's services, and takes orders on a socket.

One line of JSON is a question, one line the answer. Started by headnode/lab/link.py; SIGTERM ends it and all it owns.
"""

import json
import signal
import socketserver
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType
from typing import Any

from headnode.errors import HeadnodeError, InvalidField
from headnode.lab.faults import MEANING, Fault, Faults, undo_damage
from headnode.lab.relay import Relay
from headnode.lab.spec import Places, Spec
from headnode.lab.world import World, world

STAGE = "stage: "


class Daemon:
    def __init__(self, spec: Spec, places: Places) -> None:
        self.spec = spec
        self.places = places
        self.phase = "starting"
        self.over = threading.Event()
        self.world: World | None = None
        self.faults: Faults | None = None
        self.relay: Relay | None = None
        # Orders that change something come one after another.
        self.one_at_a_time = threading.Lock()

    def tell(self, phase: str) -> None:
        self.phase = phase
        # Whoever waits for us reads the log.
        sys.stdout.write(f"{STAGE}{phase}\n")
        sys.stdout.flush()

    def run(self) -> None:
        with ExitStack() as stack:
            made = stack.enter_context(world(self.spec, progress=self.tell))
            undo_damage(self.places.head.state)
            server = stack.enter_context(Server(str(self.places.socket), self))
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(server.shutdown)
            self.relay = stack.enter_context(Relay(self.spec.port, self.places.head.runtime / "web.sock"))
            self.world, self.faults = made, Faults(made)
            self.resume(made)
            self.phase = "ready"
            self.over.wait()

    def resume(self, made: World) -> None:
        """As after a blackout: what was on is on again."""
        for node in made.nodes.values():
            if node.chassis.was_on():
                node.chassis.set_power(True)

    # Orders.

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        orders: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "status": self.status, "stop": self.stop, "fault": self.fault, "clear": self.clear,
        }  # fmt: skip
        order = orders.get(str(question.get("order")))
        if order is None:
            raise InvalidField("order", question.get("order"), f"use one of {', '.join(orders)}")
        return order(question)

    def status(self, question: dict[str, Any]) -> dict[str, Any]:
        made, faults = self.world, self.faults
        if made is None or faults is None:
            return {"phase": self.phase}
        return {
            "phase": self.phase,
            "serving": made.serving,
            "silent": made.silent,
            "port": self.relay.port if self.relay else None,
            "nodes": [
                {"name": name, "power": node.machine.is_on(), "faults": faults.current(name)}
                for name, node in made.nodes.items()
            ],
        }

    def stop(self, question: dict[str, Any]) -> dict[str, Any]:
        self.over.set()
        return {}

    def fault(self, question: dict[str, Any]) -> dict[str, Any]:
        fault = Fault(question["fault"])
        with self.one_at_a_time:
            self._faults().cause(str(question["node"]), fault)
        return {"meaning": MEANING[fault]}

    def clear(self, question: dict[str, Any]) -> dict[str, Any]:
        with self.one_at_a_time:
            return {"cleared": self._faults().clear(str(question["node"]))}

    def _faults(self) -> Faults:
        if self.faults is None:
            raise HeadnodeError(f"the lab is not ready yet: {self.phase}")
        return self.faults


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, daemon: Daemon) -> None:
        self.daemon = daemon
        super().__init__(path, Handler)


class Handler(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        try:
            said = self.server.daemon.answer(dict(json.loads(self.rfile.readline())))
        except HeadnodeError as error:
            said = {"refused": error.message, "hint": error.hint, "code": error.exit_code}
        except (ValueError, KeyError, OSError) as error:
            said = {"refused": f"{type(error).__name__}: {error}", "hint": "", "code": 1}
        self.wfile.write(json.dumps(said).encode() + b"\n")


def main(name: str) -> int:
    places = Places.of(name)
    daemon = Daemon(Spec.read(places.spec), places)

    def end(number: int, frame: FrameType | None) -> None:
        # At any moment, also while the lab is being built: the exception unwinds what is there.
        daemon.over.set()
        if daemon.world is None:
            raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        daemon.run()
    except HeadnodeError as error:
        sys.stderr.write(f"{error.message}\n" + (f"  hint: {error.hint}\n" if error.hint else ""))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
