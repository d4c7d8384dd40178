"""The process: every duty is a thread that is taken up again when it stumbles."""

import signal
import threading
from functools import partial

from headnode.log import configure
from headnode.paths import Paths
from headnode.reconcile import notifying
from headnode.reconcile.duties import (
    Duty,
    close_overdue_windows,
    fail_overdue_work,
    finish_publishing,
    forget_old_events,
    keep_the_directory_ready,
    lead,
    leave_when_the_site_changes,
    look_for_foreign_dhcp,
    start_all,
    tidy_package_cache,
    watch_clocks,
)
from headnode.reconcile.recording import Recorder
from headnode.reconcile.reloading import Control, Reloader
from headnode.reconcile.watching import Watcher
from headnode.supervisor import notify
from headnode.workflows.context import Context


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
    once_for_all: dict[str, Duty] = {
        "discovery": partial(close_overdue_windows, context),
        "deadlines": partial(fail_overdue_work, context),
        "publishing": partial(finish_publishing, context),
        "notifying": partial(notifying.tell_people, context),
        "clocks": partial(watch_clocks, context),
        "history": partial(forget_old_events, context),
    }
    here: dict[str, Duty] = {
        "control": control.run,
        "reload": reloader.run,
        "record": Recorder(context).run,
        "watch": Watcher(context).run,
        "foreign-dhcp": partial(look_for_foreign_dhcp, context),
        "package-cache": partial(tidy_package_cache, context),
        "directory": partial(keep_the_directory_ready, context),
        "site": partial(leave_when_the_site_changes, context),
        "lead": partial(lead, context, once_for_all),
    }
    threads = start_all(here, stop)
    notify("READY=1")
    while not stop.wait(1.0):
        pass
    for thread in threads:
        thread.join(3.0)
    context.paths.control_socket.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
