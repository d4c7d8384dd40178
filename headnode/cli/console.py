"""headnode console."""

import re
import sys
import time
from typing import TYPE_CHECKING

import click

from headnode.cli.common import NodeSetType, context, note
from headnode.errors import HeadnodeError, InvalidInput, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headnode.model import Node
    from headnode.workflows.consoles import Follower, LineFinder
    from headnode.workflows.context import Context

LOOK_EVERY = 0.3


@click.command()
@click.argument("nodeset", type=NodeSetType())
@click.option("--share", is_flag=True, help="Type together with others who share it.")
@click.option("--watch", is_flag=True, help="Only watch; the keyboard stays free for others.")
@click.option("--replay", is_flag=True, help="Play the recording back.")
@click.option("--since", help="With --replay or --grep: from so long ago on, such as 2h; from its beginning otherwise.")
@click.option(
    "--speed",
    type=click.FloatRange(0.1, 10_000),
    default=1.0,
    show_default=True,
    help="With --replay: so many times as fast as it was.",
)
@click.option("--grep", "regex", metavar="REGEX", help="Print lines of the recordings that match.")
@click.option("--follow", is_flag=True, help="With --grep: wait for what the consoles say from now on.")
@click.pass_context
def console(
    ctx: click.Context,
    nodeset: str,
    share: bool,
    watch: bool,
    replay: bool,
    since: str | None,
    speed: float,
    regex: str | None,
    follow: bool,
) -> None:
    """Open, replay or search the consoles of nodes.

    Every console is recorded all the time; opening one shows what went before first. One person types and any number
    watch, unless those who type all say --share. At the beginning of a line, ~. leaves and ~? helps.

    \b
    Examples:
      headnode console gpu07
      headnode console gpu07 --watch
      headnode console gpu07 --replay --since 2h --speed 10
      headnode console gpu[01-16] --grep 'NVRM|Xid' --since 1d
      headnode console @all --grep 'Kernel panic' --follow
    """  # fmt: skip
    from headnode.workflows import choosing

    if follow and regex is None:
        raise InvalidInput("--follow goes with --grep REGEX", hint="'headnode console NODE --watch' shows all of it")
    if since is not None and not replay and regex is None:
        raise InvalidInput("--since goes with --replay or with --grep REGEX")
    if replay and regex is not None:
        raise InvalidInput("say either --replay or --grep")
    at = context(ctx)
    nodes = choosing.select(at, nodeset)
    if regex is not None:
        # Whoever follows wants what comes; what was before is there for the asking.
        search(at, nodes, compiled(regex), time.time() if follow and since is None else moment(since), follow)
        return
    if len(nodes) != 1:
        raise InvalidInput(f"a console is one node's, and {len(nodes)} were named", hint="--grep takes many")
    if replay:
        play(at, nodes[0], moment(since), speed)
    else:
        open_one(at, nodes[0], share=share, watch=watch)


def open_one(at: "Context", node: "Node", *, share: bool, watch: bool) -> None:
    from headnode import bmclink
    from headnode.cli.terminal import sit
    from headnode.workflows.context import who

    with bmclink.connected(at.paths) as connection:
        if connection is None:
            raise HeadnodeError(
                "headnode-bmc is not running, and it holds the consoles", hint="'headnode up' or systemd starts it"
            )
        sit(connection, node.name, who(), share=share, watch=watch)


def play(at: "Context", node: "Node", since: float, speed: float) -> None:
    from headnode.cli.terminal import write
    from headnode.workflows import consoles
    from ipmi.recording import read

    directory = at.paths.consoles / node.name
    if consoles.exists_since(directory) is None:
        raise HeadnodeError(f"nothing was recorded of {node.name}'s console yet", hint="headnode-bmc records it")
    for pause, record in consoles.pauses(read(directory, since), speed):
        time.sleep(pause)
        write(consoles.shown(record))
    write(b"\r\n" if sys.stdout.isatty() else b"")


def search(at: "Context", nodes: "Sequence[Node]", pattern: "re.Pattern[str]", since: float, follow: bool) -> None:
    from headnode.workflows.consoles import Follower, LineFinder

    wanted = [
        (node.name, Follower.since(at.paths.consoles / node.name, since), LineFinder(pattern))
        for node in nodes
    ]  # fmt: skip
    while True:
        hits = sorted(
            (stamp, name, text)
            for name, follower, finder in wanted
            for stamp, text in matches(follower, finder, last=not follow)
            if stamp >= since
        )
        for stamp, name, text in hits:
            click.echo(f"{time.strftime('%FT%TZ', time.gmtime(stamp))} {name}: {text}")
        if not follow:
            if not hits:
                note(f"Nothing like that was recorded of {counted(len(nodes), 'node')}.")
            return
        sys.stdout.flush()
        time.sleep(LOOK_EVERY)


def matches(follower: "Follower", finder: "LineFinder", *, last: bool) -> "Iterator[tuple[float, str]]":
    for record in follower.new():
        yield from finder.feed(record)
    if last:
        yield from finder.last()


def moment(since: str | None) -> float:
    from headnode.workflows.discovery import parse_duration

    return 0.0 if since is None else time.time() - parse_duration(since, "since").total_seconds()


def compiled(regex: str) -> "re.Pattern[str]":
    try:
        return re.compile(regex)
    except re.error as error:
        raise InvalidInput(f"'{regex}' is not a regular expression: {error}") from None
