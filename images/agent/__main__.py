"""The agent's life: claim, report, do what the intent says, and leave a shell when that did not work."""

import sys
import time
from pathlib import Path
from typing import Any

from . import efi, inventory, rescue
from .errors import AgentError, Refused
from .execute import Execution
from .head import Head
from .lldp import Listener
from .plan import TARGET, parse_plan
from .report import Reporter
from .runner import Log, run, sync
from .settings import Settings, parse_command_line

# A deployment's token is published before the machine is switched on, but a person may be quicker than that.
TOKEN_PATIENCE = 120.0
TOKEN_PAUSE = 5.0
CLAIMS = 3
EFI = Path("/sys/firmware/efi")
VIRTUAL = ("virtio_net", "xen_netfront", "hv_netvsc")


class Agent:
    def __init__(self, settings: Settings, head: Head, log: Log) -> None:
        self.settings = settings
        self.head = head
        self.log = log
        self.reporter = Reporter(head, log)
        self.listener = Listener()
        self.phase = "claim"

    def live(self) -> int:
        """0 when the machine goes on by itself; otherwise the console's shell is what is left."""
        self.listener.start()
        try:
            claimed = self.claim()
        except AgentError as error:
            self.log.write(f"headnode: this machine was given nothing to do: {error}")
            return 2
        self.reporter.start()
        try:
            then = self.work(str(claimed.get("intent") or self.settings.intent))
        except AgentError as error:
            return self.failed(str(error))
        except Exception as error:  # noqa: BLE001 - whatever happens, the head node is told a reason
            return self.failed(f"the agent itself failed: {type(error).__name__}: {error}")
        return self.leave(then)

    def claim(self) -> dict[str, Any]:
        for _ in range(CLAIMS - 1):
            try:
                return self.claim_once()
            except Refused as error:
                # A token is good once, and may have been used up by a claim whose answer was lost.
                if error.status != 404:
                    raise
        return self.claim_once()

    def claim_once(self) -> dict[str, Any]:
        claimed = self.head.post("/node/v1/claim", {"token": self.token()})
        session = claimed.get("session")
        if not isinstance(session, str) or not session.isascii() or not session.isprintable():
            raise Refused("the head node's claim has no session")
        self.head.session = session
        self.log.write(f"headnode: this is {claimed.get('node')}, told to {claimed.get('intent')}")
        return claimed

    def token(self) -> str:
        deadline = time.monotonic() + TOKEN_PATIENCE
        while True:
            try:
                return self.head.text("/token").strip()
            except Refused as error:
                if error.status != 404 or time.monotonic() > deadline:
                    raise
            time.sleep(TOKEN_PAUSE)

    def work(self, intent: str) -> str:
        if intent == "rescue":
            self.phase = "rescue"
            return rescue.prepare(self.head, self.reporter)
        told = self.report_inventory()
        if intent == "inspect":
            self.phase = "done"
            answer = self.head.post("/node/v1/done", {})
            return str(answer.get("then") or told.get("then") or "reboot")
        if intent != "deploy":
            raise AgentError(f"this agent does not know how to {intent!r}")
        return self.deploy()

    def report_inventory(self) -> dict[str, Any]:
        self.phase = "inventory"
        self.reporter.event("inventory", "looking at the hardware", step="inventory")
        facts = {**inventory.collect({}), "boot_mac": self.settings.mac}
        # No virtual switch names itself, so there is nothing to wait for behind a virtual port.
        linked = [nic["name"] for nic in facts["nics"] if nic["link"] and nic.get("driver") not in VIRTUAL]
        self.listener.wait(linked, self.settings.lldp_seconds)
        for nic in facts["nics"]:
            nic["lldp"] = self.listener.heard.get(nic["name"])
        return self.head.post("/node/v1/inventory", facts)

    def deploy(self) -> str:
        self.phase = "plan"
        plan = parse_plan(self.head.get("/node/v1/plan"))
        if Path(TARGET).is_mount():
            # An agent that failed has left it, and somebody has started this one by hand.
            release_target()
        execution = Execution(plan, self.head, self.reporter)
        self.phase = ""
        try:
            execution.run()
        finally:
            self.phase = execution.step or "plan"
        if plan.network_first and EFI.is_dir() and (sentence := efi.repair(self.log)):
            self.reporter.event("boot-order", sentence, step="boot order")
        self.phase = "done"
        release_target()
        self.reporter.event("deployed", "everything is on the disk", step="done", percent=100.0)
        self.reporter.send()
        return str(self.head.post("/node/v1/done", {}).get("then") or "reboot")

    def failed(self, reason: str) -> int:
        self.log.write(f"headnode: {self.phase} failed: {reason}")
        self.reporter.stop()
        try:
            self.head.post("/node/v1/failed", {"step": self.phase, "reason": reason, "log": self.log.tail})
        except AgentError as error:
            self.log.write(f"headnode: and the head node could not be told: {error}")
        return 1

    def leave(self, then: str) -> int:
        self.reporter.stop()
        if then in ("reboot", "poweroff"):
            self.log.write(f"headnode: {then}")
            sync()
            run(["busybox", then, "-f"])
            return 3
        return 0


def release_target() -> None:
    """Everything written must be on the disks before the head node is told that it is."""
    sync()
    if Path(TARGET).is_mount():
        run(["umount", "--recursive", TARGET])
    run(["swapoff", "--all"])
    run(["vgchange", "--activate", "n"])
    run(["mdadm", "--stop", "--scan"])
    sync()


def main() -> int:
    log = Log(sys.stderr)
    try:
        settings = parse_command_line(Path("/proc/cmdline").read_text())
    except AgentError as error:
        log.write(f"headnode: {error}")
        return 2
    return Agent(settings, Head(settings.url), log).live()


if __name__ == "__main__":
    sys.exit(main())
