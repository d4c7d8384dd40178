"""Accounts, sessions, tokens and the audit log."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from headnode.accounts import Account, ApiToken, Entry, Invitation, Reply, Role
from headnode.errors import Taken
from headnode.inventory.changes import digest, new_token
from headnode.inventory.door_tables import accounts, api_tokens, audit, invitations, replies, sessions
from headnode.inventory.engine import Store


class Accounts(Store):
    # Accounts

    def all(self) -> list[Account]:
        with self._reading() as connection:
            return [account_of(row) for row in connection.execute(select(accounts).order_by(accounts.c.name))]

    def find(self, name: str) -> Account | None:
        with self._reading() as connection:
            row = connection.execute(select(accounts).where(accounts.c.name == name)).first()
        return account_of(row) if row else None

    def admins(self) -> int:
        """How many could let others in."""
        able = (accounts.c.role == Role.ADMIN.value) & accounts.c.disabled.is_(None)
        with self._reading() as connection:
            return int(connection.execute(select(func.count()).select_from(accounts).where(able)).scalar_one())

    def add(self, name: str, role: Role, password: str | None) -> Account:
        with self._writing() as connection:
            add_account(connection, name, role, password)
        found = self.find(name)
        assert found is not None  # noqa: S101 - for the type checker
        return found

    def change(self, account: Account, **values: Any) -> None:
        """Change fields of an account; whoever has lost a right also loses what was open with it."""
        with self._writing() as connection:
            connection.execute(update(accounts).where(accounts.c.id == account.id).values(**values))
            if {"role", "disabled", "password"} & set(values):
                connection.execute(delete(sessions).where(sessions.c.account_id == account.id))

    def turn_out(self, name: str) -> None:
        """End sessions and tokens of somebody who is here through the directory, which no longer has them.

        For good: another person of that name must not find them. An account with a password of its own stays as it is.
        """
        theirs = select(accounts.c.id).where(accounts.c.name == name, accounts.c.password.is_(None))
        with self._writing() as connection:
            for table in (sessions, api_tokens):
                connection.execute(delete(table).where(table.c.account_id.in_(theirs)))

    def use_totp_step(self, account: Account, step: int) -> bool:
        """False when a code of this step or a later one was used before."""
        fresh = or_(accounts.c.totp_step.is_(None), accounts.c.totp_step < step)
        with self._writing() as connection:
            change = update(accounts).where(accounts.c.id == account.id, fresh).values(totp_step=step)
            return connection.execute(change).rowcount == 1

    # Invitations

    def invite(self, invitation: Invitation) -> str:
        """A link's secret part, good once; an earlier one for the same name is void."""
        token = new_token()
        same = invitations.c.name == invitation.name if invitation.name else invitations.c.name.is_(None)
        values = {"name": invitation.name, "role": invitation.role.value, "expires": invitation.expires}
        with self._writing() as connection:
            connection.execute(delete(invitations).where(same))
            connection.execute(insert(invitations).values(digest=digest(token), **values))
        return token

    def invitation(self, token: str) -> Invitation | None:
        query = select(invitations).where(invitations.c.digest == digest(token), invitations.c.expires > now())
        with self._reading() as connection:
            row = connection.execute(query).first()
        return Invitation(Role(row.role), row.expires, row.name) if row else None

    def accept(self, token: str, name: str, password: str) -> bool:
        """Use an invitation up and make its account, or give the one there is a new password."""
        mine = (invitations.c.digest == digest(token)) & (invitations.c.expires > now())
        with self._writing() as connection:
            row = connection.execute(delete(invitations).where(mine).returning(invitations)).first()
            if row is None:
                return False
            renewed = update(accounts).where(accounts.c.name == (row.name or "")).returning(accounts.c.id)
            account = connection.execute(renewed.values(password=password, sealed_totp=None)).scalar()
            if account is None:
                add_account(connection, row.name or name, Role(row.role), password)
            else:
                connection.execute(delete(sessions).where(sessions.c.account_id == account))
        return True

    # Sessions

    def open_session(self, account: Account, address: str, until: datetime) -> str:
        token, moment = new_token(), now()
        values = {"account_id": account.id, "created": moment, "used": moment, "expires": until, "address": address}
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires <= moment))
            connection.execute(insert(sessions).values(digest=digest(token), **values))
        return token

    def session(self, token: str, idle: timedelta) -> Account | None:
        """Whose session that is; one that was not used for so long is over."""
        moment = now()
        query = (
            select(accounts, sessions.c.used)
            .join(sessions, sessions.c.account_id == accounts.c.id)
            .where(sessions.c.digest == digest(token), sessions.c.expires > moment, accounts.c.disabled.is_(None))
            .where(sessions.c.used > moment - idle)
        )
        with self._reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        if moment - row.used > timedelta(minutes=1):  # not at every click: a page that is open asks all the time
            with self._writing() as connection:
                connection.execute(update(sessions).where(sessions.c.digest == digest(token)).values(used=moment))
        return account_of(row)

    def close_session(self, token: str) -> None:
        with self._writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.digest == digest(token)))

    # Tokens

    def issue_token(self, account: Account, label: str, scope: Role, expires: datetime) -> str:
        token = new_token()
        values = {"account_id": account.id, "label": label, "scope": scope.value, "created": now(), "expires": expires}
        with self._writing() as connection:
            connection.execute(insert(api_tokens).values(digest=digest(token), **values))
        return token

    def tokens(self, account: Account | None = None) -> list[ApiToken]:
        query = select(api_tokens, accounts.c.name).join(accounts, accounts.c.id == api_tokens.c.account_id)
        if account is not None:
            query = query.where(accounts.c.id == account.id)
        with self._reading() as connection:
            return [token_of(row) for row in connection.execute(query.order_by(api_tokens.c.id))]

    def token(self, token: str) -> tuple[Account, Role] | None:
        """The owner of a token, and what it may be used for."""
        moment = now()
        query = (
            select(accounts, api_tokens.c.scope, api_tokens.c.used, api_tokens.c.id.label("token_id"))
            .join(api_tokens, api_tokens.c.account_id == accounts.c.id)
            .where(api_tokens.c.digest == digest(token), api_tokens.c.expires > moment, accounts.c.disabled.is_(None))
        )
        with self._reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return None
        if row.used is None or moment - row.used > timedelta(minutes=1):
            with self._writing() as connection:
                connection.execute(update(api_tokens).where(api_tokens.c.id == row.token_id).values(used=moment))
        return account_of(row), Role(row.scope)

    def revoke_token(self, number: int, account: Account | None = None) -> bool:
        """An account's own token, or anybody's when none is named."""
        step = delete(api_tokens).where(api_tokens.c.id == number)
        if account is not None:
            step = step.where(api_tokens.c.account_id == account.id)
        with self._writing() as connection:
            return connection.execute(step).rowcount == 1

    # What was done

    def write(self, entry: Entry) -> None:
        values = {
            "who": entry.who[:200],
            "origin": entry.origin[:64],
            "door": entry.door,
            "action": entry.action[:64],
            "nodes": entry.nodes,
            "result": entry.result,
            "detail": entry.detail[:4000],
        }
        with self._writing() as connection:
            connection.execute(insert(audit).values(at=entry.at or now(), **values))

    def entries(self, *, before: int | None = None, limit: int = 100, text: str = "", who: str = "") -> list[Entry]:
        """The newest first."""
        query = select(audit).order_by(audit.c.id.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.id < before)
        if who:
            query = query.where(audit.c.who == who)
        if text:
            wanted = (
                audit.c[column].contains(text, autoescape=True) for column in ("nodes", "action", "detail", "who")
            )
            query = query.where(or_(*wanted))
        with self._reading() as connection:
            return [entry_of(row) for row in connection.execute(query)]

    # Answers that were given to writes with an Idempotency-Key

    def claim_reply(self, key: str, request: str, keep: timedelta) -> Reply | None:
        """Nothing for the first one to come, who has to answer; for all others what was answered."""
        moment, name = now(), digest(key)
        with self._writing() as connection:
            connection.execute(delete(replies).where(replies.c.at <= moment - keep))
            row = connection.execute(select(replies).where(replies.c.digest == name)).first()
            if row is None:
                connection.execute(insert(replies).values(digest=name, request=request, at=moment))
                return None
        return Reply(row.request, row.status, row.body or b"")

    def keep_reply(self, key: str, status: int, body: bytes) -> None:
        with self._writing() as connection:
            connection.execute(
                update(replies).where(replies.c.digest == digest(key)).values(status=status, body=body, at=now())
            )

    def forget_reply(self, key: str) -> None:
        with self._writing() as connection:
            connection.execute(delete(replies).where(replies.c.digest == digest(key)))


def now() -> datetime:
    return datetime.now(UTC)


def add_account(connection: Connection, name: str, role: Role, password: str | None) -> None:
    try:
        connection.execute(insert(accounts).values(name=name, role=role.value, password=password, created=now()))
    except IntegrityError as error:
        raise Taken(f"there is an account '{name}' already; choose another name") from error


def account_of(row: Any) -> Account:
    return Account(
        name=row.name,
        role=Role(row.role),
        created=row.created,
        password=row.password,
        sealed_totp=row.sealed_totp,
        totp_step=row.totp_step,
        disabled=row.disabled,
        id=row.id,
    )


def token_of(row: Any) -> ApiToken:
    return ApiToken(row.label, Role(row.scope), row.created, row.expires, row.used, row.name, row.id)


def entry_of(row: Any) -> Entry:
    return Entry(row.who, row.origin, row.door, row.action, row.nodes, row.result, row.detail, at=row.at, id=row.id)
