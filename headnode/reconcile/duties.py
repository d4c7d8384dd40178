"""The small duties: closing windows, ending overdue work, looking for foreign DHCP, noticing a new site.yaml."""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

from headnode import packagecache, sitefile
from headnode.directory import server
from headnode.errors import HeadnodeError
from headnode.lifecycle import WORKING
from headnode.log import logger
from headnode.model import Severity, State
from headnode.reconcile.reloading import send
from headnode.workflows import clocks, deploy, discovery, people, publishing, serve
from headnode.workflows.context import Context

Duty = Callable[[threading.Event], None]
LONGEST_PAUSE = 30.0
HOUR = 60 * 60.0
DAY = 24 * HOUR
CLOCKS = 300.0
EVENTS_AT_ONCE = 1000


def close_overdue_windows(context: Context, stop: threading.Event) -> None:
    while not stop.is_set():
        window = discovery.recorded(context)
        if window is not None and window.until <= datetime.now(UTC):
            close_window(context)
        stop.wait(1.0)


def close_window(context: Context) -> None:
    """Published first and forgotten afterwards: should publishing fail, it is tried again until nobody is lent to."""
    # A context of its own, because site.yaml may have changed since this process read it.
    at = context.because("the discovery window's time was up")
    try:
        publishing.publish_changes(at)
        discovery.close(at, "its time was up")
    finally:
        at.inventory.close()


def fail_overdue_work(context: Context, stop: threading.Event) -> None:
    while not stop.is_set():
        deploy.expire_overdue(context)
        stop.wait(2.0)


def finish_publishing(context: Context, stop: threading.Event) -> None:
    """Whoever asked for work, or heard its end, may have died before that was live: then it is made live here."""
    while not stop.is_set():
        published = int(context.inventory.fact("published_revision", "0"))
        if context.inventory.newest() > published:
            _, changed = context.inventory.changed_since(published)
            if any(node.state in (*WORKING, State.FAILED) for node in changed):
                publish_again(context)
        stop.wait(2.0)


def publish_again(context: Context) -> None:
    at = context.because("publishing was left undone")
    try:
        publishing.publish_changes(at)
    finally:
        at.close()


def lead(context: Context, duties: Mapping[str, Duty], stop: threading.Event) -> None:
    """What is done once for the whole cluster is done by one process, whatever number of head nodes there are."""
    held = context.inventory.lead("reconcile")
    if held is None:
        stop.wait(1.0)
        return
    over = threading.Event()
    threads: list[threading.Thread] = []
    try:
        if not stop.wait(held.grace) and held.held():
            logger("headnode.reconcile").info("leading")
            threads = start_all(duties, over)
        while not stop.wait(1.0) and held.held():
            pass
    finally:
        over.set()
        for thread in threads:
            thread.join(5.0)
        held.release()


def start_all(duties: Mapping[str, Duty], stop: threading.Event) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=persistently, args=(name, work, stop), name=name, daemon=True)
        for name, work in duties.items()
    ]
    for thread in threads:
        thread.start()
    return threads


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


def look_for_foreign_dhcp(context: Context, stop: threading.Event) -> None:
    """While serving, a foreign server is an event and a loud status; stopping ours would help nobody."""
    while not stop.is_set():
        found = [
            (name, offer) for name in serve.networks_with_dhcp(context) for offer in serve.foreign_offers(context, name)
        ]
        note_foreign(context, {f"on {name}: {serve.named(offer)}": str(offer) for name, offer in found})
        stop.wait(context.site.boot.probe_seconds)


def note_foreign(context: Context, found: dict[str, str]) -> None:
    """An event when a server appears and when it goes, not each time it is still there with another address to give."""
    before = set(discovery.foreign_servers(context))
    now = set(found)
    if now == before:
        return
    with context.inventory.change("boot plane", "regular look for other DHCP servers") as change:
        change.set_fact(discovery.FOREIGN, "\n".join(sorted(now)))
        for server in sorted(now - before):
            message = f"a foreign DHCP server answers {server}: {found[server]}"
            change.record("dhcp.foreign", message, severity=Severity.ERROR, data={"server": server})
            logger("headnode.reconcile").error("foreign DHCP server", server=server, offer=found[server])
        for server in sorted(before - now):
            change.record("dhcp.foreign", f"the foreign DHCP server {server} answers no more", data={"server": server})
            logger("headnode.reconcile").info("foreign DHCP server gone", server=server)


def keep_the_directory_ready(context: Context, stop: threading.Event) -> None:
    """What site.yaml wants of the directory is there before anybody is added, and its certificate never runs out."""
    while not stop.is_set():
        if context.site.directory.mode == "internal" and context.paths.ldap_socket.exists():
            with people.directory(context):
                pass
            if server.certificate_ends_soon(context.site, context.paths):
                # It is made anew whenever slapd starts, and whoever supervises it starts it again.
                send(context.paths.runtime / "slapd/slapd.pid", "slapd", signal.SIGTERM)
            stop.wait(DAY)
        stop.wait(1.0)


def leave_when_the_site_changes(context: Context, stop: threading.Event) -> None:
    """With the site it read long ago it would look at the wrong wire, so it ends and is started anew."""
    known, read = context.site, b""
    while not stop.wait(2.0):
        try:
            text = context.paths.site_file.read_bytes()
            if text == read:
                continue
            read, now = text, sitefile.parse(text, str(context.paths.site_file))
        except (HeadnodeError, OSError):
            continue  # somebody is in the middle of editing it
        if now != known:
            logger("headnode.reconcile").info("site.yaml changed; starting anew")
            stop.set()


def tidy_package_cache(context: Context, stop: threading.Event) -> None:
    while not stop.wait(DAY):
        if gone := packagecache.expire(context.paths, context.site.packages.cache_days, time.time()):
            logger("headnode.reconcile").info("forgot packages that nobody asked for", packages=len(gone))


def forget_old_events(context: Context, stop: threading.Event) -> None:
    """A few at a time, so that nobody who writes ever waits for it; a long history is worked off within hours.

    The first hour belongs to the clock: a head node may start years ahead, and what is forgotten does not come back.
    """
    pause = HOUR
    while not stop.wait(pause):
        before = datetime.now(UTC) - timedelta(days=context.site.database.keep_days)
        gone = context.inventory.history.forget(before, most=EVENTS_AT_ONCE)
        pause = HOUR if gone is None else 0.2


def watch_clocks(context: Context, stop: threading.Event) -> None:
    """A node that is up and whose clock goes wrong is an event, once when it happens and once when it is over."""
    while not stop.wait(CLOCKS):
        clocks.note_outliers(context)
