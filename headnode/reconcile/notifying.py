"""Telling people of events, each once: how far they were told is in the database, so no restart repeats or forgets."""

import threading
from pathlib import Path
from typing import Any

from headnode import notify
from headnode.model import Event, Severity, State
from headnode.nodeset import fold
from headnode.workflows.context import Context
from headnode.workflows.why import event_document

FACT = "notified"
# Events of one bad moment are one message: a switch that dies is not five hundred mails.
GATHER = 5.0
MOST = 500


def tell_people(context: Context, stop: threading.Event) -> None:
    while not stop.wait(GATHER):
        tell(context)


def tell(context: Context) -> int:
    """Tell what is new; how many events that were."""
    told = context.inventory.fact(FACT)
    settings = context.site.notify
    wanted = settings.webhook_file or settings.mail_to
    newest = context.inventory.newest_event()
    if not wanted or not told:
        # What happened before anybody wanted to know is history.
        if told != str(newest):
            remember(context, newest)
        return 0
    news = context.inventory.news(int(told), list(Severity)[list(Severity).index(Severity(settings.severity)) :], MOST)
    quiet = {node.name for node in context.inventory.in_state(State.MAINTENANCE)}
    # Whoever took a node out of service is working on it, and knows.
    worth_telling = [event for event in news if event.node not in quiet]
    if worth_telling:
        send(context, worth_telling)
    last = news[-1].id if len(news) == MOST else newest
    if str(last) != told:
        remember(context, last)
    return len(worth_telling)


def remember(context: Context, number: int) -> None:
    with context.inventory.change("headnode-reconcile", "notifications") as change:
        change.set_fact(FACT, str(number))


def send(context: Context, news: list[Event]) -> None:
    settings, site = context.site.notify, context.site
    if settings.webhook_file:
        notify.post(Path(settings.webhook_file), document(site.cluster, news))
    if settings.mail_to:
        sender = settings.mail_from or f"headnode@{site.domain}"
        notify.mail(settings.smtp, sender, settings.mail_to, subject(site.cluster, news), text(news))


def document(cluster: str, news: list[Event]) -> dict[str, Any]:
    """`text` is what chat programs show; the rest is for machines."""
    events = [{"node": event.node, **event_document(event)} for event in news]
    return {"text": subject(cluster, news) + "\n" + text(news), "cluster": cluster, "events": events}


def subject(cluster: str, news: list[Event]) -> str:
    names = sorted({event.node for event in news if event.node})
    who = fold(names) if names else "head node"
    return f"[{cluster}] {who}: {news[0].message}" + (f" (and {len(news) - 1} more)" if len(news) > 1 else "")


def text(news: list[Event]) -> str:
    lines = [f"{event.at:%F %T} UTC  {event.severity:8}{event.node or 'head node'}: {event.message}" for event in news]
    return "\n".join(lines) + "\n"
