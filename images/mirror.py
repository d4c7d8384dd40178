"""A package archive that can be carried: what recipes need and nothing else, as a repository that apt understands."""

import gzip
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headnode import run
from headnode.errors import HeadnodeError, NotFound
from headnode.files import sha256_of
from headnode.paths import Paths
from headnode.site import Site
from images.bootstrap import sources_for
from images.recipes import Recipe
from images.sources import Source, preferences, proxy_options, to_text
from images.stages import Progress

COMPONENT = "main"
# What mmdebstrap takes beside the packages that are named, by its variants.
ALWAYS = {
    "essential": ("?essential",),
    "apt": ("?essential", "apt"),
    "minbase": ("?essential", "?priority(required)", "apt"),
}
DOWNLOAD_HOURS = 6


@dataclass(frozen=True)
class Need:
    """One thing to be built from the mirror: a profile's image, or the ramdisk."""

    name: str
    recipe: Recipe


def repository_source(place: str, recipe: Recipe) -> Source:
    """How apt is told of it. Its packages were proven by their digests when it was brought in."""
    return Source((f"{place}/{recipe.os}",), (recipe.suite,), (COMPONENT,), trusted=True)


def wanted(recipe: Recipe) -> list[str]:
    return [*ALWAYS[recipe.variant], *recipe.packages, recipe.kernel]


def collect(needs: Sequence[Need], place: Path, *, proxy: str | None, progress: Progress) -> Path:
    """Fetch everything into `place`/tree, as a repository; apt checks the distributions' signatures on the way."""
    dump = run.run(["apt-config", "dump"]).stdout
    tree = place / "tree"
    for number, need in enumerate(needs):
        progress(f"fetching the packages of {need.name}")
        apt = Apt.prepared(place / f"apt{number}", need.recipe, sources_for(need.recipe), proxy_options(dump, proxy))
        apt.get("update")
        apt.get("install", "--download-only", "--yes", "--no-install-recommends", *wanted(need.recipe))
        pool = tree / need.recipe.os / "pool" / need.recipe.suite
        pool.mkdir(parents=True, exist_ok=True)
        for package in apt.archives.glob("*.deb"):
            package.replace(pool / package.name)
        shutil.rmtree(apt.root)
    for distribution, suite, architecture in sorted({key_of(need) for need in needs}):
        progress(f"indexing {distribution} {suite}")
        index(tree / distribution, suite, architecture)
    return tree


def key_of(need: Need) -> tuple[str, str, str]:
    return need.recipe.os, need.recipe.suite, need.recipe.architecture


def index(repository: Path, suite: str, architecture: str) -> None:
    """Packages and Release, as apt-ftparchive writes them."""
    listed = run.run(["apt-ftparchive", "packages", f"pool/{suite}"], cwd=repository, timeout=3600).stdout
    place = repository / "dists" / suite / COMPONENT / f"binary-{architecture}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "Packages").write_text(listed)
    with gzip.GzipFile(place / "Packages.gz", "wb", mtime=0) as packed:
        packed.write(listed.encode())
    given = {"Codename": suite, "Suite": suite, "Components": COMPONENT, "Architectures": architecture,
             "Origin": "Headnode", "Label": "Headnode mirror"}  # fmt: skip
    options = [word for key, value in given.items() for word in ("-o", f"APT::FTPArchive::Release::{key}={value}")]
    release = run.run(["apt-ftparchive", *options, "release", f"dists/{suite}"], cwd=repository).stdout
    (repository / "dists" / suite / "Release").write_text(release)


def prove(needs: Sequence[Need], tree: Path, place: Path, progress: Progress) -> None:
    """Every recipe can be satisfied from the repository alone: apt plans each build, with no other source."""
    for number, need in enumerate(needs):
        progress(f"trying the packages of {need.name} with no other source")
        source = repository_source(f"copy://{tree}", need.recipe)
        apt = Apt.prepared(place / f"proof{number}", need.recipe, [source], [])
        apt.get("update")
        done = apt.get("install", "--simulate", "--yes", "--no-install-recommends", *wanted(need.recipe), check=False)
        if done.returncode != 0:
            lines = [" ".join(line.split()) for line in (done.stdout + "\n" + done.stderr).splitlines()]
            said = [line for line in lines if line.startswith("E:") or "Depends:" in line]
            raise HeadnodeError(
                f"the mirror is not enough for {need.name}: {'; '.join(said[:4])}",
                hint="export it again from a site with the same profiles",
            )


@dataclass(frozen=True)
class Apt:
    """An apt of its own: nothing of this machine's packages, lists, sources or settings is in it."""

    root: Path
    config: Path

    @classmethod
    def prepared(cls, root: Path, recipe: Recipe, sources: Sequence[Source], options: Sequence[str]) -> "Apt":
        for directory in ("lists/partial", "cache/archives/partial", "preferences.d", "sources.list.d", "dpkg"):
            (root / directory).mkdir(parents=True)
        (root / "dpkg/status").touch()
        (root / "sources.list.d/build.sources").write_text(to_text(sources))
        if recipe.pins:
            (root / "preferences.d/headnode").write_text(preferences(recipe.pins))
        settings = {
            "APT::Architecture": recipe.architecture, "Dir::State": root, "Dir::State::Lists": root / "lists",
            "Dir::State::status": root / "dpkg/status", "Dir::Cache": root / "cache",
            "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": root / "sources.list.d",
            "Dir::Etc::parts": "/dev/null", "Dir::Etc::main": "/dev/null",
            "Dir::Etc::preferencesparts": root / "preferences.d", "Dir::Etc::preferences": "/dev/null",
            "APT::Sandbox::User": "root", "Acquire::Languages": "none", "APT::Get::List-Cleanup": "false",
        }  # fmt: skip
        lines = [f'{key} "{value}";' for key, value in settings.items()]
        lines.append(f'APT::Architectures {{ "{recipe.architecture}"; }};')
        config = root / "apt.conf"
        config.write_text("\n".join([*lines, *options]) + "\n")
        return cls(root, config)

    @property
    def archives(self) -> Path:
        return self.root / "cache/archives"

    def get(self, *words: str, check: bool = True) -> run.Completed:
        env = {"APT_CONFIG": str(self.config), "DEBIAN_FRONTEND": "noninteractive"}
        return run.run(["apt-get", "--quiet", *words], env=env, timeout=DOWNLOAD_HOURS * 3600, check=check)


def files_of(tree: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(tree.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(tree)), path


def differing(tree: Path, digests: Mapping[str, str]) -> list[str]:
    """Files that are not as they were, that are missing, and that nobody mentioned."""
    found = {name: sha256_of(path) for name, path in files_of(tree)}
    return sorted(name for name in {*found, *digests} if found.get(name) != digests.get(name))


def make_live(tree: Path, place: Path, name: str) -> None:
    """From one moment to the next; who reads the old one goes on reading it."""
    place.mkdir(parents=True, exist_ok=True)
    target = place / name
    if not target.exists():
        tree.rename(target)
    draft = place / f".current.{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(name)
    before = (place / "current").readlink().name if (place / "current").is_symlink() else name
    draft.replace(place / "current")
    for old in place.iterdir():
        if old.is_dir() and not old.is_symlink() and old.name not in (name, before):
            shutil.rmtree(old)


def from_mirror(site: Site, paths: Paths, recipe: Recipe) -> Recipe:
    """The same recipe, from what was imported, when the site says so."""
    if site.packages.mirror != "head":
        return recipe
    live = paths.mirror / "current"
    if not (live / recipe.os / "dists" / recipe.suite).is_dir():
        raise NotFound(
            f"packages.mirror is 'head', and no mirror of {recipe.os} {recipe.suite} was imported",
            hint="'headnode mirror export' where there is Internet, 'headnode mirror import' here",
        )
    source = repository_source(f"copy://{live.resolve()}", recipe)
    return replace(recipe, sources=(source,), archives=(), components=())
