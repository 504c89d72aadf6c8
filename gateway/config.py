"""Every setting: its name, type, default and reason.

A setting's name is its path in the dataclasses below (`listen.port`). Values of time are in seconds, values of size in
bytes. `settings_file` reads and prints them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from gateway.checks import Check
from gateway.checks import at_least as _at_least
from gateway.checks import attribute_name as _attribute_name
from gateway.checks import attribute_name_or_empty as _attribute_name_or_empty
from gateway.checks import between as _between
from gateway.checks import dn_patterns as _dn_patterns
from gateway.checks import filled as _filled
from gateway.checks import ldap_urls as _ldap_urls
from gateway.checks import networks as _networks
from gateway.checks import none_or_at_least as _none_or_at_least
from gateway.checks import one_of as _one_of
from gateway.checks import path as _path
from gateway.checks import some_of as _some_of
from gateway.checks import storage_database as _storage_database
from gateway.checks import time_zone as _time_zone
from gateway.checks import url_or_empty as _url_or_empty

TRANSPORTS = ("sasl", "nosasl")
UPSTREAM_TRANSPORTS = (*TRANSPORTS, "http")
PORTS = ("binary", "http")
OFF = -1
"""As a port: not listened on."""
METHODS = ("none", "file", "ldap")
HAND_ON = ("replay", "proxy_user")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
LOG_FORMATS = ("text", "json")


class ConfigError(Exception):
    """A setting that does not exist, or a value that it cannot have. The message names both and the way out."""


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `HOST:PORT`; an IPv6 host stands in brackets. Raises ConfigError."""
        host, colon, port = text.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(f"'{text}' is not an address. Write HOST:PORT, for example 127.0.0.1:10000.")
        return cls(host, int(port))


def _address_or_empty(value: Any) -> str | None:
    if value:
        try:
            Address.parse(value)
        except ConfigError:
            return "must be HOST:PORT, such as 127.0.0.1:10000"
    return None


def _setting(default: Any, why: str, check: Check | None = None) -> Any:
    return field(default=default, metadata={"why": why, "check": check})


@dataclass(frozen=True, slots=True)
class Listen:
    """Where clients connect."""

    host: str = _setting(
        "127.0.0.1",
        "Address to listen on. Only this machine by default, because nothing checks passwords before Spark does; "
        "0.0.0.0 serves every interface.",
        _filled,
    )
    port: int = _setting(
        10000,
        "TCP port of the binary transport; 10000 is HiveServer2's own. 0 picks a free one, -1 is none.",
        _between(OFF, 65535),
    )
    http_port: int = _setting(
        OFF,
        "TCP port of the HTTP transport (transportMode=http), which passes through web proxies; 10001 is HiveServer2's "
        "own. 0 picks a free one, -1 is none.",
        _between(OFF, 65535),
    )
    http_path: str = _setting("/cliservice", "Path of that transport (httpPath in JDBC URLs).", _path)
    http_cookie_seconds: float = _setting(
        3600.0,
        "How long a cookie stands for user and password over HTTP, so that they are sent and checked once. A user who "
        "is removed is served so much longer at most, and authentication.remember_seconds more. 0: no cookies.",
        _at_least(0),
    )
    trusted_proxies: tuple[str, ...] = _setting(
        (),
        "Addresses and networks of the web proxies in front of that transport. Log and audit then name the client's "
        "address as they tell it (X-Forwarded-For), and not theirs. Empty: nobody is believed.",
        _networks,
    )
    transports: tuple[str, ...] = _setting(
        TRANSPORTS,
        "How clients may talk: sasl (Hive JDBC's and PyHive's default, with user and password), nosasl "
        "(auth=noSasl). Both share the port.",
        _some_of(*TRANSPORTS),
    )


@dataclass(frozen=True, slots=True)
class Authentication:
    """Who may log in, and how a user is handed on to Spark."""

    method: str = _setting(
        "none",
        "Who checks user and password: none (nobody before Spark does), file (authentication.users_file) or ldap (the "
        'table [ldap]). authentication = "file" is another spelling, for a file of settings without this table.',
        _one_of(*METHODS),
    )
    users_file: str = _setting(
        "freshgate-users",
        "File of the users and the argon2 hashes of their passwords. `freshgate user add NAME` writes it; the gateway "
        "reads it again when it has changed.",
        _filled,
    )
    refusal_delay: float = _setting(
        1.0,
        "Seconds after which a refused login is answered, so that guessing passwords takes time. Nobody else waits.",
        _between(0, 60),
    )
    concurrent_checks: int = _setting(
        8,
        "Passwords that are checked at one time; further logins wait. An argon2 hash takes 64 MiB of memory meanwhile, "
        "a directory one connection.",
        _between(1, 256),
    )
    remember_seconds: float = _setting(
        60.0,
        "How long a password that was right over HTTP is not checked again, for clients that send it with each request "
        "and keep no cookie. A users file that has changed counts at once, what has changed in a directory or at Spark "
        "after so long. 0: the password of each connection is checked, which with the method none takes one more "
        "connection to Spark. Idle connections to Spark are kept for the next login with the same name and password no "
        "longer than this, either.",
        _at_least(0),
    )
    hand_on: str = _setting(
        "replay",
        "How a user whom file or ldap has let in is handed on to Spark: replay (his own name and password) or "
        "proxy_user (upstream.user logs in, and names him as hive.server2.proxy.user; Spark must allow that).",
        _one_of(*HAND_ON),
    )


@dataclass(frozen=True, slots=True)
class Ldap:
    """The directory of authentication.method ldap, set as hive.server2.authentication.ldap.* (docs/how-to/login.md)."""

    url: str = _setting(
        "",
        "URLs of the directory, tried in order, such as ldaps://ldap.example. Over ldap:// without start_tls passwords "
        "can be read on the network.",
        _ldap_urls,
    )
    start_tls: bool = _setting(False, "Whether connections to ldap:// URLs are encrypted by StartTLS, or not used.")
    ca: str = _setting("", "File of the certificates (PEM) that may vouch for the directory. Empty: the system's.")
    timeout: int = _setting(
        10, "Seconds to wait for a connection to the directory, and for each of its answers.", _between(1, 600)
    )
    base_dn: str = _setting("", "Where users and groups are, such as dc=example,dc=com (baseDN).")
    domain: str = _setting(
        "", "Domain to log in with: ada becomes ada@example.com, as Active Directory has it (Domain)."
    )
    user_dn_pattern: str = _setting(
        "",
        "DNs of users with %s for the name, with colons between them, such as uid=%s,ou=people,dc=example,dc=com "
        "(userDNPattern). Empty: the guid_key below base_dn.",
        _dn_patterns,
    )
    group_dn_pattern: str = _setting(
        "", "The same of groups (groupDNPattern). Empty: anywhere below base_dn.", _dn_patterns
    )
    user_filter: tuple[str, ...] = _setting((), "Users who may log in (userFilter). Empty: every user.")
    group_filter: tuple[str, ...] = _setting(
        (), "Groups whose members may log in (groupFilter). Empty: members of any group, and of none."
    )
    guid_key: str = _setting("uid", "Attribute that names an entry (guidKey).", _attribute_name)
    group_membership_key: str = _setting(
        "member", "Attribute of a group that lists its members (groupMembershipKey).", _attribute_name
    )
    user_membership_key: str = _setting(
        "",
        "Attribute of a user that lists the groups, such as memberOf (userMembershipKey). Where it is set, it is used "
        "in place of group_membership_key.",
        _attribute_name_or_empty,
    )
    group_class_key: str = _setting("groupOfNames", "objectClass of groups (groupClassKey).", _attribute_name)
    custom_ldap_query: str = _setting(
        "",
        "Filter below base_dn that finds the users who may log in, or groups that list them (customLDAPQuery). Where "
        "it is set, user_filter and group_filter do not count.",
    )
    bind_dn: str = _setting(
        "",
        "Account that searches the directory (binddn): with it a user's entry is searched for, and its DN logs in. "
        "Empty: users search for themselves.",
    )
    bind_password: str = _setting("", "Password of that account (bindpw). Keep the file that holds it private.")


@dataclass(frozen=True, slots=True)
class Upstream:
    """The Spark Thrift Server behind the gateway, and how the gateway's own sessions log in there."""

    address: str = _setting(
        "",
        "HOST:PORT of an existing Spark Thrift Server, or its JDBC URL, of which transportMode, httpPath, ssl and auth "
        "count as the settings below. Empty: the embedded engine is started.",
        _address_or_empty,
    )
    transport: str = _setting("sasl", "What that server speaks: sasl, nosasl or http.", _one_of(*UPSTREAM_TRANSPORTS))
    http_path: str = _setting("/cliservice", "Path of a server that speaks http.", _path)
    tls: bool = _setting(False, "Whether that server speaks TLS (hive.server2.use.SSL).")
    tls_ca: str = _setting(
        "",
        "PEM file of the authorities that its certificate may be of. Empty: those that this machine trusts.",
    )
    user: str = _setting(
        "freshgate",
        "User of the gateway's own sessions. They refresh and drop what views store, so this user must be allowed to "
        "read every base table and to write the storage database.",
        _filled,
    )
    password: str = _setting("", "Password of that user. Keep the file that holds it private.")
    read_ahead: bool = _setting(
        True,
        "Whether Spark, if it speaks sasl, makes the next page of rows while the client works on the last one; the "
        "gateway keeps up to limits.buffer_bytes of it. Never with spark.sql.thriftServer.incrementalCollect.",
    )
    ui: str = _setting(
        "",
        "URL of that server's Spark UI, for example http://spark.example:4040: who waits for a refresh is told there "
        "how many of its stages and tasks are done. Empty: only partitions are told. The embedded engine needs none.",
        _url_or_empty,
    )


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS towards clients. A certificate and key that are replaced are taken over within seconds."""

    certificate: str = _setting(
        "", "PEM file of the certificate and those between it and its authority. Empty: no TLS."
    )
    key: str = _setting("", "PEM file of its key, without a password. Empty: it stands in the certificate's file.")
    client_ca: str = _setting(
        "", "PEM file of authorities; clients must show a certificate of one of them. Empty: they need none."
    )
    ports: tuple[str, ...] = _setting(
        PORTS,
        "Which ports speak TLS: binary, http. Without http it can be left to a web proxy on this machine.",
        _some_of(*PORTS),
    )


@dataclass(frozen=True, slots=True)
class Engine:
    """The embedded Spark, used when upstream.address is empty."""

    master: str = _setting(
        "local[*]", "Spark master: local[*] is this machine; spark://..., yarn and k8s://... name a cluster.", _filled
    )
    driver_memory: str = _setting("2g", "Java heap of the driver, which is all of Spark with a local master.", _filled)
    start_timeout: float = _setting(
        120.0, "Seconds to wait for Spark to start. A cluster may queue the application.", _at_least(1)
    )
    accept_user_code: bool = _setting(
        False,
        "Whether the gateway may listen beyond this machine with the embedded engine. Spark's SQL runs programs and "
        "reads files as the account that runs it, so whoever is let in has that account (docs/how-to/security.md).",
    )
    silent_seconds: float = _setting(
        40.0,
        "Seconds after which Spark is killed and started again where it lets nobody log in, though its process lives: "
        "a server that hangs does not end by itself. More than its longest collection of garbage takes. 0: never.",
        _none_or_at_least(10),
    )
    spark: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({}),
        metadata={
            "why": "Any Spark setting, named as Spark names it. They win over the gateway's own choices. Example: "
            'sql.shuffle.partitions = "64" below [engine.spark], or '
            "--set engine.spark.sql.shuffle.partitions=64.",
            "check": None,
        },
    )


@dataclass(frozen=True, slots=True)
class Storage:
    """Where materialized views keep their rows."""

    database: str = _setting(
        "freshgate_storage",
        "Database of the storage tables. One of its own, so that they do not clutter the users' databases.",
        _storage_database,
    )
    definition_characters: int = _setting(
        32000,
        "Longest definition. Spark keeps it in the metastore, and the embedded Derby stores 32,700 characters; raise "
        "it for a metastore on MySQL or PostgreSQL.",
        _at_least(100),
    )
    check_interval: float = _setting(
        600.0,
        "Seconds after which the gateway looks at that database again: for what a killed gateway left that Spark made "
        "only later, and for views of which somebody dropped a part.",
        _at_least(1),
    )
    locations: tuple[str, ...] = _setting(
        (),
        "Directories below which the LOCATION of a materialized view may lie, written as there: /data/views or "
        "hdfs://name/views. Best such that hold nothing else. Empty: LOCATION is refused.",
    )
    listed: bool = _setting(
        False,
        "Whether that database stands in SHOW DATABASES and in what tools list. Users have no business in it.",
    )


@dataclass(frozen=True, slots=True)
class Access:
    """Who may change materialized views, beside their owners."""

    administrators: tuple[str, ...] = _setting(
        (),
        "Users who may alter, refresh and drop every materialized view. A view's owner is who created it, until ALTER "
        "MATERIALIZED VIEW ... OWNER TO says otherwise. Names are as the clients log in.",
    )


@dataclass(frozen=True, slots=True)
class Versions:
    """Old contents of materialized views."""

    retention: float = _setting(
        60.0,
        "Seconds that a replaced version is kept, for readers that planned their query just before the switch, and for "
        "SELECT ... VERSION AS OF.",
        _at_least(0),
    )
    max_count: int = _setting(
        0,
        "Versions of one view that may be kept at one time: the current one, older ones that are read or retained, and "
        "the one that a refresh writes. A refresh that would be one too many waits. 0: any number.",
        _none_or_at_least(2),
    )
    max_bytes: int = _setting(
        0,
        "Bytes that the versions of one view may take together, the one that a refresh writes included; measured at "
        "each refresh, which takes some tenths of a second. A refresh that would take more waits. 0: any number.",
        _at_least(0),
    )
    wait: float = _setting(
        300.0,
        "Seconds that a refresh waits for older versions to go where max_count or max_bytes keep it; then it fails and "
        "says who reads them.",
        _at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Refresh:
    """Recomputing materialized views."""

    max_concurrent: int = _setting(
        4, "Refreshes that run at one time, so that they leave Spark room for the clients' queries.", _at_least(1)
    )
    retries: int = _setting(
        2,
        "How often a refresh that a schedule, a base table or REFRESH started is tried again, where the error may pass "
        "by itself: Spark was lost, or a task of it died. A read hears of the error at once, and the next one tries.",
        _at_least(0),
    )
    retry_wait: float = _setting(
        5.0, "Seconds before the first such try; before each later one twice as long.", _at_least(0)
    )
    timeout: float = _setting(
        0.0, "Seconds after which a refresh is cancelled at Spark, with all its tries. 0: never.", _at_least(0)
    )


@dataclass(frozen=True, slots=True)
class Jobs:
    """Refreshes that nobody waits for: ON SCHEDULE and ON COMMIT."""

    time_zone: str = _setting(
        "UTC",
        "In which STARTS and cron expressions are meant that name no time zone, such as Europe/Berlin.",
        _time_zone,
    )
    watch_interval: float = _setting(
        300.0,
        "Seconds after which the base tables of ON COMMIT views are looked at again, for changes that were made past "
        "the gateway. Each look costs Spark a listing of the table's files. 0: only after the start.",
        _at_least(0),
    )
    allow_second_schedules: bool = _setting(
        False, "Whether EVERY n SECOND is accepted. So short schedules keep Spark busy; they serve tests."
    )


@dataclass(frozen=True, slots=True)
class Staleness:
    """Noticing changes of base tables that were not made through the gateway."""

    probe_interval: float = _setting(
        30.0,
        "Seconds for which a look at a base table counts: a change made elsewhere is seen by reads at the latest so "
        "much later. 0: every read looks. A view's property probe_interval goes before this.",
        _at_least(0),
    )
    look_timeout: float = _setting(
        300.0,
        "Seconds that a look may take, of which few run at a time: storage that does not answer must not keep other "
        "views waiting. What took longer cannot be told to be fresh.",
        _at_least(1),
    )
    unsure_wait: float = _setting(
        10.0,
        "Seconds that a statement waits at most for stale views of which nobody can tell whether it reads them, as of "
        "a script that puts names together when it runs. Then it goes on, with a warning in its log. 0: never.",
        _at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Views:
    """Ordinary Spark views, through which a statement can read a materialized one."""

    scan_interval: float = _setting(
        30.0,
        "Seconds after which the list of a database's Spark views is read again. Views made through the gateway are "
        "known at once; this bounds the delay for views made elsewhere.",
        _at_least(0),
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that keep one client from starving the others."""

    connections: int = _setting(
        2000, "Client connections at one time; the embedded Spark has as many threads for them.", _at_least(1)
    )
    http_sessions: int = _setting(
        2000,
        "Sessions over HTTP at one time, of all users: each keeps a connection to Spark, and mostly a thread there, "
        "whether its client comes again or not. 0: any number.",
        _at_least(0),
    )
    request_bytes: int = _setting(
        16777216, "Longest request of a client: 16 MiB, far above any statement text.", _at_least(4096)
    )
    half_read_bytes: int = _setting(
        268435456,
        "Bytes of requests that have begun to come and are not complete, of all clients together: 256 MiB. Beyond it a "
        "client is closed that sends more than 64 KiB of one.",
        _at_least(1048576),
    )
    operations_per_session: int = _setting(
        10000,
        "Statements and lists of one session that may be open, so that a client that closes none cannot take all "
        "memory. 0: any number.",
        _at_least(0),
    )
    login_seconds: float = _setting(
        30.0,
        "Time a new connection has to log in, so that silent ones do not use up the connections.",
        _at_least(0.1),
    )
    sessions_per_user: int = _setting(
        1000,
        "Open sessions of one user, so that a pool that leaks cannot take all of Spark's memory. 0: any number.",
        _at_least(0),
    )
    statement_bytes: int = _setting(
        8388608,
        "Longest statement: 8 MiB. Spark's parser takes some hundred times as much memory.",
        _at_least(1024),
    )
    stall_seconds: float = _setting(
        120.0,
        "Time in which a client must take some of the rows that wait for it, and complete a request that it has begun; "
        "one that is gone without a word holds its place no longer.",
        _at_least(1),
    )
    idle_seconds: float = _setting(
        604800.0,
        "Time without a request after which a client's connection is closed, and with it the sessions that it opened: "
        "a week, as in Spark. 0: never.",
        _at_least(0),
    )
    http_session_seconds: float = _setting(
        14400.0,
        "Time without a request after which a session that was opened over HTTP is closed: there nothing else tells "
        "that a client is gone. 0: never.",
        _at_least(0),
    )
    drain_seconds: float = _setting(
        30.0,
        "Time that running statements have to end when the gateway is stopped, while it takes no new ones; then it is "
        "gone within 20 seconds. A second signal ends the wait.",
        _at_least(0),
    )
    buffer_bytes: int = _setting(
        1048576,
        "Bytes held for a peer that reads slowly, before the other side is paused. Results of any size pass through.",
        _at_least(4096),
    )


@dataclass(frozen=True, slots=True)
class Healing:
    """Faults of Spark's Thrift Server that the gateway makes good; docs/internals/healing.md describes each."""

    get_info: bool = _setting(
        True,
        "Whether the gateway answers GetInfo where Spark would close the connection: all types but the server's name "
        "and version and the list of keywords.",
    )
    key_calls: bool = _setting(
        True,
        "Whether GetPrimaryKeys and GetCrossReference without a schema are asked for the session's database. Spark "
        "fails there with a NullPointerException; beeline's !primarykeys sends such calls.",
    )
    star_patterns: bool = _setting(
        True,
        "Whether a * that Spark cannot read in the pattern of a schema or a column is sent to it as %. Spark fails "
        "there with 'Dangling meta character', for example in GetSchemas with *.",
    )
    leaked_sessions: bool = _setting(
        True,
        "Whether every session of a lost client is closed. Spark closes the one that was opened last, and keeps the "
        "others with what they run.",
    )
    lost_cancels: bool = _setting(
        True,
        "Whether a statement that is cancelled or left while Spark plans it ends there. Spark cancels the jobs that it "
        "has at that moment, and then runs those that come. Only with the embedded engine.",
    )
    early_metadata: bool = _setting(
        False,
        "Whether GetResultSetMetadata waits for the end of its statement. Asked earlier, Spark answers one column "
        "named Result, and goes on doing so after the end.",
    )
    ddl_columns: bool = _setting(
        False,
        "Whether the rows of a statement without a result have the one column, empty, that their schema tells of. "
        "From Spark they have none, which some tools show as 'Error retrieving next row'.",
    )
    show_tables: str = _setting(
        "auto",
        "Whose SHOW TABLES and SHOW VIEWS have the name in the first column, where Hive has it, and not the database. "
        "auto: those that PyHive's SQLAlchemy dialect and Superset send, which read the first column. on: everybody's. "
        "off: nobody's.",
        _one_of("auto", "on", "off"),
    )
    page_bytes: int = _setting(
        0,
        "Longest page of rows that a client gets; of a longer one it gets fewer rows. 104857600 is where Hive's JDBC "
        "driver says 'MaxMessageSize reached'. One row passes whatever its length. Not before a Spark that speaks "
        "nosasl or http, where pages have no length. 0: any length.",
        _none_or_at_least(4096),
    )


@dataclass(frozen=True, slots=True)
class Log:
    """What the gateway writes to standard error."""

    level: str = _setting("INFO", "Least level shown: DEBUG, INFO, WARNING or ERROR.", _one_of(*LOG_LEVELS))
    format: str = _setting("text", "text, for people, or json: one object a line.", _one_of(*LOG_FORMATS))
    audit: str = _setting(
        "",
        "File that gets one line of JSON for each statement, login and end of a session; - is standard error. "
        "Passwords are taken out. Empty: none is written.",
    )
    audit_characters: int = _setting(
        10000,
        "Characters of a statement's text that the audit keeps, 200000 at the most. 0: no texts, for statements may "
        "hold data that are not to be kept.",
        _between(0, 200_000),
    )


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics for Prometheus and probes for orchestrators: GET /metrics, /healthz, /readyz."""

    port: int = _setting(0, "TCP port of these, over plain HTTP and without a login. 0: none.", _between(0, 65535))
    host: str = _setting(
        "127.0.0.1",
        "Address to listen on. The metrics tell the names of materialized views; 0.0.0.0 shows them to every network "
        "that reaches this machine.",
        _filled,
    )
    check_interval: float = _setting(
        5.0,
        "Seconds between two looks whether Spark answers (SELECT 1 in a session of the gateway's own). Probes get the "
        "outcome of the last one.",
        _at_least(0.1),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. The attribute path is the setting's name."""

    data_dir: str = _setting(
        "freshgate-data",
        "Directory of the embedded engine: metastore, warehouse, logs. Only one gateway at a time can use it.",
        _filled,
    )
    listen: Listen = field(default_factory=Listen)
    tls: Tls = field(default_factory=Tls)
    authentication: Authentication = field(default_factory=Authentication)
    ldap: Ldap = field(default_factory=Ldap)
    upstream: Upstream = field(default_factory=Upstream)
    engine: Engine = field(default_factory=Engine)
    storage: Storage = field(default_factory=Storage)
    access: Access = field(default_factory=Access)
    versions: Versions = field(default_factory=Versions)
    refresh: Refresh = field(default_factory=Refresh)
    jobs: Jobs = field(default_factory=Jobs)
    staleness: Staleness = field(default_factory=Staleness)
    views: Views = field(default_factory=Views)
    limits: Limits = field(default_factory=Limits)
    healing: Healing = field(default_factory=Healing)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
