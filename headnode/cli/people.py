"""headnode user: add, list, show, set, lock, unlock, passwd, remove, import, audit."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headnode.cli.common import (
    confirm,
    context,
    dry_run_option,
    emit,
    note,
    output_option,
    to_table,
    yes_option,
)
from headnode.cli.peoplemore import audit, given_password, import_, passwd, reader, with_password
from headnode.errors import InvalidInput, counted, shown

if TYPE_CHECKING:
    from headnode.directory.entries import Person

COLUMNS = ["name", "uid", "full_name", "groups", "locked"]
WIDE = ["email", "ssh_keys", "shell", "home"]


def document(person: "Person") -> dict[str, Any]:
    return {
        "name": person.name,
        "uid": person.number,
        "gid": person.gid,
        "full_name": person.full_name,
        "email": person.email or None,
        "groups": list(person.groups),
        "locked": person.locked,
        "shell": person.shell,
        "home": person.home,
        "ssh_keys": list(person.ssh_keys),
    }


@click.group()
def user() -> None:
    """Add, change, lock, import and audit people.

    People are added once and are the same on every node: name, UID, groups, home and SSH keys. A UID is given once and
    never to anybody else.

    \b
    Examples:
      headnode user add alice --name "Alice Doe" --ssh-key ~/alice.pub --groups vision
      headnode user import people.csv --dry-run
      headnode user lock alice
      headnode user audit
    """


for command in (passwd, import_, audit, reader):
    user.add_command(command)


def keys_from(given: tuple[str, ...]) -> tuple[str, ...]:
    """Each a key, or a file with keys in it."""
    found: list[str] = []
    for text in given:
        if " " in text.strip() or not text:
            found.append(text.strip())
            continue
        try:
            lines = Path(text).expanduser().read_text().splitlines()
        except (OSError, ValueError) as error:
            why = f" ({error.strerror})" if isinstance(error, OSError) else ""
            raise InvalidInput(
                f"--ssh-key is {shown(text)}, which is no file that can be read{why}; "
                "use a key in quotes, or the name of a .pub file"
            ) from None
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return tuple(dict.fromkeys(key for key in found if key))


def split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.replace(",", " ").split() if name))


@user.command()
@click.argument("name")
@click.option("--name", "full_name", default="", help="Full name.")
@click.option("--email", default="", help="E-mail address; only the site's own programs can read it.")
@click.option("--ssh-key", multiple=True, help="Public key in quotes, or a .pub file; may be given several times.")
@click.option("--uid", type=int, help="This number, instead of the next free one.")
@click.option("--groups", default="", help="Groups beside their own, with commas.")
@click.option("--shell", default="/bin/bash", show_default=True, help="Login shell.")
@with_password
@output_option()
@dry_run_option
@click.pass_context
def add(
    ctx: click.Context, name: str, full_name: str, email: str, ssh_key: tuple[str, ...], uid: int | None, groups: str,
    shell: str, password_file: Path | None, from_input: bool, output: str, dry_run: bool,
) -> None:  # fmt: skip
    """Add somebody.

    They can log in to every node that their groups are allowed on, at once. Without a password they log in with their
    SSH key only.

    \b
    Examples:
      headnode user add alice --name "Alice Doe" --email alice@example.org --ssh-key ~/alice.pub --groups vision
      headnode user add bob --name "Bob" --uid 20042 --password-file /root/bob.password
      headnode user add carol --dry-run -o json
    """
    from headnode.workflows import people, personfields

    at = context(ctx)
    wish = personfields.Wish(name, full_name, email, keys_from(ssh_key), split_names(groups), shell, uid)
    password = given_password(password_file, from_input)
    person = people.add(at, wish, password, rehearsal=dry_run)
    emit([document(person)], output, COLUMNS, WIDE)
    if dry_run:
        note("Dry run: nothing was changed." + ("" if uid else " The UID is the next that is free now."))
        return
    note(f"Added {person.name} with UID {person.number}.")
    if former := people.former_number(at, person):
        note(
            f"Somebody called {name} had UID {former} before, and still owns files. Was it the same person? Then remove"
        )
        note(f"{name} and add them with --uid {former}.")


@user.command("list")
@output_option()
@click.pass_context
def list_(ctx: click.Context, output: str) -> None:
    """List everybody.

    \b
    Examples:
      headnode user list
      headnode user list -o csv
    """
    from headnode.workflows import people

    with people.directory(context(ctx)) as found:
        rows = [document(person) for person in sorted(found.people(), key=lambda person: person.number)]
    if not rows and output in ("table", "wide"):
        note("Nobody yet: 'headnode user add --help' says how to add people.")
        return
    emit(rows, output, COLUMNS, WIDE)


@user.command()
@click.argument("name")
@output_option(default="yaml")
@click.pass_context
def show(ctx: click.Context, name: str, output: str) -> None:
    """Show everything about somebody, found by login name or by UID.

    \b
    Examples:
      headnode user show alice
      headnode user show 20001 -o json
    """
    from headnode.errors import NotFound
    from headnode.workflows import people

    with people.directory(context(ctx)) as found:
        numeric = name.isascii() and name.isdigit()
        person = found.holder(int(name)) if numeric else found.person(name)
    if person is None:
        raise NotFound(f"nobody has the UID {name}", hint="'headnode user list' lists all")
    emit([document(person)], output, COLUMNS, WIDE)


@user.command("set")
@click.argument("name")
@click.option("--name", "full_name", help="Full name.")
@click.option("--email", help="E-mail address; empty takes it away.")
@click.option("--ssh-key", multiple=True, help="These keys instead of all others; empty takes all away.")
@click.option("--groups", help="Exactly these groups, with commas; empty takes all away.")
@click.option("--shell", help="Login shell.")
@dry_run_option
@yes_option
@click.pass_context
def set_(ctx: click.Context, /, name: str, ssh_key: tuple[str, ...], groups: str | None, dry_run: bool, yes: bool,
         **texts: str | None) -> None:  # fmt: skip
    """Change somebody.

    Shows what changes, field by field, and asks. Name and UID never change: both are on people's files.

    \b
    Examples:
      headnode user set alice --email alice@new.example.org
      headnode user set alice --groups vision,admin --yes
      headnode user set alice --ssh-key ~/new.pub --ssh-key ~/laptop.pub --dry-run
    """
    from headnode.workflows import people

    at = context(ctx)
    changes: dict[str, Any] = {key: value for key, value in texts.items() if value is not None}
    if ssh_key:
        changes["ssh_keys"] = keys_from(ssh_key)
    if groups is not None:
        changes["groups"] = tuple(sorted(split_names(groups)))
    if not changes:
        raise InvalidInput("say what to change: --name, --email, --ssh-key, --groups or --shell")
    before, after = people.change(at, name, changes, rehearsal=True)
    rows = [
        {"field": key, "now": getattr(before, key), "then": getattr(after, key)}
        for key in changes
        if getattr(before, key) != getattr(after, key)
    ]
    if not rows:
        note("Nothing to do: it is so already.")
        return
    click.echo(to_table(rows, ["field", "now", "then"]), nl=False)
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    confirm(f"Change {name}?", yes)
    people.change(at, name, changes)
    note(f"Changed {name}.")


@user.command()
@click.argument("name")
@dry_run_option
@click.pass_context
def lock(ctx: click.Context, name: str, dry_run: bool) -> None:
    """Refuse somebody every new login, by key and by password.

    Sessions that are open on nodes stay open; files and UID stay theirs. At the
    pages and the API their logins end, and their tokens are void.

    \b
    Examples:
      headnode user lock alice
    """
    lock_or_unlock(ctx, name, True, dry_run)


@user.command()
@click.argument("name")
@dry_run_option
@click.pass_context
def unlock(ctx: click.Context, name: str, dry_run: bool) -> None:
    """Let somebody who was locked log in again.

    \b
    Examples:
      headnode user unlock alice
    """
    lock_or_unlock(ctx, name, False, dry_run)


def lock_or_unlock(ctx: click.Context, name: str, locked: bool, dry_run: bool) -> None:
    from headnode.workflows import people

    at, verb = context(ctx), "Locked" if locked else "Unlocked"
    if dry_run:
        with people.directory(at, writing=True) as found:
            so = found.person(name).locked is locked
        note(f"Dry run: {name} {'is so already' if so else f'would be {verb.lower()}'}; nothing was changed.")
        return
    note(f"{verb} {name}." if people.set_locked(at, name, locked) else f"Nothing to do: {name} is so already.")


@user.command()
@click.argument("name")
@dry_run_option
@yes_option
@click.pass_context
def remove(ctx: click.Context, name: str, dry_run: bool, yes: bool) -> None:
    """Take somebody out of the directory.

    Their UID is never given to anybody else, and their files stay where they are: this says which.

    \b
    Examples:
      headnode user remove alice --dry-run
      headnode user remove alice --yes
    """
    from headnode import homes
    from headnode.workflows import people

    at = context(ctx)
    with people.directory(at, writing=True) as found:
        person = found.person(name)
    home = homes.home_directory(at.site, at.paths, name)
    note(f"{name} ({person.full_name}) has UID {person.number}, which stays theirs for ever.")
    note(remains(home, person.home))
    if dry_run:
        note("Dry run: nothing was changed.")
        return
    confirm(f"Remove {name}?", yes)
    people.remove(at, name)
    note(f"Removed {name}.")


def remains(home: Path | None, on_nodes: str) -> str:
    if home is None:
        return f"Files below {on_nodes} are on another server and stay there."
    if not home.exists():
        return f"There is no home directory {home}."
    files = sum(1 for path in home.rglob("*") if not path.is_dir() or path.is_symlink())
    return f"{counted(files, 'file')} stay in {home}."
