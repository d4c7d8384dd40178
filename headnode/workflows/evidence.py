"""What is known of one node: its timeline, and what else saw it. It costs the same however many nodes there are."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property

from headnode import control
from headnode.effective import effective
from headnode.errors import HeadnodeError
from headnode.lifecycle import WORKING
from headnode.model import Deployment, Event, Node, Sighting, State
from headnode.why.case import Asked, Case
from headnode.why.rules.mac_typo import differing
from headnode.why.timeline import Timeline, moment
from headnode.workflows import discovery
from headnode.workflows.context import Context

PAGE = 500
# More than any deployment's own events; what is older says nothing about how it is now.
MOST, MOST_AT_REST = 10_000, 1_000
# How far back a node that was asked nothing is looked at.
LATELY = timedelta(hours=24)
# Events that say what was asked of a node.
ASKING = frozenset({"inspect", "deploy", "rescue", "live", "verify.asked"})
UNDER_WAY = (*WORKING, State.FAILED)


class Evidence:
    """What all nodes' cases share is read once."""

    def __init__(self, context: Context, now: datetime | None = None) -> None:
        self.context = context
        self.now = now or datetime.now(UTC)
        self.head = Timeline.of(context.inventory.head_events(limit=PAGE))
        self.seen = tuple(context.inventory.seen())
        self.foreign = tuple(discovery.foreign_servers(context))
        self.published = int(context.inventory.fact("published_revision", "0"))
        self.serving = control.running(context.paths)

    def case(self, node: Node) -> Case:
        events = Timeline.of(self.events(node))
        asked = what_was_asked(node, self.context.inventory.deployment(node), events.last("verify.asked"))
        # A node that is up has its way behind it: what matters is how it is now.
        since = self.now - LATELY if asked.at is None or node.state is State.UP else asked.at
        timeline = events.since(since)
        return Case(
            name=node.name,
            now=self.now,
            node=node,
            asked=asked,
            timeline=timeline,
            head=self.head.since(since),
            sightings=tuple(self.nearly(node)),
            foreign=self.foreign,
            hardware=self.context.inventory.hardware(node) or {},
            settings=self.settings(node),
            published=node.revision <= self.published,
            serving=self.serving,
        )

    def unknown(self, name: str) -> Case:
        """Of a name that nobody enrolled."""
        return Case(name=name, now=self.now, sightings=self.strangers, serving=self.serving)

    @cached_property
    def strangers(self) -> tuple[Sighting, ...]:
        owners, _ = self.context.inventory.owners()
        return tuple(seen for seen in self.seen if seen.mac not in owners)

    def events(self, node: Node) -> Iterator[Event]:
        """Newest first, page by page, back to what was asked of it and no further."""
        since = self.now - LATELY
        before: int | None = None
        # Of a node at rest only what is new matters.
        for _ in range((MOST if node.state in UNDER_WAY else MOST_AT_REST) // PAGE):
            page = self.context.inventory.events(node.name, limit=PAGE, before=before)
            yield from page
            over = node.state not in UNDER_WAY and page and moment(page[0]) < since
            if over or len(page) < PAGE or any(event.kind in ASKING for event in page):
                return
            before = page[0].id

    def nearly(self, node: Node) -> Iterator[Sighting]:
        """Unknown hardware whose MAC is this node's but for one digit."""
        for seen in self.seen:
            if node.mac and differing(node.mac, seen.mac) is not None and not self.context.inventory.owner_of(seen.mac):
                yield seen

    def settings(self, node: Node) -> dict[str, object]:
        try:
            return {key: found.value for key, found in effective(self.context.site, node).items()}
        except HeadnodeError:
            return {}  # a profile that site.yaml has no more; 'headnode show' says so


def what_was_asked(node: Node, newest: Deployment | None, verify: Event | None) -> Asked:
    if verify and verify.at and (newest is None or verify.at > newest.started):
        return Asked("verify", verify.at)
    if node.state in (State.MAINTENANCE, State.RETIRED) or newest is None:
        return Asked()
    return Asked(newest.intent.value, newest.started, newest.image, newest.step, newest.result)
