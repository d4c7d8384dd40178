"""People and groups as data, and as entries of a directory. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headnode.ldaptree import LOCKED, LOCKED_FOR_EVER, Tree
from headnode.site import Directory, Site

PERSON_CLASSES = ("inetOrgPerson", "posixAccount", "ldapPublicKey")
GROUP_CLASSES = ("groupOfMembers", "posixGroup")
SHELL = "/bin/bash"
# Where directories say that somebody is shut out.
NS_LOCKED, AD_FLAGS, AD_DISABLED = "nsAccountLock", "userAccountControl", 2
LOCKS = (LOCKED, NS_LOCKED, AD_FLAGS)

Entry = Mapping[str, list[bytes]]
Attributes = dict[str, list[str]]


@dataclass(frozen=True)
class Person:
    name: str
    number: int
    full_name: str = ""
    email: str = ""
    ssh_keys: tuple[str, ...] = ()
    shell: str = SHELL
    home: str = ""
    groups: tuple[str, ...] = ()
    locked: bool = False
    # Everybody's first group is their own, with their own number; elsewhere it may be another.
    gid: int = 0


@dataclass(frozen=True)
class Group:
    name: str
    number: int
    description: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Vocabulary:
    """What a directory calls the things we ask for."""

    name: str = "uid"
    uid: str = "uidNumber"
    gid: str = "gidNumber"
    full_name: str = "cn"
    email: str = "mail"
    home: str = "homeDirectory"
    shell: str = "loginShell"
    ssh_keys: str = "sshPublicKey"
    member_of: str = "memberOf"
    members: str = "memberUid"
    person_class: str = "posixAccount"
    group_class: str = "posixGroup"

    @property
    def of_people(self) -> list[str]:
        return [self.name, self.uid, self.gid, self.full_name, self.email, self.home, self.shell, self.ssh_keys,
                self.member_of, *LOCKS]  # fmt: skip


FLAVOURS = {
    "rfc2307": Vocabulary(),
    "rfc2307bis": Vocabulary(members="member"),
    "ad": Vocabulary(
        name="sAMAccountName", full_name="displayName", home="unixHomeDirectory", members="member",
        person_class="user", group_class="group",
    ),
}  # fmt: skip


def vocabulary(directory: Directory) -> Vocabulary:
    if directory.mode == "internal":
        return Vocabulary()
    own = {str(key): str(value) for key, value in directory.attributes.items()}
    known = FLAVOURS[directory.flavour]
    return Vocabulary(**{**known.__dict__, **own})


def person_attributes(person: Person) -> Attributes:
    """A person as our own directory keeps them; what is empty is left out."""
    full_name = person.full_name or person.name
    found: Attributes = {
        "uid": [person.name],
        "cn": [full_name],
        # The last word is a guess, and nothing but the schema asks for it.
        "sn": [full_name.split()[-1]],
        "gecos": [gecos(full_name)],
        "uidNumber": [str(person.number)],
        "gidNumber": [str(person.number)],
        "homeDirectory": [person.home or f"/home/{person.name}"],
        "loginShell": [person.shell],
        "mail": [person.email] if person.email else [],
        "sshPublicKey": list(person.ssh_keys),
    }
    return {key: values for key, values in found.items() if values}


def gecos(full_name: str) -> str:
    """A colon ends the field in passwd, a comma begins the room number."""
    return full_name.replace(":", " ").replace(",", " ")


def group_attributes(group: Group, tree: Tree) -> Attributes:
    found: Attributes = {"cn": [group.name], "gidNumber": [str(group.number)]}
    if group.description:
        found["description"] = [group.description]
    return {**found, **member_values(group.members, tree)} if group.members else found


def member_values(names: Iterable[str], tree: Tree) -> Attributes:
    """A membership both ways: by login for sssd, by entry for memberOf and for other programs."""
    listed = list(names)
    return {"memberUid": listed, "member": [tree.person(name) for name in listed]}


def texts(entry: Entry, attribute: str) -> list[str]:
    for key, values in entry.items():
        if key.lower() == attribute.lower():
            return [value.decode(errors="replace") for value in values]
    return []


def text(entry: Entry, attribute: str) -> str:
    return next(iter(texts(entry, attribute)), "")


def number(entry: Entry, attribute: str) -> int:
    found = text(entry, attribute)
    return int(found) if found.isascii() and found.isdigit() else -1


def person_of(entry: Entry, words: Vocabulary) -> Person:
    return Person(
        name=text(entry, words.name),
        number=number(entry, words.uid),
        full_name=text(entry, words.full_name),
        email=text(entry, words.email),
        ssh_keys=tuple(texts(entry, words.ssh_keys)),
        shell=text(entry, words.shell),
        home=text(entry, words.home),
        groups=tuple(sorted(first_value(dn) for dn in texts(entry, words.member_of))),
        locked=is_locked(entry),
        gid=number(entry, words.gid),
    )


def is_locked(entry: Entry) -> bool:
    """As our server says it, as 389 Directory Server and FreeIPA do, or as Active Directory does."""
    return (
        text(entry, LOCKED) == LOCKED_FOR_EVER
        or text(entry, NS_LOCKED).upper() == "TRUE"
        or (number(entry, AD_FLAGS) > 0 and bool(number(entry, AD_FLAGS) & AD_DISABLED))
    )


def group_of(entry: Entry, words: Vocabulary) -> Group:
    members = texts(entry, words.members)
    if words.members == "member":
        members = [first_value(dn) for dn in members]
    return Group(text(entry, "cn"), number(entry, words.gid), text(entry, "description"), tuple(sorted(members)))


def first_value(dn: str) -> str:
    """alice, of uid=alice,ou=people,…"""
    return dn.partition(",")[0].partition("=")[2]


@dataclass(frozen=True)
class Wanted:
    """An entry that has to be there, and those of its attributes that Headnode keeps as it wants them."""

    dn: str
    classes: tuple[str, ...]
    attributes: Attributes
    kept: Attributes = field(default_factory=dict)


def foundation(site: Site, tree: Tree, admin_number: int) -> list[Wanted]:
    """What a directory of ours has before anybody is in it."""
    first = tree.base.partition(",")[0]
    kind, _, value = first.partition("=")
    found = [Wanted(tree.base, *top(kind.lower(), value))]
    for dn in (tree.people, tree.groups, tree.sudoers, tree.policies, tree.services):
        found.append(Wanted(dn, ("organizationalUnit",), {"ou": [first_value(dn)]}))
    found.append(Wanted(f"cn=default,{tree.policies}", ("device", "pwdPolicy"), {"cn": ["default"]}, policy()))
    if site.directory.admin_group:
        group = Group(site.directory.admin_group, admin_number, "may change the directory")
        found.append(Wanted(tree.group(group.name), GROUP_CLASSES, group_attributes(group, tree)))
    # A rule without anybody in it allows nothing; it stays, so that a group that was taken away loses its rights.
    rule = {"sudoUser": [f"%{site.access.sudo_group}"] if site.access.sudo_group else [], "sudoHost": ["ALL"],
            "sudoRunAsUser": ["ALL"], "sudoRunAsGroup": ["ALL"], "sudoCommand": ["ALL"]}  # fmt: skip
    found.append(Wanted(tree.sudo_rule, ("sudoRole",), {"cn": [first_value(tree.sudo_rule)]}, rule))
    return found


def top(kind: str, value: str) -> tuple[tuple[str, ...], Attributes]:
    if kind == "o":
        return ("organization",), {"o": [value]}
    if kind == "ou":
        return ("organizationalUnit",), {"ou": [value]}
    return ("domain",), {"dc": [value]}


def policy() -> Attributes:
    """Guessing is made slow; nobody is made to change a password that is not known to others."""
    return {
        "pwdAttribute": ["userPassword"],
        "pwdMinLength": ["10"],
        "pwdCheckQuality": ["1"],
        "pwdLockout": ["TRUE"],
        "pwdMaxFailure": ["10"],
        "pwdFailureCountInterval": ["300"],
        "pwdLockoutDuration": ["300"],
        "pwdAllowUserChange": ["TRUE"],
    }
