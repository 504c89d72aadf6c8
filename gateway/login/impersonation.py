"""Which accounts may open sessions in the name of other users: those of Superset, Hue and other servers, which log in
with one account and name their own user as `hive.server2.proxy.user`.

The rules are those of Hadoop's `hadoop.proxyuser.ACCOUNT.users` and `.hosts`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import ip_address, ip_network

from gateway.config import Impersonator


class Impersonation:
    """Decides from the account, the named user, and the address of the client."""

    def __init__(self, rules: Iterable[Impersonator] = (), administrators: Collection[str] = ()) -> None:
        """`administrators` may be named only by rules that name them: `*` does not mean them."""
        self._rules = {rule.account: rule for rule in rules}
        self._administrators = administrators

    def concerns(self, account: str) -> bool:
        """Whether there is a rule for this account."""
        return account in self._rules

    def allows(self, account: str, user: str, peer: str) -> bool:
        """`peer` is the client's address, with or without its port; an IPv6 address with a port is in brackets."""
        rule = self._rules.get(account)
        if rule is None or not user.strip():
            return False
        named = user in rule.users or ("*" in rule.users and user not in self._administrators)
        return named and (not rule.hosts or _is_within(peer, rule.hosts))


NOBODY = Impersonation()


def _is_within(peer: str, networks: Iterable[str]) -> bool:
    if peer.startswith("["):
        host = peer[1:].partition("]")[0]
    else:
        host = peer.partition(":")[0] if peer.count(":") == 1 else peer
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    # An IPv4 client of an IPv6 socket.
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in ip_network(each, strict=False) for each in networks)
