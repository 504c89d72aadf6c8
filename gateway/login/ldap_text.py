"""Builds LDAP names and filters as text from HiveServer2's settings, with all user input escaped.

The meaning is that of Hive 4's `org.apache.hive.service.auth.ldap`. Unlike there, a name cannot break out of its place
in a DN (RFC 4514) or a filter (RFC 4515).
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

PLACE = "%s"
"""The placeholder for the user's name in a DN pattern."""
NAMING_KEY = "uid"
"""The attribute that names a user, without a DN pattern."""
PERSON = "(|(objectClass=person)(objectClass=user)(objectClass=inetOrgPerson))"

_HEX = frozenset("0123456789abcdefABCDEF")
_PLAIN_IN_FILTERS = frozenset(f"{string.ascii_letters}{string.digits}=,.@_-".encode())


def escaped_in_dn(value: str) -> str:
    """Escapes a value for a distinguished name (RFC 4514, section 2.4)."""
    escaped = "".join(_DN_ESCAPES.get(character, character) for character in value)
    if escaped.startswith(" "):
        escaped = "\\20" + escaped[1:]
    if escaped.endswith(" "):
        escaped = escaped[:-1] + "\\20"
    return escaped


_DN_ESCAPES = {**{character: "\\" + character for character in '"+,;<>\\=#'}, "\0": "\\00"}


def unescaped_from_dn(value: str) -> str:
    """Unescapes a value of a distinguished name. Raises ValueError if it is malformed."""
    found = bytearray()
    index = 0
    while index < len(value):
        if value[index] != "\\":
            found += value[index].encode()
            index += 1
        elif len(value) > index + 2 and _HEX.issuperset(value[index + 1 : index + 3]):
            found.append(int(value[index + 1 : index + 3], 16))
            index += 3
        elif len(value) > index + 1:
            found += value[index + 1].encode()
            index += 2
        else:
            raise ValueError("a value ends with a backslash")
    return found.decode()


def escaped_in_filter(value: str) -> str:
    """Escapes a value for a search filter (RFC 4515, section 3). It escapes more than necessary, because ldap3 strips
    white space at the ends of a value."""
    return "".join(chr(byte) if byte in _PLAIN_IN_FILTERS else f"\\{byte:02x}" for byte in value.encode())


def has_domain(user: str) -> bool:
    """True for `ada@example.com` and `ada/host`."""
    return _domain_at(user) > 0


def without_domain(user: str) -> str:
    at = _domain_at(user)
    return user[:at] if at > 0 else user


def _domain_at(user: str) -> int:
    """The position of the first @ or /; -1 if there is none."""
    return min((at for at in (user.find("@"), user.find("/")) if at >= 0), default=-1)


def is_dn(user: str) -> bool:
    return "=" in user


def short_name(user: str) -> str:
    """`ada` for ada, for ada@example.com, and for uid=ada,ou=people,dc=example,dc=com."""
    if has_domain(user):
        return without_domain(user)
    return first_value(user) if is_dn(user) else user


def first_value(dn: str) -> str:
    """The value of the first part of a DN. Raises ValueError if there is none."""
    _, equals, value = _first_part(dn).partition("=")
    if not equals:
        raise ValueError(f"'{dn}' is not a distinguished name")
    return unescaped_from_dn(_trimmed(value))


def _trimmed(value: str) -> str:
    """Strips surrounding spaces, except an escaped one."""
    value = value.lstrip(" ")
    end = len(value.rstrip(" "))
    escaped = (end - len(value[:end].rstrip("\\"))) % 2
    return value[: end + escaped]


def _first_part(dn: str) -> str:
    return dn[: _end_of_first(dn)]


def base_of(dn: str) -> str:
    """The DN of the entry's parent; "" at the top."""
    return dn[_end_of_first(dn) + 1 :].strip()


def lies_below(dn: str, base: str) -> bool:
    """Whether an entry is below another one, or that one. Spellings that differ in more than case and spaces after
    commas count as different."""
    entry, above = (re.sub(r", +", ",", each.strip().lower()) for each in (dn, base))
    return entry == above or entry.endswith(f",{above}")


def _end_of_first(dn: str) -> int:
    index = 0
    while index < len(dn) and dn[index] != ",":
        index += 2 if dn[index] == "\\" else 1
    return min(index, len(dn))


def patterns(text: str, base_dn: str) -> tuple[str, ...]:
    """The DN patterns of a setting, separated by colons. If there are none, the base DN makes one."""
    if text.strip():
        return tuple(pattern for pattern in text.split(":") if "," in pattern and "=" in pattern)
    return (f"{NAMING_KEY}={PLACE},{base_dn}",) if base_dn.strip() else ()


def bases(dn_patterns: Sequence[str]) -> tuple[str, ...]:
    """Where to search: the pattern without its first part if that part varies, else the pattern itself."""
    return tuple(base_of(pattern) if f"={PLACE}" in pattern else pattern for pattern in dn_patterns)


def principals(user: str, domain: str, user_patterns: Sequence[str]) -> tuple[str, ...]:
    """The principals to bind with, in the order to try them."""
    if has_domain(user) or is_dn(user):
        return (user,)
    if domain.strip():
        return (f"{user}@{domain}",)
    return tuple(pattern.replace(PLACE, escaped_in_dn(user)) for pattern in user_patterns) or (user,)


# --- filters -------------------------------------------------------------------------------------------------


def part_filter(dn: str, user: str | None = None) -> str:
    """The first part of a DN as a filter; in a pattern, the user replaces the placeholder. Raises ValueError."""
    name, equals, value = _first_part(dn).partition("=")
    if not equals:
        raise ValueError(f"'{dn}' is not a distinguished name")
    pieces = [_trimmed(value)] if user is None else _trimmed(value).split(PLACE)
    plain = (user or "").join(unescaped_from_dn(piece) for piece in pieces)
    return f"({_attribute(name)}={escaped_in_filter(plain)})"


def _attribute(name: str) -> str:
    """Checks the name of an attribute. Raises ValueError for anything else, because it cannot be escaped."""
    name = name.strip()
    if not name.isascii() or not name.replace("-", "").replace(".", "").isalnum():
        raise ValueError(f"'{name}' is not the name of an attribute")
    return name


def person_at(dn: str) -> str:
    return f"(&{PERSON}{part_filter(dn)})"


def person_named(user: str) -> str:
    name = escaped_in_filter(user)
    return f"(&{PERSON}(|(uid={name})(sAMAccountName={name})))"


def person_with_principal(user: str) -> str:
    return f"(&{PERSON}(userPrincipalName={escaped_in_filter(user)}))"


def groups_around(membership_key: str, dn: str) -> str:
    """A filter for groups that list an entry, or list groups that list it: Active Directory follows them
    (LDAP_MATCHING_RULE_IN_CHAIN)."""
    return f"({membership_key}:1.2.840.113556.1.4.1941:={escaped_in_filter(dn)})"


def groups_of_any(membership_key: str, dns: Sequence[str]) -> str:
    """A filter for groups that list one of these entries."""
    return f"(|{''.join(f'({membership_key}={escaped_in_filter(dn)})' for dn in dns)})"


def groups_with(membership_key: str, user_dn: str, user: str) -> str:
    """A filter for groups that list a user, by DN or by name."""
    dn, name = escaped_in_filter(user_dn), escaped_in_filter(user)
    return f"(|({membership_key}={dn})({membership_key}={name}))"
