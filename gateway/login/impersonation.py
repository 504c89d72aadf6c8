"""Which accounts may open sessions in the name of other users: those of Superset, Hue and other servers, which log in
with one account and name their own user as `hive.server2.proxy.user`.

The rules are those of Hadoop's `hadoop.proxyuser.ACCOUNT.users`, `.groups` and `.hosts`: an account may name a user who
is listed, or is in a listed group, from a listed address.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.access_list import NO_ONE, AccessList, Principal
from gateway.config import Impersonator
from gateway.networks import Networks


class Impersonation:
    """Decides from the account, the named user, and the address of the client."""

    def __init__(self, rules: Iterable[Impersonator] = (), administrators: AccessList = NO_ONE) -> None:
        """`administrators` may be named only by rules that name them as users: `*` and groups do not mean them."""
        self._rules = {rule.account: (AccessList.of(rule.users), Networks(rule.hosts)) for rule in rules}
        self._administrators = administrators

    def concerns(self, account: str) -> bool:
        """Whether there is a rule for this account."""
        return account in self._rules

    def allows(self, account: str, who: Principal, peer: str) -> bool:
        """`peer` is the client's address, with or without its port; an IPv6 address with a port is in brackets."""
        rule = self._rules.get(account)
        if rule is None or not who.name.strip():
            return False
        named, hosts = rule
        in_general = (named.everybody or named.names(who)) and not self._administrators.names(who)
        return (who.name in named.users or in_general) and (not hosts or hosts.have(peer))


NOBODY = Impersonation()
