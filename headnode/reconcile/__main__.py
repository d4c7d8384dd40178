"""The process: every duty is a thread that is taken up again when it stumbles."""

import signal
import threading
from collections.abc import Callable
from functools import partial

from headnode.errors import HeadnodeError
from headnode.log import configure, logger
from headnode.paths import Paths
from headnode.reconcile.duties import (
    close_overdue_windows,
    fail_overdue_work,
    keep_the_directory_ready,
    leave_when_the_site_changes,
    look_for_foreign_dhcp,
)
from headnode.reconcile.recording import Recorder
from headnode.reconcile.reloading import Control, Reloader
from headnode.reconcile.watching import Watcher
from headnode.supervisor import notify
from headnode.workflows.context import Context

Duty = Callable[[threading.Event], None]
LONGEST_PAUSE = 30.0


def persistently(name: str, work: Duty, stop: threading.Event, pause: float = 1.0) -> None:
    """A fault in one duty is logged and the duty taken up again; it never takes the others with it."""
    failures = 0
    while not stop.is_set():
        try:
            work(stop)
            failures = 0
        except HeadnodeError as error:
            failures += 1
            logger("headnode.reconcile").error("stumbled", duty=name, reason=error.message)
        except Exception as error:  # noqa: BLE001 - duties must survive what nobody thought of
            failures += 1
            logger("headnode.reconcile").error("stumbled", duty=name, reason=repr(error)[:1000])
        stop.wait(min(pause * 2 ** min(failures, 10), LONGEST_PAUSE))


def main() -> None:
    configure()
    context = Context(Paths.from_environment(), actor="reconcile", cause="headnode-reconcile")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reloader = Reloader(context.paths, context.site)
    control = Control(context.paths, reloader)
    # Whatever was published while nobody listened takes effect now.
    reloader.request({"everything"})
    duties: dict[str, Duty] = {
        "control": control.run,
        "reload": reloader.run,
        "record": Recorder(context).run,
        "watch": Watcher(context).run,
        "discovery": partial(close_overdue_windows, context),
        "deadlines": partial(fail_overdue_work, context),
        "foreign-dhcp": partial(look_for_foreign_dhcp, context),
        "directory": partial(keep_the_directory_ready, context),
        "site": partial(leave_when_the_site_changes, context),
    }
    threads = [
        threading.Thread(target=persistently, args=(name, work, stop), name=name, daemon=True)
        for name, work in duties.items()
    ]
    for thread in threads:
        thread.start()
    notify("READY=1")
    while not stop.wait(1.0):
        pass
    for thread in threads:
        thread.join(3.0)
    context.paths.control_socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
