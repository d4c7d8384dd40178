"""What does adding 10,000 people cost? Run by hand, as root: python -m bench.people [--people 10000]

Imports people from CSV with the command line, and beside it adds the same entries with OpenLDAP's own ldapadd to a
second directory of the same configuration. Prints the ratio, the memory, and what reading costs: all people, and one by
their number with the others there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headnode.directory.entries import PERSON_CLASSES, person_attributes
from headnode.directory.server import socket_url
from headnode.lab.lab import lab
from headnode.ldaptree import Tree
from headnode.workflows import people
from headnode.workflows.personfields import Wish
from tests.integration.people_site import SITE, PeopleSite, people_site

GROUPS = [f"team{number:02}" for number in range(20)]
LOOKUPS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    count, rounds = arguments.people, arguments.rounds
    wishes = [wish(number) for number in range(count)]
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        # Alternately, so that a busy moment of the machine does not fall on one of them only.
        ours, theirs, rss = [], [], 0
        for turn in range(rounds):
            with directory(place / f"ldapadd{turn}") as site:
                theirs.append(by_ldapadd(site, wishes, place / "people.ldif"))
            with directory(place / f"import{turn}") as site:
                seconds, rss = by_import(site, wishes, place / "people.csv")
                ours.append(seconds)
                if turn == rounds - 1:
                    reading(site, count)
    print(f"import of {count} from CSV: {min(ours):7.2f} s, {count / min(ours):.0f} a second, {rss / 1024:.0f} MB")
    print(f"ldapadd of the same LDIF:  {min(theirs):7.2f} s, {count / min(theirs):.0f} a second")
    print(f"ratio: {min(ours) / min(theirs):.2f} (aim: at most 1.5)")


def wish(number: int) -> Wish:
    key = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{number:043} user{number:05}@laptop"
    return Wish(f"user{number:05}", f"User Number {number}", f"user{number:05}@example.org", (key,),
                (GROUPS[number % len(GROUPS)],))  # fmt: skip


@contextmanager
def directory(root: Path) -> Iterator[PeopleSite]:
    """A fresh one, with the groups in it; homes are elsewhere."""
    root.mkdir()
    text = SITE.replace("head:/srv/home", "nas.demo.lan:/home")
    with lab(f"b{os.getpid():x}", logs=root) as running, people_site(running, root, text) as site:
        for group in GROUPS:
            people.add_group(site.context, group, None, "")
        yield site


def by_import(site: PeopleSite, wishes: list[Wish], file: Path) -> tuple[float, int]:
    """Seconds, and the most memory it had."""
    rows = [f"{w.name},{w.full_name},{w.email},{' '.join(w.groups)},{w.ssh_keys[0]}" for w in wishes]
    file.write_text("\n".join(["name,full_name,email,groups,ssh_keys", *rows]) + "\n")
    argv = [sys.executable, "-m", "headnode", "--root", str(site.root), "user", "import", str(file), "--yes"]
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return time.perf_counter() - began, used.ru_maxrss


def by_ldapadd(site: PeopleSite, wishes: list[Wish], file: Path) -> float:
    file.write_text(ldif(wishes, Tree.of(site.context.site)))
    argv = ["ldapadd", "-Q", "-Y", "EXTERNAL", "-H", socket_url(site.paths), "-f", str(file)]
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def ldif(wishes: list[Wish], tree: Tree) -> str:
    """The very entries that the import makes, and the same changes of the groups."""
    blocks: list[str] = []
    for number, found in enumerate(wishes):
        lines = [f"dn: {tree.person(found.name)}", "changetype: add"]
        lines += [f"objectClass: {name}" for name in PERSON_CLASSES]
        attributes = person_attributes(found.person(30_000 + number))
        lines += [f"{key}: {value}" for key, values in attributes.items() for value in values]
        blocks.append("\n".join(lines))
    for group in GROUPS:
        names = [found.name for found in wishes if group in found.groups]
        lines = [f"dn: {tree.group(group)}", "changetype: modify", "add: memberUid"]
        lines += [*(f"memberUid: {name}" for name in names), "-", "add: member"]
        blocks.append("\n".join([*lines, *(f"member: {tree.person(name)}" for name in names), "-"]))
    return "\n\n".join(blocks) + "\n"


def reading(site: PeopleSite, count: int) -> None:
    argv = [sys.executable, "-m", "headnode", "--root", str(site.root), "user", "list", "-o", "csv"]
    began = time.perf_counter()
    listed = subprocess.run(argv, check=True, capture_output=True).stdout.count(b"\n") - 1
    print(f"user list of {listed}: {time.perf_counter() - began:.2f} s")
    with people.directory(site.context) as found:
        numbers = [person.number for person in found.people()]
        began = time.perf_counter()
        for number in numbers[:LOOKUPS]:
            assert found.holder(number) is not None
        by_number = (time.perf_counter() - began) / LOOKUPS
        began = time.perf_counter()
        for _ in range(5):
            # The name as passwd has it has no index: the server looks at everybody.
            assert next(found.search(f"(gecos=User Number {count - 1})"), None) is not None
        by_looking = (time.perf_counter() - began) / 5
    print(f"one of them by UID: {by_number * 1000:.2f} ms, {by_number / by_looking:.3f} of a lookup without an index")


if __name__ == "__main__":
    main()
