"""The one local account of nodes: for the day the directory is down. Its hash is sealed until a node is deployed."""

from headnode import run, vault
from headnode.errors import InvalidInput
from headnode.workflows import people
from headnode.workflows.context import Context

SECRET = "access/admin"  # noqa: S105 - the name of a secret, not one


def set_password(context: Context, password: str) -> None:
    name = context.site.access.admin_user
    if name is None:
        raise InvalidInput("access.admin_user in site.yaml names no such account",
                           hint="add one, such as 'access: {admin_user: rescue}'")  # fmt: skip
    people.judge_password(password)
    sealed = vault.seal(hashed(password), context.paths.secret_key)
    with context.inventory.change(context.actor, context.cause) as change:
        change.set_secret(SECRET, sealed)
        change.record("user.passwd", f"set the password of nodes' local account {name}")


def hashed(password: str) -> str:
    """As /etc/shadow of every distribution knows it; the password goes in through standard input."""
    return run.run(["openssl", "passwd", "-6", "-stdin"], input=f"{password}\n").stdout.strip()


def admin_hash(context: Context) -> str:
    """Empty when none was set: then the account has no password, only keys."""
    sealed = context.inventory.secret(SECRET)
    return vault.unseal(sealed, context.paths.secret_key) if sealed and context.site.access.admin_user else ""
