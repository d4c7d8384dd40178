"""A private apt: its own lists, sources made from this machine's, and nothing of the machine changed."""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

from images.bootstrap import host_sources
from images.recipes import public_sources
from images.sources import Source, for_suite, to_text, with_components


@dataclass(frozen=True)
class Apt:
    root: Path

    @classmethod
    def of(cls, root: Path, sources: list[Source], *, trusted: bool = False, preferences: str = "") -> "Apt":
        for name in ("lists/partial", "cache/archives/partial", "sources", "preferences"):
            (root / name).mkdir(parents=True, exist_ok=True)
        text = to_text(sources)
        (root / "sources/test.sources").write_text(text.replace("Types: deb\n", "Types: deb\nTrusted: yes\n")
                                                   if trusted else text)  # fmt: skip
        (root / "preferences/test").write_text(preferences)
        (root / "status").touch()
        made = cls(root)
        made.run("apt-get", "update")
        return made

    def run(self, program: str, *args: str, cwd: Path | None = None) -> str:
        options = {
            "Dir::Etc::SourceList": "/dev/null", "Dir::Etc::SourceParts": self.root / "sources",
            "Dir::Etc::PreferencesParts": self.root / "preferences", "Dir::Etc::Preferences": "/dev/null",
            "Dir::State::Lists": self.root / "lists", "Dir::Cache": self.root / "cache",
            "Dir::State::status": self.root / "status", "Acquire::Languages": "none", "APT::Sandbox::User": "root",
        }  # fmt: skip
        argv = [program, *(word for key, value in options.items() for word in ("-o", f"{key}={value}")), *args]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=cwd)
        assert done.returncode == 0, f"{argv}: {done.stderr}"
        return done.stdout


def debian(root: Path, *components: str, suite: str = "bookworm") -> Apt:
    """Debian's archive as this machine reaches it, with more components than it uses itself."""
    found = for_suite(host_sources(), suite) or list(public_sources("debian", suite))
    return Apt.of(root, with_components(found, components))


def installer(root: Path, suite: str = "bookworm") -> Apt:
    """The installer's own components of Debian's archive, and nothing else."""
    found = for_suite(host_sources(), suite) or list(public_sources("debian", suite))
    only = [replace(source, suites=(suite,), components=("main/debian-installer",)) for source in found
            if suite in source.suites]  # fmt: skip
    return Apt.of(root, only)
