"""Run mmdebstrap: a root file system as a stream, with its log kept, and nothing left running or mounted."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headnode import run
from headnode.errors import HeadnodeError
from images.recipes import Recipe, mmdebstrap_argv, public_sources
from images.sources import Source, for_suite, parse_sources, proxy_options, to_text, with_components
from images.stages import Progress, Reader, reached

APT = Path("/etc/apt")
LOOK_EVERY = 0.3


def host_sources(apt: Path = APT) -> list[Source]:
    """What this machine's apt uses; a file that cannot be read is not ours to judge."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*.list"))]
    files += sorted((apt / "sources.list.d").glob("*.sources"))
    texts = [file.read_text(errors="replace") for file in files if file.is_file()]
    return [source for text in texts for source in parse_sources(text)]


def sources_for(recipe: Recipe, apt: Path = APT) -> list[Source]:
    if recipe.sources:
        return list(recipe.sources)
    found = for_suite(host_sources(apt), recipe.suite) or list(public_sources(recipe.os, recipe.suite))
    return [*with_components(found, recipe.components), *recipe.archives]


@contextmanager
def root_file_system(
    recipe: Recipe, scratch: Path, log: Path, epoch: int, *, proxy: str | None, progress: Progress
) -> Iterator[IO[bytes]]:
    """The tar of a fresh root file system; leaving the block without an exception means that mmdebstrap was content."""
    if os.geteuid() != 0:
        raise HeadnodeError("building a root file system needs root", hint="use sudo")
    dump = run.run(["apt-config", "dump"]).stdout
    sources = scratch / "build.sources"
    sources.write_text(to_text(sources_for(recipe)))
    argv = mmdebstrap_argv(recipe, proxy_options(dump, proxy))
    env = {"SOURCE_DATE_EPOCH": str(epoch), "TMPDIR": str(scratch), "DEBIAN_FRONTEND": "noninteractive"}
    if not recipe.with_initrd:
        # The kernel package's own hook asks for this; the ramdisk is an initrd itself.
        env["INITRD"] = "No"
    with (
        sources.open("rb") as given,
        log.open("ab") as said,
        following(log, progress),
        run.contained(argv, stdin=given, stdout=run.PIPE, stderr=said, env=env) as process,
    ):
        assert process.stdout is not None  # noqa: S101 - for the type checker
        try:
            yield process.stdout
        except HeadnodeError as error:
            # A stream that breaks off has its reason in mmdebstrap's own words.
            drain(process.stdout)
            raise failed(log) if process.wait() else error from None
        drain(process.stdout)
        if process.wait() != 0:
            raise failed(log)


@contextmanager
def following(log: Path, progress: Progress) -> Iterator[None]:
    """Tell of the stages as they are reached, from what is written to the log from now on."""
    ended, stages = threading.Event(), Reader()
    with log.open(errors="replace") as lines:
        lines.seek(0, os.SEEK_END)

        def follow() -> None:
            unfinished = ""
            while not ended.wait(LOOK_EVERY):
                for piece in lines:
                    unfinished += piece
                    if piece.endswith("\n"):
                        if words := stages.read(unfinished):
                            progress(words)
                        unfinished = ""
                reached(progress, stages.share)

        thread = threading.Thread(target=follow, name="build-log", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def drain(stream: IO[bytes]) -> None:
    """A tar may be followed by padding; whoever writes it must not meet a closed pipe."""
    while stream.read(1 << 20):
        pass


def failed(log: Path) -> HeadnodeError:
    said = log.read_text(errors="replace")
    hint = f"its log is {log}"
    if "NO_PUBKEY" in said or "is not signed" in said:
        hint = f"install 'debian-archive-keyring' or 'ubuntu-keyring', whichever is the archive's; {hint}"
    return HeadnodeError(f"mmdebstrap failed: {last_words(said)}", hint=hint)


def last_words(log: str, most: int = 3) -> str:
    """The lines that say why, as far as mmdebstrap and apt mark them."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("E:", "dpkg: error", "mmdebstrap:"))]
    # That apt failed is only the consequence; what apt itself said comes before.
    reasons = [line for line in marked if "failed" not in line.lower() or "Failed to fetch" in line] or marked or lines
    return " / ".join(reasons[:most]) or "it said nothing"
