"""What single values of site.yaml may be: each is checked with advice, and described for editors."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from headnode import fields
from headnode.errors import InvalidField


class AddressRange:
    """`first-last`, both included."""

    __slots__ = ("first", "last")

    def __init__(self, first: IPv4Address, last: IPv4Address) -> None:
        self.first = first
        self.last = last

    @classmethod
    def parse(cls, value: object) -> "AddressRange":
        if isinstance(value, AddressRange):
            return value
        first, _, last = str(value).partition("-")
        try:
            found = cls(IPv4Address(first.strip()), IPv4Address(last.strip()))
        except ValueError:
            raise ValueError("use two addresses with a hyphen, such as 10.20.1.0-10.20.1.255") from None
        if found.last < found.first:
            raise ValueError(f"the first address comes after the last; use {found.last}-{found.first}")
        return found

    def __contains__(self, address: object) -> bool:
        return isinstance(address, IPv4Address) and self.first <= address <= self.last

    def __iter__(self) -> Iterator[IPv4Address]:
        return (IPv4Address(number) for number in range(int(self.first), int(self.last) + 1))

    def __len__(self) -> int:
        return int(self.last) - int(self.first) + 1

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    def __repr__(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AddressRange) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash((self.first, self.last))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": rf"^{OCTETS} *- *{OCTETS}$", "examples": ["10.20.1.0-10.20.1.255"]}


def network(value: object) -> object:
    """Only a network's own address is accepted, and the message gives it."""
    try:
        return IPv4Network(str(value))
    except ValueError:
        pass
    try:
        whole = IPv4Network(str(value), strict=False)
    except ValueError:
        raise ValueError("use a network in CIDR form, such as 10.20.0.0/16") from None
    raise ValueError(f"that is an address inside a network; use {whole}")


def field_check(check: Any) -> Any:
    """A check from headnode/fields.py as a pydantic validator: only its advice goes into the message."""

    def validate(value: str) -> str:
        try:
            return str(check(value))
        except InvalidField as error:
            raise ValueError(error.expected) from None

    return AfterValidator(validate)


def text(value: str) -> str:
    return fields.plain_text(value, field="value")


def numbers_too(value: object) -> object:
    """YAML reads an unquoted 12, 24.04 or 580 as a number; for a release or a branch that is what was meant."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return str(getattr(value, "written", value))


def for_editors(pattern: str) -> Any:
    """What the JSON schema can say of a rule that is checked, with better words, in headnode/fields.py."""
    return Field(json_schema_extra={"pattern": f"^({pattern})$"})


def for_schema(pattern: re.Pattern[str]) -> str:
    """Without names of groups, which are Python's own."""
    return re.sub(r"\(\?P<\w+>", "(", pattern.pattern)


def listener(value: str) -> str:
    """An address and a port, such as 127.0.0.1:8080."""
    host, _, port = value.rpartition(":")
    try:
        address = IPv4Address(host)
    except ValueError:
        address = IPv4Address(0)
    if not port.isdecimal() or not 1 <= int(port) <= 65_535 or address == IPv4Address(0):
        raise ValueError("use one address of this machine and a port, such as 127.0.0.1:8080")
    return f"{address}:{int(port)}"


OCTETS = r"[0-9]{1,3}(\.[0-9]{1,3}){3}"
Text = Annotated[str, field_check(text)]
Label = Annotated[str, field_check(lambda value: fields.plain_label(value)), for_editors(fields.WORD.pattern)]
Interface = Annotated[
    str, field_check(lambda value: fields.interface_name(value)), for_editors(fields.INTERFACE.pattern)
]
HostName = Annotated[
    str, field_check(lambda value: fields.host_name(value, field="cluster")), for_editors(fields.LABEL.pattern)
]
Domain = Annotated[
    str,
    field_check(lambda value: fields.domain_name(value)),
    for_editors(rf"{fields.LABEL.pattern}(\.{fields.LABEL.pattern})+"),
]
DistinguishedName = Annotated[
    Text, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*=[^,=+<>#;()*]+(, *[A-Za-z][A-Za-z0-9-]*=[^,=+<>#;()*]+)*$")
]
ImageReference = Annotated[
    str, field_check(lambda value: fields.image_reference(value)), for_editors(for_schema(fields.IMAGE))
]
Account = Annotated[str, field_check(lambda value: fields.account_name(value)), for_editors(fields.ACCOUNT.pattern)]
Cidr = Annotated[IPv4Network, BeforeValidator(network), for_editors(rf"{OCTETS}/[0-9]{{1,2}}")]
Listener = Annotated[str, AfterValidator(listener), for_editors(rf"{OCTETS}:[0-9]{{1,5}}")]
Release = Annotated[
    Text, BeforeValidator(numbers_too), WithJsonSchema({"type": ["string", "number"], "examples": ["12", "24.04"]})
]
# The pattern stands before the validator, or the JSON schema would not have it.
Size = Annotated[
    str,
    Field(
        pattern=r"^([1-9][0-9]*(\.[0-9]+)?[KMGT]|[1-9][0-9]?%|100%|rest)$",
        examples=["512M", "1.5T", "20%", "rest"],
    ),
    BeforeValidator(numbers_too),
]
FixedSize = Annotated[
    str,
    Field(pattern=r"^[1-9][0-9]*(\.[0-9]+)?[KMGT]$", examples=["512M", "1.5T"]),
    BeforeValidator(numbers_too),
]


PublicKey = Annotated[
    str,
    Field(
        max_length=4096,
        pattern=r"^(sk-)?(ssh|ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+=*( [A-Za-z0-9._@+-]+)?$",
        examples=["ssh-ed25519 AAAAC3… ada@example"],
    ),
]
