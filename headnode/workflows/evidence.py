"""What is known of one node: its timeline, and what else saw it. It costs the same however many nodes there are."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property

from headnode import control
from headnode.effective import effective
from headnode.errors import HeadnodeError
from headnode.model import Deployment, Event, Node, Sighting, State
from headnode.why.case import Asked, Case
from headnode.why.rules.mac_typo import differing
from headnode.why.timeline import Timeline, moment
from headnode.workflows import discovery
from headnode.workflows.context import Context

PAGE = 500
# More milestones than anybody sets between asking for something and wondering what became of it.
MARKS = 50
# Of a node at work, or failed: what came first since it was asked, which is its way, and what came last. A node that
# failed days ago and starts again every minute has more in between than anybody wants to read.
FIRST, LAST = 2_000, 1_000
# Of a node at rest only what is new matters.
MOST_AT_REST = 1_000
# How far back a node that was asked nothing is looked at.
LATELY = timedelta(hours=24)
# Events that say what was asked of a node.
ASKING = frozenset({"inspect", "deploy", "rescue", "live", "verify.asked"})
# Events after which nothing is asked of it any more.
PUT_ASIDE = frozenset({"maintain", "resume", "retire", "enroll"})
OF_A_DEPLOYMENT = re.compile(r"[a-z]+ \d+")


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
        self.forgotten = context.inventory.history.forgotten()

    def case(self, node: Node) -> Case:
        marks = self.marks(node)
        newest = self.context.inventory.deployment(node)
        asked = what_was_asked(node, newest, marks)
        # A node that is up has its way behind it: what matters is how it is now.
        lately = asked.at is None or node.state is State.UP
        since = self.now - LATELY if lately else asked.at
        found = self.recent(node, marks) if lately else self.events(node, marks)
        if not lately:
            found = of_this_work(found, asking(marks), newest)
        timeline = Timeline.of({event.id: event for event in found}.values()).since(since)
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
            forgotten=not lately and (wish := asking(marks)) is not None and wish.id <= self.forgotten,
        )

    def marks(self, node: Node) -> list[Event]:
        """The newest milestones, and what was asked last even when a node has reported its trouble ever since."""
        history = self.context.inventory.history
        newest = history.milestones(node.name, limit=MARKS)
        wish = history.latest(node.name, ASKING | PUT_ASIDE)
        return [wish, *newest] if wish and newest and wish.id < newest[0].id else newest

    def unknown(self, name: str) -> Case:
        """Of a name that nobody enrolled."""
        return Case(name=name, now=self.now, sightings=self.strangers, serving=self.serving)

    @cached_property
    def strangers(self) -> tuple[Sighting, ...]:
        owners, _ = self.context.inventory.owners()
        return tuple(seen for seen in self.seen if seen.mac not in owners)

    def events(self, node: Node, marks: Sequence[Event]) -> Iterator[Event]:
        """Since it was asked: the first and the last of it, and its milestones."""
        asked = asking(marks)
        first = self.context.inventory.history.onwards(node.name, asked.id, limit=FIRST) if asked else []
        yield from (*marks, *first)
        if asked is None or len(first) == FIRST:
            yield from self.context.inventory.events(node.name, limit=LAST, after=first[-1].id if first else 0)

    def recent(self, node: Node, marks: Sequence[Event]) -> Iterator[Event]:
        """Newest first, page by page, for as long as that is recent."""
        yield from marks
        before: int | None = None
        for _ in range(MOST_AT_REST // PAGE):
            page = self.context.inventory.events(node.name, limit=PAGE, before=before)
            yield from page
            if len(page) < PAGE or moment(page[0]) < self.now - LATELY:
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


def asking(marks: Sequence[Event]) -> Event | None:
    """The event with which the newest work was asked for."""
    return next((event for event in reversed(marks) if event.kind in ASKING), None)


def of_this_work(found: Iterable[Event], asked: Event | None, newest: Deployment | None) -> Iterator[Event]:
    """Without what belongs to earlier work: clocks may not tell the two apart, numbers do.

    What has a smaller number than the wish was recorded before it. What an agent says names its deployment, and may be
    recorded just after that was replaced.
    """
    ours = f"{newest.intent} {newest.id}" if newest else ""
    for event in found:
        others = event.actor == "agent" and OF_A_DEPLOYMENT.fullmatch(event.cause) and event.cause != ours
        if not others and (asked is None or event.id >= asked.id):
            yield event


def what_was_asked(node: Node, newest: Deployment | None, marks: Sequence[Event]) -> Asked:
    wish = next((event for event in reversed(marks) if event.kind in (*ASKING, *PUT_ASIDE)), None)
    if node.state in (State.MAINTENANCE, State.RETIRED) or (wish and wish.kind in PUT_ASIDE):
        return Asked()
    if wish and wish.kind == "verify.asked" and (newest is None or moment(wish) > newest.started):
        return Asked("verify", wish.at)
    if newest is None:
        return Asked()
    return Asked(newest.intent.value, newest.started, newest.image, newest.step, newest.result)
