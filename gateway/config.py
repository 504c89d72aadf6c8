"""Every setting: its name, type, default and reason.

A setting's name is its path in the dataclasses below (`listen.port`). Times are in seconds, sizes in bytes.
`settings_file` reads and prints settings.

Tests: `test_config_reference`.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from gateway import access_list, checks, limit_rules, upstream_url
from gateway.checks import Check

TRANSPORTS = ("sasl", "nosasl")
PORTS = ("binary", "http", "page")
OFF = -1
"""A port that the gateway does not listen on."""
EVERY_ADDRESS = ("0.0.0.0", "::")
"""Hosts that mean each address of this machine."""
LOCAL_MASTER = "local[*]"
"""This machine, with all of its cores."""
HEALED = ("get_info", "key_calls", "star_patterns", "leaked_sessions", "lost_cancels", "show_tables")
HEALINGS = (*HEALED, "show_tables_for_all", "early_metadata", "ddl_columns", "long_pages")
METHODS = ("none", "file", "ldap", "jwt", "kerberos", "custom")
GROUP_SOURCES = ("file", "ldap", "custom")
NESTED_GROUPS = ("none", "matching_rule", "search")
JWT_ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES", "HS") for bits in (256, 384, 512)), "Ed25519")
LAYERS = ("auth", "auth-int", "auth-conf")
HAND_ON = ("replay", "proxy_user")
SECURITY = ("definer", "invoker")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LOG_FORMATS = ("text", "json")


@cache
def version() -> str:
    """The release of the gateway."""
    return importlib.metadata.version("freshgate")


class ConfigError(Exception):
    """A setting does not exist, or cannot have this value. The message names both and says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses `HOST:PORT`; an IPv6 host is in brackets. Raises ConfigError."""
        host, colon, port = text.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"'{text}' is not an address. Write HOST:PORT, for example 127.0.0.1:10000.")
        return cls(host, int(port))


@dataclass(frozen=True, slots=True)
class Impersonator:
    """A rule of `access.impersonators`: an account that may open sessions in the name of others."""

    account: str
    users: frozenset[str]
    hosts: tuple[str, ...]
    """Addresses and networks from which it may; empty: any."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses `ACCOUNT: USER, USER [from HOST, HOST]`. Raises ConfigError."""
        account, colon, rest = text.partition(":")
        users, *hosts = re.split(r"\s+from\b", rest, maxsplit=1)
        named, places = (
            tuple(filter(None, (each.strip() for each in part.split(",")))) for part in (users, "".join(hosts))
        )
        fits = colon and account.strip() and named and bool(places) == bool(hosts)
        if not fits or checks.networks(places) or access_list.problem_of(named):
            raise ConfigError(
                f"'{text}' does not say who may name whom. Write ACCOUNT: USER, USER from HOST, HOST, for example "
                f"superset: * from 10.0.0.7."
            )
        return cls(account.strip(), frozenset(named), places)


def _impersonators(value: Any) -> str | None:
    try:
        accounts = [Impersonator.parse(each).account for each in value]
    except ConfigError:
        return "must say ACCOUNT: USER, USER from HOST, HOST for each account, such as superset: * from 10.0.0.7"
    twice = sorted({each for each in accounts if accounts.count(each) > 1})
    return f"has two rules for {twice[0]}" if twice else None


def _place_or_empty(value: Any) -> str | None:
    if value:
        try:
            for address in upstream_url.place_of(value).addresses:
                Address.parse(address)
        except ConfigError:
            return "must be HOST:PORT, such as 127.0.0.1:10000, or several with commas, or a JDBC URL"
        except upstream_url.BadPart as error:
            return f"is not the address of a Spark Thrift Server: {error}"
    return None


def _address_or_empty(value: Any) -> str | None:
    if value:
        try:
            Address.parse(value)
        except ConfigError:
            return "must be HOST:PORT, such as gateway-1.example:10009"
    return None


def _host_or_address_or_empty(value: Any) -> str | None:
    if value and not _is_host(value) and _address_or_empty(value):
        return "must be HOST or HOST:PORT, such as gateway-1.example:10000"
    return None


def _is_host(text: str) -> bool:
    """Whether there is no port. An IPv6 host is in brackets."""
    return ":" not in text or (text.startswith("[") and text.endswith("]"))


def _methods(value: Any) -> str | None:
    """Several methods, except for none, may be separated by commas."""
    named = names_in(value)
    fits = named and all(each in METHODS for each in named) and (len(named) == 1 or "none" not in named)
    several = "" if len(named) < 2 else ", or several without none and with commas"
    return None if fits else f"must be one of {', '.join(METHODS)}{several}"


def names_in(text: str) -> tuple[str, ...]:
    """The names in a text, separated by commas."""
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _forced(value: Any) -> str | None:
    fits = all(re.fullmatch(r"[\w.:-]+ *=.*", each, re.ASCII | re.DOTALL) for each in value)
    return None if fits else "must have the form NAME=VALUE, such as spark.sql.ansi.enabled=true"


def _options(value: Any) -> str | None:
    fits = all(each.partition("=")[0].strip().isidentifier() and "=" in each for each in value)
    return None if fits else "must have the form NAME=VALUE, such as url=https://id.example"


def _setting(default: Any, why: str, check: Check | None = None) -> Any:
    return field(default=default, metadata={"why": why, "check": check})


@dataclass(frozen=True, slots=True)
class Listen:
    """Where clients connect."""

    host: str = _setting(
        "127.0.0.1",
        "Address to listen on. By default only this machine, because nothing checks passwords before Spark does; "
        "0.0.0.0 is every interface.",
        checks.filled,
    )
    port: int = _setting(
        10000,
        "TCP port of the binary transport; HiveServer2's default is 10000. 0 picks a free port, -1 disables the "
        "transport.",
        checks.between(OFF, 65535),
    )
    http_port: int = _setting(
        OFF,
        "TCP port of the HTTP transport (transportMode=http), which works through web proxies; HiveServer2's "
        "default is 10001. 0 picks a free port, -1 disables the transport.",
        checks.between(OFF, 65535),
    )
    http_hosts: tuple[str, ...] = _setting(
        (),
        "Names by which clients reach the HTTP transport, such as gateway.example. Requests with another name in their "
        "header Host are refused; addresses and localhost are always accepted. Empty: every name if listen.host is "
        "reachable from other machines, otherwise names without a dot.",
        checks.host_names,
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "Addresses and networks of the web proxies in front of the HTTP transport. Log and audit then contain the "
        "client's address that the proxies report (X-Forwarded-For) instead of theirs. Empty: X-Forwarded-For is "
        "ignored.",
        checks.networks,
    )
    transports: tuple[str, ...] = _setting(
        TRANSPORTS,
        "How clients may authenticate on the binary port: sasl (the default of Hive JDBC and PyHive, with user name "
        "and password), nosasl (auth=noSasl). Both share the port.",
        checks.some_of(*TRANSPORTS),
    )


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who may log in, and how the gateway logs users in at Spark."""

    method: str = _setting(
        "none",
        "Who checks user names and passwords: none (only Spark), file (authentication.users_file), ldap (the table "
        "[ldap]), custom (authentication.verifier), or jwt or kerberos: passwords are refused, and only tokens (the "
        'table [jwt]) or tickets ([kerberos]) accepted. Several are separated by commas: "file, ldap". Whatever the '
        "method, tokens are accepted if jwt.issuer is set, and tickets if kerberos.keytab is. authentication = "
        '"file" is a short form for a file without this table.',
        _methods,
    )
    users_file: str = _setting(
        "freshgate-users",
        "File of users and the argon2 hashes of their passwords. `freshgate user add NAME` writes it; the gateway "
        "reads it again after a change.",
        checks.filled,
    )
    remember_seconds: float = _setting(
        60.0,
        "How long a password that was accepted over HTTP is not checked again, for clients that send it with each "
        "request and keep no cookie. A change of the users file takes effect at once, a change in a directory or at "
        "Spark after this time. 0: the password is checked on each connection, which with the method none takes one "
        "more connection to Spark. It also limits how long an idle connection to Spark is kept for the next login "
        "with the same user name and password. Clients with cookies send none for an hour, unless this is 0.",
        checks.at_least(0),
    )
    verifier: str = _setting(
        "",
        "For the method custom: the name of a company's own verifier, an entry point of freshgate.verifiers that a "
        "package beside the gateway has (docs/how-to/login.md).",
    )
    verifier_options: tuple[str, ...] = _setting(
        (), "What that verifier is made with: NAME=VALUE, such as url=https://id.example.", _options
    )
    hand_on: str = _setting(
        "replay",
        "How a user whom the gateway has accepted is logged in at Spark: replay (with the user's own name and "
        "password) or proxy_user (upstream.user logs in, and names the user as hive.server2.proxy.user; Spark must "
        "allow that).",
        checks.one_of(*HAND_ON),
    )

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods in the order in which they are asked; empty if only Spark checks passwords."""
        return tuple(each for each in names_in(self.method) if each != "none")

    @property
    def takes_passwords(self) -> bool:
        """Whether the gateway checks passwords."""
        return any(each not in ("jwt", "kerberos") for each in self.methods)


@dataclass(frozen=True, slots=True)
class Ldap:
    """The directory for authentication.method ldap, as in hive.server2.authentication.ldap.* (docs/how-to/login.md)."""

    url: str = _setting(
        "",
        "URLs of the directory, tried in order, such as ldaps://ldap.example. Over ldap:// without start_tls "
        "anybody on the network can read passwords.",
        checks.ldap_urls,
    )
    start_tls: bool = _setting(False, "Whether connections to ldap:// URLs must be encrypted with StartTLS.")
    ca: str = _setting(
        "", "PEM file of the CA certificates that the directory's certificate is verified with. Empty: the system's."
    )
    base_dn: str = _setting("", "Where users and groups are, such as dc=example,dc=com (baseDN).")
    domain: str = _setting("", "Domain to log in with, as for Active Directory: ada becomes ada@example.com (Domain).")
    user_dn_pattern: str = _setting(
        "",
        "DN patterns of users, with %s for the name and separated by colons, such as "
        "uid=%s,ou=people,dc=example,dc=com (userDNPattern). Empty: uid=%s below base_dn.",
        checks.dn_patterns,
    )
    group_dn_pattern: str = _setting(
        "",
        "DN patterns of groups, in the same form (groupDNPattern). Empty: anywhere below base_dn.",
        checks.dn_patterns,
    )
    user_filter: tuple[str, ...] = _setting((), "Users who may log in (userFilter). Empty: every user.")
    group_filter: tuple[str, ...] = _setting(
        (), "Groups whose members may log in (groupFilter). Empty: everybody, in a group or not."
    )
    group_membership_key: str = _setting(
        "member",
        "Attribute of a group that lists its members, such as uniqueMember or memberUid (groupMembershipKey), or "
        "memberOf: then the groups are those that the user's entry lists.",
        checks.attribute_name,
    )
    nested_groups: str = _setting(
        "none",
        "Whether the groups count that a user's groups are in: none, matching_rule (Active Directory finds them), or "
        "search (any directory, one search for each level).",
        checks.one_of(*NESTED_GROUPS),
    )
    custom_ldap_query: str = _setting(
        "",
        "Filter below base_dn that finds the users who may log in, or groups that list them (customLDAPQuery). If "
        "set, user_filter and group_filter are ignored.",
    )
    bind_dn: str = _setting(
        "",
        "Account that searches the directory (binddn): it finds a user's entry, and the entry's DN logs in. Empty: "
        "users search for themselves.",
    )
    bind_password: str = _setting("", "Password of that account (bindpw). Keep the file that contains it private.")


@dataclass(frozen=True, slots=True)
class Jwt:
    """Tokens of an identity provider, which clients send over HTTP as Authorization: Bearer (docs/how-to/login.md)."""

    issuer: str = _setting(
        "",
        "The provider whose tokens are accepted, exactly as in their claim iss, such as https://id.example/realms/bi. "
        "Empty: no token is accepted.",
    )
    audience: tuple[str, ...] = _setting(
        (), "For whom a token must have been issued: one of these must be in its claim aud, such as freshgate."
    )
    keys: str = _setting(
        "",
        "The provider's keys: a file, or an https:// address, with a JSON Web Key Set. Empty: the address that the "
        "issuer publishes (OpenID Connect Discovery).",
    )
    algorithms: tuple[str, ...] = _setting(
        ("RS256", "PS256", "ES256", "Ed25519"),
        "How tokens may be signed: RS, PS, ES or HS, each with 256, 384 or 512, and Ed25519. HS needs a file of keys.",
        checks.some_of(*JWT_ALGORITHMS),
    )
    user_claim: str = _setting(
        "sub", "The claim that has the user's name, such as preferred_username, upn or email.", checks.filled
    )
    groups_claim: str = _setting(
        "", "The claim that lists the user's groups, such as groups, roles or realm_access.roles. Empty: none."
    )
    group_filter: tuple[str, ...] = _setting((), "Groups whose members may log in. Empty: everybody who has a token.")


@dataclass(frozen=True, slots=True)
class Kerberos:
    """Tickets of Kerberos, which clients send in the place of passwords (docs/how-to/login.md)."""

    keytab: str = _setting(
        "",
        "File of the keys of hive/HOST for the binary port and HTTP/HOST for the HTTP port, for each HOST that clients "
        "use, that of a load balancer, too. It is read again after a change. Needs the extra freshgate[kerberos]. "
        "Empty: no ticket is accepted.",
    )
    principals: tuple[str, ...] = _setting(
        (),
        "The services for which tickets are accepted, such as hive/gate.example@EXAMPLE. Empty: all that the keytab "
        "has a key of.",
    )
    qop: tuple[str, ...] = _setting(
        ("auth",),
        "How frames of the binary port may be protected, as hive.server2.thrift.sasl.qop: auth (not at all; TLS can), "
        "auth-int (nobody can change them), auth-conf (nobody can read them). Of several, the client chooses.",
        checks.some_of(*LAYERS),
    )
    auth_to_local: str = _setting(
        "",
        "User names of principals, by Hadoop's rules (hadoop.security.auth_to_local), such as "
        "RULE:[1:$1@$0](.*@B[.]EXAMPLE)s/@.*// DEFAULT. Empty, or DEFAULT: the first part of principals of this "
        "machine's realm; those of other realms are refused.",
    )


@dataclass(frozen=True, slots=True)
class GroupSources:
    """Where the groups of users are found, besides in tokens (docs/how-to/login.md)."""

    sources: tuple[str, ...] = _setting(
        (),
        "Where to look: file (groups.file), ldap (the groups of [ldap]; without ldap.bind_dn only at a user's own "
        "login), custom (authentication.verifier). A user is in the groups of all of them.",
        checks.each_of(*GROUP_SOURCES),
    )
    file: str = _setting(
        "freshgate-groups",
        "File of groups: a line GROUP: USER, USER for each. The gateway reads it again after a change.",
        checks.filled,
    )
    keep_seconds: float = _setting(
        300.0,
        "How long groups from ldap and custom are kept: as long, new sessions may not see a change.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Spark Thrift Server behind the gateway, or several, and how the gateway's own sessions log in there."""

    address: str = _setting(
        "",
        "An existing Spark Thrift Server: HOST:PORT, or its JDBC URL if it uses HTTP, TLS or no SASL, such as "
        "jdbc:hive2://spark.example:10001/;transportMode=http;httpPath=cliservice;ssl=true (auth=noSasl), or Kerberos "
        "(principal=hive/_HOST@REALM). Several "
        "servers over one metastore, separated by commas (HOST:PORT,HOST:PORT), are used in this order, the next one "
        "once one is lost (docs/how-to/several-sparks.md). Empty: the gateway starts the embedded engine.",
        _place_or_empty,
    )
    share: bool = _setting(
        False,
        "Whether clients' sessions are shared out over several servers of that address, which must have the same "
        "configuration. Otherwise all are at one server, and the next one is used once that is lost.",
    )
    tls_ca: str = _setting(
        "",
        "PEM file of the CA certificates that its certificate is verified with. Empty: the system's.",
    )
    user: str = _setting(
        "freshgate",
        "User of the gateway's own sessions. They refresh and drop what views store, so this user must be allowed "
        "to read every base table and to write the storage database. With Kerberos, a principal of kerberos.keytab, "
        "whose part before / or @ is the user.",
        checks.filled,
    )
    password: str = _setting("", "Password of that user. Keep the file that contains it private.")
    guard_secret: str = _setting(
        "",
        "Secret by which the guard inside that Spark recognizes the gateway. `freshgate guard` makes one. Empty: that "
        "Spark has no guard. The embedded engine has one with a secret of its own.",
        checks.secret_or_empty,
    )
    ui: str = _setting(
        "",
        "URL of that server's Spark UI, for example http://spark.example:4040. Clients that wait for a refresh then "
        "see how many of its stages and tasks are done. Of several servers, their URLs separated by commas. Empty: "
        "they see only partitions. The embedded engine does not need it.",
        checks.urls_or_empty,
    )

    @property
    def place(self) -> upstream_url.UpstreamPlace | None:
        """Where the servers are; None for the embedded engine."""
        return upstream_url.place_of(self.address) if self.address else None


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS for clients. A replaced certificate and key are loaded within seconds."""

    certificate: str = _setting("", "PEM file of the certificate and its intermediate certificates. Empty: no TLS.")
    key: str = _setting("", "PEM file of its key, without a password. Empty: the key is in the certificate's file.")
    client_ca: str = _setting(
        "",
        "PEM file of CA certificates; clients must present a certificate issued by one of them. Empty: clients need "
        "none.",
    )
    ports: tuple[str, ...] = _setting(
        PORTS,
        "Ports that use TLS: binary, http, page. Omit http and page if a web proxy on this machine terminates TLS.",
        checks.some_of(*PORTS),
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """The embedded Spark, used when upstream.address is empty."""

    accept_user_code: bool = _setting(
        False,
        "Whether the gateway may accept connections from other machines with the embedded engine. Spark's SQL can "
        "run programs and read files as the account that runs it, so everybody who can log in has that account "
        "(docs/how-to/security.md).",
    )
    spark: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        metadata={
            "why": "Any Spark setting, by Spark's name. It takes precedence over the gateway's own choice, such as "
            "that of spark.master (local[*]: this machine; spark://..., yarn and k8s://... are clusters) and of "
            "spark.driver.memory (2g: the Java heap, which is all of Spark with a local master). Example: "
            'driver.memory = "8g" below [engine.spark], or --set engine.spark.driver.memory=8g.',
            "check": None,
        },
    )

    @property
    def master(self) -> str:
        """Spark's master."""
        return self.spark.get("spark.master", LOCAL_MASTER)


@dataclass(frozen=True, slots=True)
class Storage:
    """Where materialized views store their rows."""

    database: str = _setting(
        "freshgate_storage",
        "Database of the storage tables. It is separate so that they do not clutter the users' databases.",
        checks.storage_database,
    )
    definition_characters: int = _setting(
        32000,
        "Longest definition. Spark stores it in the metastore, and the embedded Derby stores 32,700 characters; "
        "raise it for a metastore on MySQL or PostgreSQL.",
        checks.at_least(100),
    )
    iceberg_catalog: str = _setting(
        "",
        "Spark's catalog with the Iceberg tables of materialized views that are created USING ICEBERG, such as lake. "
        "Its cache-enabled must be false. Empty: USING ICEBERG is refused.",
        checks.catalog_name,
    )
    delta_catalog: str = _setting(
        "",
        "Spark's catalog with the Delta tables of materialized views that are created USING DELTA: spark_catalog, if "
        "its class is that of Delta Lake. Empty: USING DELTA is refused.",
        checks.catalog_name,
    )
    iceberg_view_metadata: bool = _setting(
        False,
        "Whether views that are created USING ICEBERG from now on have what the draft of Iceberg's specification of "
        "materialized views asks for: a view in the catalog beside the table, if the catalog keeps views, and "
        "refresh-state in the summaries of snapshots.",
    )
    locations: tuple[str, ...] = _setting(
        (),
        "Directories that may contain the LOCATION of a materialized view, written as in the clause: /data/views or "
        "hdfs://name/views. They should contain nothing else. Empty: LOCATION is refused.",
    )


@dataclass(frozen=True, slots=True)
class Access:
    """Rights to materialized views, besides those of their owners."""

    administrators: tuple[str, ...] = _setting(
        (),
        "Users and groups (group:NAME) who may alter, refresh and drop every materialized view. The owner of a view is "
        "its creator until ALTER MATERIALIZED VIEW ... OWNER TO changes that. Names are login names.",
        access_list.problem_of,
    )
    impersonators: tuple[str, ...] = _setting(
        (),
        "Accounts that may open sessions in the name of other users (hive.server2.proxy.user), as Superset does: "
        "ACCOUNT: USER, USER from HOST, HOST, such as superset: * from 10.0.0.7. group:NAME is a group of the named "
        "user. * is everybody. Administrators are meant only by a rule with their names; without from, the account may "
        "log in from anywhere.",
        _impersonators,
    )
    rights_seconds: float = _setting(
        600.0,
        "How long a user may get the rows of a materialized view after losing the right to them without the gateway's "
        "knowledge: as long, results are given again, proofs are used that a view answers a query, and a user for whom "
        "Spark has planned the definition of a view with SECURITY INVOKER as it is refreshed is shown its stored rows.",
        checks.at_least(1),
    )
    security: str = _setting(
        "definer",
        "The SECURITY of new materialized views whose CREATE names none: definer (every reader is shown the same rows) "
        "or invoker (each reader is shown the rows that the definition has for that user).",
        checks.one_of(*SECURITY),
    )


@dataclass(frozen=True, slots=True)
class SessionRules:
    """Settings of clients' sessions. Names may have * for any characters; docs/how-to/limits.md describes them."""

    refused: tuple[str, ...] = _setting(
        (), "Settings that clients may not set: SET, RESET and a session opened with them are refused with an error."
    )
    ignored: tuple[str, ...] = _setting(
        (), "Settings that clients may not set, and whose values are ignored silently, for tools that always send them."
    )
    forced: tuple[str, ...] = _setting(
        (),
        "NAME=VALUE of settings that each session has from its beginning, whatever its client sends. They are refused, "
        "or ignored if session.ignored names them.",
        _forced,
    )
    hidden: tuple[str, ...] = _setting(
        (),
        "Settings that SET and SET -v do not show, such as *password*. Sessions then have "
        "spark.sql.variable.substitute=false, because ${NAME} in a statement would show them.",
    )


@dataclass(frozen=True, slots=True)
class Versions:
    """Old contents of materialized views."""

    retention: float = _setting(
        60.0,
        "Seconds that a replaced version is kept, for readers that planned their query just before the switch, and "
        "for SELECT ... VERSION AS OF.",
        checks.at_least(0),
    )
    max_count: int = _setting(
        0,
        "Most versions of one view at the same time: the current one, older ones that are read or retained, and the "
        "one that a refresh writes. A refresh that would exceed it waits. 0: unlimited.",
        checks.none_or_at_least(2),
    )
    max_bytes: int = _setting(
        0,
        "Most bytes of all versions of one view together, including the one that a refresh writes; measured at each "
        "refresh, which takes a few tenths of a second. A refresh that would exceed it waits. 0: unlimited.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Refresh:
    """Refreshes of materialized views."""

    max_concurrent: int = _setting(
        4,
        "Refreshes that run at the same time. The limit leaves Spark room for the clients' queries.",
        checks.at_least(1),
    )
    run_as: str = _setting(
        "auto",
        "In whose name the refreshes of new views with SECURITY DEFINER read rows: owner (as hive.server2.proxy.user, "
        "which Spark must allow upstream.user; owners need the right to write the storage database), account "
        '(upstream.user), or auto: owner with authentication.hand_on = "proxy_user", otherwise account.',
        checks.one_of("auto", "owner", "account"),
    )
    timeout: float = _setting(
        0.0, "Seconds after which a refresh, with all its retries, is cancelled at Spark. 0: never.", checks.at_least(0)
    )


@dataclass(frozen=True, slots=True)
class Jobs:
    """Refreshes in the background: ON SCHEDULE, ON COMMIT and TARGET LAG."""

    time_zone: str = _setting(
        "UTC",
        "Time zone of STARTS and cron expressions that name none, such as Europe/Berlin.",
        checks.time_zone,
    )
    watch_interval: float = _setting(
        300.0,
        "Seconds between observations of the base tables of ON COMMIT views, which find changes that bypassed the "
        "gateway. Each costs Spark a listing of the table's files. Tables of views with a TARGET LAG are observed as "
        "often as it needs. 0: only after the start, these as well.",
        checks.at_least(0),
    )
    pause_after_failures: int = _setting(
        5,
        "Failures in a row after which the gateway pauses the job of a view. Refreshes that reads or statements start "
        "do not count, nor those for which Spark was not reached. 0: never.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Detection:
    """Detection of changes to base tables that bypassed the gateway."""

    probe_interval: float = _setting(
        30.0,
        "Seconds that an observation of a base table stays valid: reads see a change that bypassed the gateway at "
        "most this much later. 0: every read observes. A view's property probe_interval takes precedence.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that keep one client from starving the others."""

    connections: int = _setting(
        2000,
        "Concurrent client connections, and as many sessions over HTTP, each of which keeps a connection to Spark. The "
        "embedded Spark has 4000 threads for them and their sessions' second connections.",
        checks.at_least(1),
    )
    sessions_per_user: int = _setting(
        1000,
        "Open sessions of one user, so that a leaking connection pool cannot exhaust Spark's memory. A rule of "
        "limits.rules that names the user takes precedence. 0: unlimited.",
        checks.at_least(0),
    )
    rules: tuple[str, ...] = _setting(
        (),
        "Most sessions, statements that run at a time, and statements that wait for them: WHO: sessions N, statements "
        "N, queue N. WHO is a user, group:NAME, address:NETWORK or *; all whom it names have these numbers together, "
        "or each of them with the word each: group:analysts each: sessions 20, statements 4, queue 10 "
        "(docs/how-to/limits.md).",
        limit_rules.problem_of,
    )
    statement_bytes: int = _setting(
        8388608,
        "Longest statement: 8 MiB. Spark's parser takes about a hundred times as much memory. A request may be twice "
        "as long, and at least 16 MiB.",
        checks.at_least(1024),
    )
    idle_seconds: float = _setting(
        604800.0,
        "Time without a request after which a client's connection is closed, together with the sessions that it "
        "opened: a week, as in Spark. 0: never.",
        checks.at_least(0),
    )
    http_session_seconds: float = _setting(
        14400.0,
        "Time without a request after which a session opened over HTTP is closed, because nothing else tells that "
        "its client is gone. 0: never.",
        checks.at_least(0),
    )
    drain_seconds: float = _setting(
        30.0,
        "Time that running statements have to end when the gateway is stopped, during which it accepts no new ones; "
        "then it ends within 20 seconds. A second signal ends the wait.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Queries on base tables that are answered from materialized views; docs/how-to/rewriting.md describes them."""

    new_views: bool = _setting(
        False,
        "Whether a new view takes part if CREATE has neither ENABLE nor DISABLE QUERY REWRITE. Without such views, "
        "every query on base tables is forwarded unchanged.",
    )
    wait: float = _setting(
        0.0,
        "Longest time in seconds that a query of a new shape waits for the proof that a view answers it. 0: it is sent "
        "to Spark at once, and later queries of that shape use the view.",
        checks.at_least(0),
    )
    canary: int = _setting(
        300,
        "One of so many answers from views, chosen by chance, is compared with that of the client's own text, in the "
        "background and one at a time. If they differ, the view answers no further queries. 0: none is compared.",
        checks.at_least(0),
    )
    partly_stale: bool = _setting(
        False,
        "Whether a partitioned view with a few stale partitions answers queries: the rows of these partitions are "
        "computed from the base tables, and the others come from the view.",
    )
    advice: bool = _setting(
        False,
        "Whether queries that no view answers are counted by their shapes, so that freshgate.suggested_views can say "
        "which views would answer them. That costs up to a tenth of a millisecond after each query, and the memory of "
        "at most 2000 texts.",
    )


@dataclass(frozen=True, slots=True)
class ResultCache:
    """Results of reads of materialized views that are kept in memory; docs/how-to/result-cache.md describes it."""

    bytes: int = _setting(
        256 << 20, "Most bytes of all results that are kept. 0: none is kept.", checks.none_or_at_least(1 << 20)
    )
    shared: bool = _setting(
        False,
        "Whether all users may share results. Only if all of them see the same rows of every materialized view.",
    )


@dataclass(frozen=True, slots=True)
class ViewsInMemory:
    """Views whose rows are held in memory (IN MEMORY); docs/how-to/memory.md. They need freshgate[memory]."""

    bytes: int = _setting(
        512 << 20,
        "Memory of all views together, in a process of its own that starts with the first such view. The views that "
        "were not read for the longest time make room for others. 0: no view is held in memory.",
        checks.none_or_at_least(16 << 20),
    )
    view_bytes: int = _setting(
        64 << 20, "Most bytes of one view in memory. A larger one is read from Spark.", checks.at_least(1 << 20)
    )
    view_rows: int = _setting(2_000_000, "Most rows of one view in memory.", checks.at_least(1))
    reads_per_day: int = _setting(
        0,
        "A view that was read at least so often within 24 hours is held in memory without being asked for, unless it "
        "says NOT IN MEMORY. 0: only views with IN MEMORY are.",
        checks.at_least(0),
    )
    table_queries: int = _setting(
        3,
        "A base table is held in memory, too, once so many queries have joined it with views in memory. 0: none is.",
        checks.at_least(0),
    )
    table_probe_interval: float = _setting(
        0.0,
        "Seconds that an observation of a base table in memory stays valid for queries that join it with views: they "
        "see a change that bypassed the gateway at most this much later. 0: every such query observes, as Spark would.",
        checks.at_least(0),
    )
    threads: int = _setting(2, "Processor cores that one query of views in memory may use.", checks.between(1, 256))
    query_seconds: float = _setting(
        10.0, "Time after which a query in memory is given up, and Spark answers it.", checks.at_least(0.1)
    )
    canary: int = _setting(
        100,
        "One of so many answers from memory is compared with Spark's in the background. 0: none.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Log:
    """Log and audit."""

    level: str = _setting("INFO", "Lowest level logged: DEBUG, INFO, WARNING or ERROR.", checks.one_of(*LOG_LEVELS))
    format: str = _setting("text", "text, for people, or json: one object per line.", checks.one_of(*LOG_FORMATS))
    audit: str = _setting(
        "",
        "File that gets one line of JSON for each statement, login and end of a session; - is standard error. "
        "Passwords are redacted. Empty: no audit.",
    )
    audit_characters: int = _setting(
        10000,
        "Characters of a statement's text that the audit keeps, at most 200000. 0: none, because statements may "
        "contain data that must not be stored.",
        checks.between(0, 200_000),
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics for Prometheus and probes for orchestrators: GET /metrics, /healthz, /readyz."""

    port: int = _setting(0, "TCP port for these, over plain HTTP without a login. 0: none.", checks.between(0, 65535))
    host: str = _setting(
        "127.0.0.1",
        "Address to listen on. The metrics contain the names of materialized views; 0.0.0.0 shows them to every "
        "network that reaches this machine.",
        checks.filled,
    )
    hosts: tuple[str, ...] = _setting(
        (),
        "Names by which scrapers and probes reach the port, as in listen.http_hosts. Requests of web pages of another "
        "origin are always refused.",
        checks.host_names,
    )


@dataclass(frozen=True, slots=True)
class Notify:
    """Where alerts go besides the log and the metrics; docs/how-to/monitoring.md describes them."""

    url: str = _setting("", "Address to which each alert is sent with POST. Empty: none.", checks.webhook_or_empty)
    secret: str = _setting("", "With this the alerts are signed, so that the receiver knows them. Empty: unsigned.")


@dataclass(frozen=True, slots=True)
class LineageTarget:
    """Where OpenLineage events go; docs/how-to/lineage.md describes them. They need freshgate[openlineage]."""

    url: str = _setting(
        "",
        "Address to which each event is sent with POST, such as http://marquez.example:5000. One without a path gets "
        "/api/v1/lineage. Empty: nothing is sent.",
        checks.webhook_or_empty,
    )
    namespace: str = _setting("freshgate", "Namespace of the jobs, each of which is a view.", checks.filled)
    api_key: str = _setting("", "Sent as a bearer token. Empty: none.")
    metastore: str = _setting(
        "",
        "Namespace of the metastore's tables, where Spark's settings do not name it: hive://HOST:PORT if a "
        "hive-site.xml does, arn:aws:glue:REGION:ACCOUNT for Glue. Empty: as Spark's settings say.",
        checks.metastore_or_empty,
    )


@dataclass(frozen=True, slots=True)
class PagePort:
    """The page for browsers; docs/how-to/page.md describes it. It needs freshgate[page]."""

    port: int = _setting(0, "TCP port of the page. 0: none.", checks.between(0, 65535))
    host: str = _setting(
        "127.0.0.1",
        "Address to listen on. Any other than this machine's needs TLS, here or at one of listen.trusted_proxies, and "
        "an authentication.method.",
        checks.filled,
    )
    hosts: tuple[str, ...] = _setting(
        (), "Names by which browsers reach the page, as in listen.http_hosts.", checks.host_names
    )
    client_id: str = _setting(
        "",
        "The page's id at the identity provider of jwt.issuer, where its users then log in (OpenID Connect). Register "
        "https://HOST/login/return there. Empty: they log in with passwords only.",
    )
    client_secret: str = _setting(
        "", "Its secret there; keep the file that contains it private. Empty: a public client, which PKCE protects."
    )


@dataclass(frozen=True, slots=True)
class Gateways:
    """Several gateways over one metastore; docs/how-to/several-gateways.md describes them."""

    enabled: bool = _setting(
        False,
        "Whether other gateways may be started over the same metastore and storage database. All of them need the same "
        "settings, except for addresses. False: a second one does not start.",
    )
    address: str = _setting(
        "",
        "HOST:PORT at which the other gateways reach this one, besides the ports for clients. It listens there.",
        _address_or_empty,
    )
    secret: str = _setting(
        "",
        "Secret by which gateways recognize each other, the same for all. Keep the file that contains it private.",
        checks.secret_or_empty,
    )
    tls_ca: str = _setting(
        "",
        "PEM file of the CA certificates by which gateways verify each other's tls.certificate; it must be valid for "
        "the host of gateways.address. Empty: passwords cross the network between gateways unencrypted.",
    )
    trust_clock: bool = _setting(
        True,
        "Whether the leading gateway may measure how old its last look at its epoch is: then it looks once a second. "
        "False, for virtual machines that are frozen together with their clocks: each statement waits for a look.",
    )
    wait_seconds: float = _setting(
        15.0,
        "How long a new client waits while no gateway leads, because one is starting or taking over.",
        checks.at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Discovery:
    """ZooKeeper, in which Hive's drivers find the gateway, or several of them (docs/how-to/several-gateways.md)."""

    zookeeper: str = _setting(
        "",
        "Servers of ZooKeeper: HOST:PORT, separated by commas. Needs the extra freshgate[zookeeper]. Empty: none.",
        checks.zookeeper_or_empty,
    )
    namespace: str = _setting(
        "freshgate",
        "Path in ZooKeeper below which the gateway registers: zooKeeperNamespace of the drivers' URLs. If there is a "
        "binary port, the HTTP port is registered below this path with _http at its end.",
        checks.znode_path,
    )
    address: str = _setting(
        "",
        "HOST or HOST:PORT at which clients reach this gateway. Empty: listen.host, or, if that is every interface, "
        "the host of gateways.address or the name of this machine. PORT is needed if clients use another port than "
        "the one on which the gateway listens.",
        _host_or_address_or_empty,
    )
    user: str = _setting(
        "", "User for ZooKeeper (scheme digest). Then nobody else may delete the gateway's registration. Empty: none."
    )
    password: str = _setting("", "Password of that user. Keep the file that contains it private.")

    @property
    def path(self) -> str:
        """The namespace as an absolute path."""
        return f"/{self.namespace.strip('/')}"

    @property
    def place(self) -> Address | None:
        """`address`; port 0: that on which the gateway listens."""
        if not self.address:
            return None
        host = self.address.removeprefix("[").removesuffix("]")
        return Address(host, 0) if _is_host(self.address) else Address.parse(self.address)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The attribute path is the setting's name."""

    data_dir: str = _setting(
        "freshgate-data",
        "Directory of the embedded engine: metastore, warehouse, logs. Only one gateway at a time can use it. Every "
        "gateway also keeps a draft of the views there, with which its next start is quicker.",
        checks.filled,
    )
    healing: tuple[str, ...] = _setting(
        HEALED,
        "Faults of Spark's Thrift Server that the gateway corrects; docs/internals/healing.md describes each. Others "
        "are early_metadata, ddl_columns, long_pages, and show_tables_for_all in the place of show_tables. They change "
        "answers on which a client may rely.",
        checks.each_of(*HEALINGS),
    )
    listen: Listen = field(default_factory=Listen)
    tls: Tls = field(default_factory=Tls)
    authentication: Authentication = field(default_factory=Authentication)
    ldap: Ldap = field(default_factory=Ldap)
    jwt: Jwt = field(default_factory=Jwt)
    kerberos: Kerberos = field(default_factory=Kerberos)
    groups: GroupSources = field(default_factory=GroupSources)
    upstream: Upstream = field(default_factory=Upstream)
    engine: Engine = field(default_factory=Engine)
    gateways: Gateways = field(default_factory=Gateways)
    discovery: Discovery = field(default_factory=Discovery)
    storage: Storage = field(default_factory=Storage)
    access: Access = field(default_factory=Access)
    session: SessionRules = field(default_factory=SessionRules)
    versions: Versions = field(default_factory=Versions)
    refresh: Refresh = field(default_factory=Refresh)
    jobs: Jobs = field(default_factory=Jobs)
    staleness: Detection = field(default_factory=Detection)
    limits: Limits = field(default_factory=Limits)
    rewrite: Rewrite = field(default_factory=Rewrite)
    result_cache: ResultCache = field(default_factory=ResultCache)
    memory: ViewsInMemory = field(default_factory=ViewsInMemory)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    notify: Notify = field(default_factory=Notify)
    lineage: LineageTarget = field(default_factory=LineageTarget)
    page: PagePort = field(default_factory=PagePort)
