"""Publish: bring the live tree in line with the site and the inventory, doing work only for what changed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from headnode import control
from headnode.errors import HeadnodeError, PublishFailed, counted
from headnode.model import File, Node, Producer, State
from headnode.publish import (
    Reload,
    Workplace,
    differing,
    everything_in,
    parents,
    prune,
    publish,
    publishers_lock,
    recover,
    refuse_blocked,
    stage,
)
from headnode.workflows.context import Context
from headnode.workflows.fit import refuse_misfits
from headnode.workflows.hostkeys import authority_line

if TYPE_CHECKING:
    from images.overlay import OverlayFile


# Nothing that is published for a program to read is longer.
LONGEST_TEXT = 1_000_000


@dataclass(frozen=True)
class Outcome:
    nodes: int = 0
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    @property
    def changed(self) -> bool:
        return bool(self.written or self.removed)


@dataclass(frozen=True)
class Wanted:
    """What should be live for the nodes at hand, and what is no longer."""

    revision: int
    nodes: int
    files: dict[str, File]
    owners: dict[str, int]
    known: dict[str, int]
    # What was found in the live tree, when somebody asked for all of it to be compared, and what of it leads to a
    # directory.
    found: Mapping[str, bool] = field(default_factory=dict)

    @property
    def gone(self) -> list[str]:
        return [path for path in self.known if path not in self.files] + self.strangers

    @property
    def strangers(self) -> list[str]:
        """What is live and was published by nobody whom the database remembers: it was lost, or is another one.

        Directories that our files are in may be links, somebody's own arrangement: those stay.
        """
        ours, above = {*self.known, *self.files}, parents(self.files)
        return [path for path, leads in self.found.items() if path not in ours and not (leads and path in above)]

    @property
    def new_owners(self) -> dict[str, int]:
        return {path: owner for path, owner in self.owners.items() if self.known.get(path) != owner}


def producers(context: Context) -> list[Producer]:
    from headnode.clock import Clock
    from headnode.directory.server import Slapd
    from headnode.exports import Exports
    from headnode.packagecache import PackageCache
    from headnode.workflows.discovery import open_window
    from images.knownhosts import KnownHosts
    from pxe.boot import BootScripts
    from pxe.dnsmasq import Dnsmasq
    from pxe.nginx import Nginx

    window = open_window(context)
    places, known_hosts = context.paths, KnownHosts(authority_line(context))
    return [BootScripts(window), Dnsmasq(places, window), Nginx(places), known_hosts, Slapd(places), Clock(places),
            Exports(places), PackageCache(places)]  # fmt: skip


def publish_changes(context: Context, *, full: bool = False, reload: Reload | None = None) -> Outcome:
    """Publish every node changed since last time, or everything when the site or a template changed.

    Only when a person asks for all of it does what nobody published go: a head node whose database was lost goes on
    serving its nodes until somebody has looked.
    """
    place = Workplace(context.paths.published)
    reload = reload or partial(control.reload, context.paths)
    _ = context.site  # before anything is made on a machine where nothing was set up
    with publishers_lock(place):
        # Whoever held the lock before us may have published a newer site than the one we read.
        context.refresh()
        recovered = recover(place, reload)
        authority_line(context, make=True)
        digest = context.site_digest
        wanted = due(context, full=full, everything=recovered or inputs_changed(context, digest))
        write = differing(place.live, wanted.files)
        gone = wanted.gone
        warnings: list[str] = []
        refuse_blocked(place.live, write, gone)
        claim(context, wanted)
        if write or gone or recovered:
            warnings = publish(place, write, gone, lambda staged: check(context, staged, write), reload)
        if full:
            prune(place.live)
        remember(context, wanted, digest, write, gone)
    return Outcome(wanted.nodes, tuple(write), tuple(gone), tuple(warnings))


def inputs_changed(context: Context, digest: str) -> bool:
    return digest != context.inventory.fact("published_inputs")


def due(context: Context, *, full: bool, everything: bool) -> Wanted:
    # Looked at first: what another publisher puts there meanwhile, the database knows by the time it is asked.
    found = everything_in(context.paths.published) if full else {}
    return replace(render(context, everything=full or everything), found=found)


def render(context: Context, *, everything: bool) -> Wanted:
    """Render the changed nodes, or all of them and the site's own files."""
    published_revision = int(context.inventory.fact("published_revision", "0"))
    revision, nodes = context.inventory.changed_since(-1 if everything else published_revision)
    refuse_misfits(context.site, nodes)
    files: dict[str, File] = {}
    owners: dict[str, int] = {}
    for producer in producers(context):
        for owner, made in rendered_by(producer, context, nodes):
            files.update(made)
            owners.update(dict.fromkeys(made, owner))
    known = context.inventory.published_files(None if everything else [0, *(node.id for node in nodes)])
    return Wanted(revision, len(nodes), files, owners, known)


def rendered_by(producer: Producer, context: Context, nodes: Iterable[Node]) -> Iterable[tuple[int, dict[str, File]]]:
    """Files by their owner. The site's own few are always made: a discovery window changes them too."""
    yield 0, dict(producer.site_files(context.site))
    for node in nodes:
        if node.state is not State.RETIRED:
            yield node.id, dict(producer.node_files(context.site, node))


def check(context: Context, staged: Path, changed: Collection[str]) -> list[str]:
    return [
        warning
        for producer in producers(context)
        for warning in producer.check(staged, context.paths.published, changed)
    ]


def claim(context: Context, wanted: Wanted) -> None:
    """Write down whose the files are before they are live: a crash must leave no file that nobody would remove."""
    if not (owners := wanted.new_owners):
        return
    try:
        with context.inventory.change(context.actor, context.cause) as change:
            change.remember_published(owners, [])
    except HeadnodeError as error:
        raise PublishFailed(
            f"{error.message}; what was live before still is",
            hint="free some space, or put the database right, and run 'headnode publish' again",
        ) from error


def remember(context: Context, wanted: Wanted, digest: str, write: Collection[str], gone: Collection[str]) -> None:
    """Last of all: had we died before this, the next publish would simply find the same nodes changed."""
    if not (gone or write) and not inputs_changed(context, digest) and wanted.nodes == 0:
        return
    with context.inventory.change(context.actor, context.cause) as change:
        change.remember_published({}, [path for path in gone if path in wanted.known])
        change.set_fact("published_revision", str(wanted.revision))
        change.set_fact("published_inputs", digest)
        if write or gone:
            message = (
                f"published {counted(len(write), 'file')}, removed {len(gone)}, for {counted(wanted.nodes, 'node')}"
            )
            change.record("publish", message, data={"written": len(write), "removed": len(gone)})


@dataclass(frozen=True)
class FileChange:
    """What a publish would do to one file; None where there is none."""

    path: str
    now: bytes | None
    then: bytes | None
    # Nobody published it, so that only a full publish removes it.
    stranger: bool = False


def preview(context: Context) -> list[FileChange]:
    """What a full publish would change."""
    return compared(context, due(context, full=True, everything=True))


def rehearse(context: Context, *, full: bool) -> tuple[list[FileChange], list[str]]:
    """What a publish would change, and what the programs that would read it say: all but the swap."""
    place = Workplace(context.paths.published)
    unfinished = place.journal.exists()
    wanted = due(context, full=full, everything=unfinished or inputs_changed(context, context.site_digest))
    write = differing(place.live, wanted.files)
    refuse_blocked(place.live, write, wanted.gone)
    with TemporaryDirectory() as scratch:
        elsewhere = Workplace(Path(scratch) / place.live.name)
        stage(elsewhere, write)
        warnings = check(context, elsewhere.new, write)
    return compared(context, wanted), warnings


def compared(context: Context, wanted: Wanted) -> list[FileChange]:
    live, strangers = context.paths.published, set(wanted.strangers)
    written = sorted(differing(live, wanted.files).items())
    gone = [FileChange(path, current(live / path), None, path in strangers) for path in sorted(wanted.gone)]
    return [
        *(FileChange(path, current(live / path), file.content) for path, file in written),
        *(change for change in gone if change.now is not None),
    ]


def current(path: Path) -> bytes | None:
    """What is there. A link is not followed, and only a file is read: nobody may wait for, or see, anything else."""
    try:
        if path.is_symlink():
            return f"a link to {path.readlink()}\n".encode(errors="surrogateescape")
        return text_of(path) if path.is_file() or not path.exists() else b"neither a file nor a link\n"
    except OSError:
        return None


def text_of(path: Path) -> bytes:
    """A file's content, unless it can be none of ours: anybody may have put anything there, of any size."""
    with path.open("rb") as file:
        content = file.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT or b"\0" in content:
        return f"binary, {path.stat().st_size} bytes\n".encode()
    return content


def render_node(context: Context, node: Node) -> dict[str, File]:
    return {
        path: file for producer in producers(context) for path, file in producer.node_files(context.site, node).items()
    }


def render_file(context: Context, path: str) -> File | None:
    """One file by its path below the published tree, as a publish would write it."""
    return render(context, everything=True).files.get(path)


def render_overlay(context: Context, node: Node) -> "dict[str, OverlayFile]":
    """The files that make a generic system this node, without its secrets: those are only for the node itself."""
    from headnode.workflows import gpu
    from headnode.workflows.planning import registry_authorities
    from images.overlay import Secrets, overlay

    certificate = context.paths.ca / "ca.crt"
    secrets = Secrets(
        ca_certificate=certificate.read_bytes().decode() if certificate.exists() else "",
        ssh_authority=authority_line(context),
        registries=registry_authorities(context),
    )
    return overlay(context.site, node, gpu.settings_of(context, node), secrets, gpu.stack_of(context, node))
