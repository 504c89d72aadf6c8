"""The LDAP service, through ldap3. Every call blocks, at most ANSWER_SECONDS for an answer."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, cast
from urllib.parse import urlsplit

from ldap3 import NO_ATTRIBUTES, NONE, SIMPLE, SUBTREE, SYNC, Connection, Server, Tls
from ldap3.core.exceptions import LDAPExceptionError, LDAPInvalidFilterError

from gateway.config import Ldap
from gateway.login.ldap import LdapEntry
from gateway.login.verifier import Unavailable, WrongLogin

log = logging.getLogger(__name__)

ANSWER_SECONDS = 10
"""For a connection to a server, and for each of its answers. A login waits so long for each server of `ldap.url`."""
SUCCESS = 0
SIZE_LIMIT_EXCEEDED = 4
REFUSALS = frozenset({19, 32, 34, 48, 49, 50, 53})
"""Results of a bind that concern the user, not the service: constraintViolation (a locked account), noSuchObject,
invalidDNSyntax, inappropriateAuthentication, invalidCredentials, insufficientAccessRights, unwillingToPerform (RFC
4511, appendix A.2)."""
BROKEN = frozenset({51, 52, 80})
"""busy, unavailable, other: the search failed and says nothing about the user."""
DEFAULT_PORTS = {"ldap": 389, "ldaps": 636}


class CheckedTls(Tls):
    """TLS that verifies the host name with Python's ssl and sends it to the server (SNI); ldap3's own does neither."""

    def wrap_socket(self, connection: Connection, do_handshake: bool = False) -> None:
        # A new context per connection reads the CA file again, so renewed certificates are used.
        context = ssl.create_default_context(cafile=self.ca_certs_file)
        connection.socket = context.wrap_socket(connection.socket, server_hostname=connection.server.host)


class LdapDirectory:
    """The servers in `ldap.url`, tried in order. Implements `ldap.Directory`."""

    def __init__(self, settings: Ldap, answer_seconds: int = ANSWER_SECONDS) -> None:
        self._settings = settings
        self._answer_seconds = answer_seconds
        self._servers = [self._server(url) for url in settings.url.split()]

    def _server(self, url: str) -> Server:
        parts = urlsplit(url)
        return Server(
            parts.hostname or "",
            parts.port or DEFAULT_PORTS[parts.scheme],
            use_ssl=parts.scheme == "ldaps",
            tls=CheckedTls(validate=ssl.CERT_REQUIRED, ca_certs_file=self._settings.ca or None),
            get_info=NONE,
            connect_timeout=self._answer_seconds,
        )

    @contextlib.contextmanager
    def _connected(self, principal: str, password: str) -> Iterator[Connection]:
        """Connects to the first server that answers, encrypted as configured."""
        problems = []
        for server in self._servers:
            connection = self._connection(server, principal, password)
            try:
                try:
                    connection.open()
                    if self._settings.start_tls and not server.ssl and not connection.start_tls():
                        raise Unavailable(f"{server.name} refused StartTLS: {connection.result['description']}")
                except (LDAPExceptionError, OSError, Unavailable) as error:
                    problems.append(f"{server.name}: {error}")
                    continue
                yield connection
                return
            finally:
                _close(connection)
        raise Unavailable("; ".join(problems))

    def _connection(self, server: Server, principal: str, password: str) -> Connection:
        return Connection(
            server,
            user=principal,
            # As bytes, which ldap3 leaves unchanged. From a string it would remove characters that SASLprep maps to
            # nothing. A password of only soft hyphens would become empty, and a directory accepts an empty password
            # from anybody.
            password=cast(str, password.encode()),
            authentication=SIMPLE,
            client_strategy=SYNC,
            # A referral would send the password to a server that no setting names.
            auto_referrals=False,
            check_names=False,
            auto_escape=False,
            read_only=True,
            receive_timeout=self._answer_seconds,
            return_empty_attributes=False,
        )

    @contextlib.contextmanager
    def bind(self, principal: str, password: str) -> Iterator[BoundSearch]:
        if not principal or not password:
            raise WrongLogin("a bind without name or password would be anonymous")
        with self._connected(principal, password) as connection:
            try:
                bound = connection.bind()
            except (LDAPExceptionError, OSError) as error:
                raise Unavailable(f"{connection.server.name}: {error}") from error
            if not bound:
                result = connection.result
                text = f"{connection.server.name}: {result['description']} {result['message']}".strip()
                raise (WrongLogin if result["result"] in REFUSALS else Unavailable)(text)
            yield BoundSearch(connection)


def _close(connection: Connection) -> None:
    with contextlib.suppress(LDAPExceptionError, OSError):
        connection.unbind()
    # After a TLS failure ldap3 considers the connection closed, and leaves its socket open.
    if connection.socket is not None:
        connection.socket.close()


class BoundSearch:
    """Searches on one connection. Implements `ldap.Search`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def search(self, base: str, text: str, attribute: str = "", found_max: int = 0) -> Sequence[LdapEntry]:
        connection = self._connection
        try:
            connection.search(
                base,
                text,
                search_scope=SUBTREE,
                attributes=[attribute] if attribute else NO_ATTRIBUTES,
                size_limit=found_max,
                time_limit=connection.receive_timeout or 0,
            )
        except LDAPInvalidFilterError as error:
            raise Unavailable(f"the filter {text} cannot be used: {error}") from error
        except (LDAPExceptionError, OSError) as error:
            raise Unavailable(f"{connection.server.name}: {error}") from error
        code = connection.result["result"]
        if code in BROKEN:
            raise Unavailable(f"{connection.server.name}: {connection.result['description']}")
        if code not in (SUCCESS, SIZE_LIMIT_EXCEEDED):
            # A base that does not exist, or that this user may not read, contains nothing for the user.
            log.debug("a search below %s ended with %s", base, connection.result["description"])
        found = connection.response or []
        return [LdapEntry(item["dn"], tuple(_values(item))) for item in found if item["type"] == "searchResEntry"]


def _values(item: dict[str, Any]) -> Iterator[str]:
    """The values of the requested attribute."""
    for values in item["raw_attributes"].values():
        for value in values:
            yield value.decode("utf-8", "replace")
