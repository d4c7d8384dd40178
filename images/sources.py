"""Where packages come from: this machine's own apt configuration, so that builds work behind its mirrors. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<components>[^#]*)")
PROXY = re.compile(r'^(Acquire::https?::Proxy(?:::[^ ]+)?) "([^"]*)";$')


@dataclass(frozen=True)
class Source:
    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    # Only for what was proven by other means, such as the digests of a mirror that was carried here.
    trusted: bool = False


def parse_sources(text: str) -> list[Source]:
    """A .list or .sources file; what is disabled, or holds only source packages, is left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if any(re.match(r"(?i)(types|uris|suites)\s*:", line) for line in lines):
        return [source for block in re.split(r"\n\s*\n", text) if (source := parse_block(block))]
    return [source for line in lines if (source := parse_line(line))]


def parse_line(line: str) -> Source | None:
    found = ONE_LINE.match(line.strip())
    if not found:
        return None
    options = dict(word.split("=", 1) for word in (found["options"] or "").split() if "=" in word)
    return Source((found["uri"],), (found["suite"],), tuple(found["components"].split()), options.get("signed-by", ""))


def parse_block(block: str) -> Source | None:
    fields: dict[str, list[str]] = {}
    key = ""
    for line in block.splitlines():
        if line.startswith("#"):
            continue
        if line[:1] in (" ", "\t"):
            fields.setdefault(key, []).append(line.strip())
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = [value.strip()]
    words = {name: " ".join(value).split() for name, value in fields.items()}
    if "deb" not in words.get("types", []) or words.get("enabled") == ["no"] or not words.get("uris"):
        return None
    signed = words.get("signed-by", [])
    # A key written into the file itself cannot be passed on as a path.
    signed_by = signed[0] if len(signed) == 1 and signed[0].startswith("/") else ""
    suites, components = words.get("suites", []), words.get("components", [])
    return Source(tuple(words["uris"]), tuple(suites), tuple(components), signed_by)


def for_suite(sources: Iterable[Source], suite: str) -> list[Source]:
    """Those of one release, with its updates and security fixes."""
    wanted = (suite, f"{suite}-updates", f"{suite}-security")
    kept = [
        replace(source, suites=tuple(s for s in source.suites if s in wanted))
        for source in sources
        if any(s in wanted for s in source.suites)
    ]
    # Updates alone are no release.
    return kept if any(suite in source.suites for source in kept) else []


def with_components(sources: Iterable[Source], more: Iterable[str]) -> list[Source]:
    extra = tuple(more)
    return [replace(s, components=tuple(dict.fromkeys((*s.components, *extra)))) for s in sources]


def to_text(sources: Iterable[Source]) -> str:
    """As apt's deb822 format."""
    return "\n".join(
        "Types: deb\n"
        f"URIs: {' '.join(s.uris)}\nSuites: {' '.join(s.suites)}\nComponents: {' '.join(s.components)}\n"
        + (f"Signed-By: {s.signed_by}\n" if s.signed_by else "")
        + ("Trusted: yes\n" if s.trusted else "")
        for s in sources
    )


def version_pattern(release: str) -> str:
    """Every packaging of one release, as apt's preferences write it."""
    return f"/^([0-9]+:)?{re.escape(release)}-/"


def preferences(pins: Iterable[str]) -> str:
    """apt's preferences that hold packages ("name=release") at a release, and refuse every other one."""
    blocks = []
    for name, _, release in (pin.partition("=") for pin in pins):
        blocks.append(f"Package: {name}\nPin: version {version_pattern(release)}\nPin-Priority: 1001\n")
        blocks.append(f"Package: {name}\nPin: release *\nPin-Priority: -1\n")
    return "\n".join(blocks)


def proxy_options(dump: str, site_proxy: str | None) -> list[str]:
    """apt options for the proxy: the site's package cache, or what `apt-config dump` says of this machine."""
    if site_proxy:
        return [f'Acquire::http::Proxy "{site_proxy}";']
    found = (PROXY.match(line) for line in dump.splitlines())
    return [f'{match[1]} "{match[2]}";' for match in found if match and match[2]]
