"""Reads the settings of `config`, and prints them as `conf/freshgate.toml`.

Values come from the defaults, a TOML file, and `--set name=value`; later ones take precedence.

Tests: `test_config_reference`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from gateway import removed_settings, toml_lines, upstream_url
from gateway.checks import Check
from gateway.config import EVERY_ADDRESS, OFF, ConfigError, Settings


@dataclass(frozen=True, slots=True)
class _Setting:
    """One setting, for reading and printing."""

    name: str
    type: Any
    default: Any
    why: str
    check: Check | None


@dataclass(frozen=True, slots=True)
class FileReading:
    """The settings as they were read. `sources` says for each that is not a default where its value comes from:
    `FILE:LINE`, `--set`, or the name of an option. Spark's settings are named `engine.spark....`."""

    settings: Settings
    """With the defaults in place of what has problems."""
    sources: Mapping[str, str]
    problems: tuple[str, ...]
    """Each names the place and the setting, and says what to do."""
    warnings: tuple[str, ...] = ()
    """Of settings of earlier releases, which say what replaces them."""


FREE_TABLE = "engine.spark"
SHORT_FORMS = {"authentication": "authentication.method"}
_NONE: Mapping[str, tuple[str, str]] = MappingProxyType({})
_SECRET = re.compile(
    r"(?i)secret|password|passphrase|token|credential|access[._-]?key|account[._-]?key|api[._-]?key|sas[._]"
)
"""Names of settings with secrets: the gateway's own, and those of Spark, Hadoop and their storage."""


def _settings_of(owner: Any, prefix: str = "") -> Iterator[_Setting]:
    hints = get_type_hints(type(owner))
    for item in dataclasses.fields(owner):
        value = getattr(owner, item.name)
        if dataclasses.is_dataclass(value):
            yield from _settings_of(value, f"{prefix}{item.name}.")
        else:
            why, check = item.metadata["why"], item.metadata["check"]
            yield _Setting(prefix + item.name, hints[item.name], value, why, check)


def _type_of(default: Any) -> Any:
    return tuple[str, ...] if isinstance(default, tuple) else type(default)


SETTINGS: Mapping[str, _Setting] = {item.name: item for item in _settings_of(Settings())}
REMOVED: Mapping[str, _Setting] = {
    name: _Setting(name, _type_of(removed.default), removed.default, removed.now, None)
    for name, removed in removed_settings.REMOVED.items()
}


def load(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, tuple[str, str]] = _NONE,
    warn: Callable[[str], object] = lambda _: None,
    files: Sequence[str] = (),
) -> Settings:
    """Reads the settings as `read` does, and passes each warning to `warn`. Raises ConfigError with the first
    problem."""
    reading = read(path, overrides, options, files)
    for text in reading.warnings:
        warn(text)
    if reading.problems:
        raise ConfigError(reading.problems[0])
    return reading.settings


def read(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    options: Mapping[str, tuple[str, str]] = _NONE,
    files: Sequence[str] = (),
) -> FileReading:
    """Reads the settings: defaults, then the TOML file, then `name=value` texts in order, then `name=file` texts, of
    which the value is the file's first line, then the options of the command line, each as its name (`--port`) with the
    setting's name and the value."""
    found = _Found()
    if path is not None:
        found.add_file(path)
    found.add_overrides(overrides)
    found.add_files(files)
    for option, (name, value) in options.items():
        source = f"{option} {value}"
        with found.noting():
            found.put(name, _from_text(name, value, source), source)
    with found.noting():
        for name, value in removed_settings.replaced(found.removed, found.given).items():
            found.put(name, value, "settings of an earlier release")
    if found.spark:
        found.values[FREE_TABLE] = MappingProxyType(found.spark)
    settings: Settings = _build(Settings(), found.values)
    if not found.problems:
        found.problems += _contradictions(settings)
    return FileReading(settings, found.sources, tuple(found.problems), tuple(found.warnings))


class _Found:
    """Values and problems, in the order in which they are found."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.spark: dict[str, str] = {}
        self.sources: dict[str, str] = {}
        self.removed: dict[str, Any] = {}
        self.problems: list[str] = []
        self.warnings: list[str] = []

    @property
    def given(self) -> dict[str, Any]:
        return {**self.values, **{f"engine.{name}": value for name, value in self.spark.items()}}

    @contextlib.contextmanager
    def noting(self) -> Iterator[None]:
        """Notes a ConfigError instead of raising it."""
        try:
            yield
        except ConfigError as error:
            self.problems.append(str(error))

    def add_file(self, path: Path) -> None:
        with self.noting():
            for name, value, line in _from_file(path):
                with self.noting():
                    self.put(name, value, f"{path}:{line}" if line else str(path))

    def add_overrides(self, overrides: Sequence[str]) -> None:
        spelled: dict[str, str] = {}
        for text in overrides:
            with self.noting():
                name, equals, value = text.partition("=")
                if not equals:
                    raise ConfigError(f"--set {text}: write name=value, for example --set listen.port=10001.")
                name = name.strip()
                source = f"--set {text}"
                self.put(name, _from_text(name, value, source), source)
                spelled[name] = text
        with self.noting():
            _refuse_contradictions(spelled)

    def add_files(self, files: Sequence[str]) -> None:
        """Messages name the files, never what is in them."""
        for text in files:
            with self.noting():
                name, equals, path = (part.strip() for part in text.partition("="))
                source = f"--set-file {text}"
                if not equals or not path:
                    raise ConfigError(f"{source}: write name=file, such as --set-file upstream.password=secret.txt.")
                try:
                    lines = Path(path).read_text(encoding="utf-8").splitlines()
                except OSError as error:
                    raise ConfigError(f"{source}: cannot read {path}: {error.strerror}.") from error
                except UnicodeDecodeError as error:
                    raise ConfigError(f"{source}: {path} is not UTF-8.") from error
                self.put(name, _from_text(name, lines[0] if lines else "", source), source)

    def put(self, name: str, value: Any, source: str) -> None:
        """Checks and keeps a value. `source` begins messages about it. Raises ConfigError."""
        if name == "upstream.address" and isinstance(value, str):
            # The rest may contain a password.
            source = source.partition(";")[0]
            try:
                upstream_url.place_of(value)
            except upstream_url.BadPart as error:
                raise ConfigError(f"{source}: {error}.") from None
        if name.startswith(FREE_TABLE + "."):
            # Everything after "engine." is Spark's name of the setting.
            self.spark[name.removeprefix("engine.")] = _spark_text(name, value, source)
        elif name in REMOVED:
            self.removed[name] = _typed(REMOVED[name], value, source)
            self.warnings.append(removed_settings.report(name, self.removed[name], source))
            return
        else:
            name = SHORT_FORMS.get(name, name)
            self.values[name] = _checked(name, value, source)
        # An option's source has its value, too.
        self.sources[name] = source.partition(" ")[0] if source.startswith("--") else source


def _refuse_contradictions(spelled: Mapping[str, str]) -> None:
    """Raises ConfigError if one setting is given under two names with two values, because it is unclear which is
    meant."""
    for other, name in SHORT_FORMS.items():
        texts = [spelled[each] for each in (other, name) if each in spelled]
        if len({text.partition("=")[2] for text in texts}) > 1:
            raise ConfigError(f"--set {texts[0]} and --set {texts[1]} are the same setting. Specify only one of them.")


def _contradictions(settings: Settings) -> Iterator[str]:
    """What is wrong with the combination of settings."""
    authentication = settings.authentication
    yield from _method_contradictions(settings)
    if not authentication.methods and authentication.hand_on == "proxy_user":
        yield (
            "authentication.hand_on is proxy_user, but authentication.method is none: nobody would check passwords, "
            "so anybody could log in as any user. Set authentication.method to another one."
        )
    yield from _jwt_contradictions(settings)
    yield from _kerberos_contradictions(settings)
    if settings.ldap.bind_dn and not settings.ldap.bind_password:
        yield "ldap.bind_dn is set, but ldap.bind_password is empty. Set both or neither."
    if "long_pages" in settings.healing and (place := settings.upstream.place) and place.transport != "sasl":
        yield (
            "healing names long_pages, but upstream.address does not use SASL: only SASL's frames tell the length of a "
            "page of rows. Remove long_pages, or use SASL."
        )
    yield from _gateways_contradictions(settings)
    if bool(settings.discovery.user) is not bool(settings.discovery.password):
        yield "only one of discovery.user and discovery.password is set. Set both or neither."
    yield from _port_contradictions(settings)
    yield from _tls_contradictions(settings)


def _method_contradictions(settings: Settings) -> Iterator[str]:
    """What methods of checking logins need, and what sources of groups need."""
    authentication, sources = settings.authentication, settings.groups.sources
    asked = {
        **dict.fromkeys(sources, "groups.sources names"),
        **dict.fromkeys(authentication.methods, "authentication.method is"),
    }
    if "ldap" in asked and not settings.ldap.url.strip():
        yield f"{asked['ldap']} ldap, but ldap.url is empty. Set it to the directory's URL."
    if "custom" in asked and not authentication.verifier:
        yield f"{asked['custom']} custom, but authentication.verifier is empty. Set it to the name of an entry point."
    if "ldap" in sources and "ldap" not in authentication.methods and not settings.ldap.bind_dn:
        yield (
            "groups.sources names ldap, but ldap.bind_dn is empty, and nobody else binds to the directory: "
            "authentication.method is not ldap. Set ldap.bind_dn and ldap.bind_password."
        )


def _jwt_contradictions(settings: Settings) -> Iterator[str]:
    """What checking tokens needs."""
    methods, jwt = settings.authentication.methods, settings.jwt
    if settings.page.client_id and not jwt.issuer:
        yield "page.client_id is set, but jwt.issuer is empty. Set it to the provider where users of the page log in."
    if settings.page.client_secret and not settings.page.client_id:
        yield "page.client_secret is set, but page.client_id is empty. Set both."
    if not jwt.issuer:
        if "jwt" in methods:
            yield "authentication.method is jwt, but jwt.issuer is empty. Set it to the provider of the tokens."
        return
    if not methods:
        yield (
            "jwt.issuer is set, but authentication.method is none: passwords would not be checked. Set "
            "authentication.method to jwt, or to file, ldap or custom if passwords are accepted, too."
        )
    by_page = bool(settings.page.client_id) and settings.listen.http_port == OFF
    if not jwt.audience and not by_page:
        yield (
            "jwt.issuer is set, but jwt.audience is empty: tokens that its users have for other programs would be "
            "accepted. Set it to what the provider writes into the claim aud for this gateway."
        )
    if settings.listen.http_port == OFF and not by_page:
        yield "jwt.issuer is set, but listen.http_port is -1: clients send tokens over HTTP only. Set it to a port."
    if settings.upstream.address and settings.authentication.hand_on != "proxy_user" and not by_page:
        yield (
            "jwt.issuer is set, but authentication.hand_on is replay: a user with a token has no password for Spark. "
            "Set authentication.hand_on to proxy_user."
        )
    if "://" in (jwt.keys or jwt.issuer) and any(each.startswith("HS") for each in jwt.algorithms):
        yield "jwt.algorithms names HS, whose keys are secrets, but jwt.keys is an address. Set it to a file."


def _kerberos_contradictions(settings: Settings) -> Iterator[str]:
    """What accepting tickets needs."""
    methods = settings.authentication.methods
    yield from _principal_contradictions(settings)
    if not settings.kerberos.keytab:
        if "kerberos" in methods:
            yield "authentication.method is kerberos, but kerberos.keytab is empty. Set it to the file of the keys."
        return
    if not methods:
        yield (
            "kerberos.keytab is set, but authentication.method is none: passwords would not be checked. Set "
            "authentication.method to kerberos, or to file or ldap if passwords are accepted, too."
        )
    if settings.upstream.address and settings.authentication.hand_on != "proxy_user":
        yield (
            "kerberos.keytab is set, but authentication.hand_on is replay: a ticket cannot be used again at Spark. Set "
            "authentication.hand_on to proxy_user."
        )
    if "sasl" not in settings.listen.transports and settings.listen.http_port == OFF:
        yield (
            "kerberos.keytab is set, but listen.transports does not name sasl: clients send tickets with SASL or over "
            "HTTP. Add sasl."
        )


def _principal_contradictions(settings: Settings) -> Iterator[str]:
    """What logging in at Spark with tickets needs."""
    place = settings.upstream.place
    if place is None or not place.principal:
        return
    if not settings.kerberos.keytab:
        yield "upstream.address has a principal, but kerberos.keytab is empty. Set it to a file with keys."
    if settings.authentication.hand_on != "proxy_user":
        yield (
            "upstream.address has a principal, but authentication.hand_on is replay: that server takes no "
            "passwords. Set authentication.hand_on to proxy_user."
        )


def _gateways_contradictions(settings: Settings) -> Iterator[str]:
    """What several gateways need."""
    gateways = settings.gateways
    if not gateways.enabled:
        return
    for name, value, what in (
        ("address", gateways.address, "HOST:PORT at which the other gateways reach this one"),
        ("secret", gateways.secret, "a secret that all gateways have, such as the output of openssl rand -hex 32"),
    ):
        if not value:
            yield f"gateways.enabled is true, but gateways.{name} is empty. Set it to {what}."
    if gateways.tls_ca and not settings.tls.certificate:
        yield (
            "gateways.tls_ca is set, but tls.certificate is empty: a gateway that leads would have no certificate. Set "
            "tls.certificate, or remove gateways.tls_ca."
        )
    if not settings.upstream.address:
        yield (
            "gateways.enabled is true, but upstream.address is empty: each embedded engine has a metastore of its own. "
            "Set upstream.address to the Spark Thrift Server that all gateways use."
        )


def _port_contradictions(settings: Settings) -> Iterator[str]:
    """Ports that are the same, or all closed."""
    listen, metrics = settings.listen, settings.metrics
    if listen.port == OFF and listen.http_port == OFF:
        yield "listen.port and listen.http_port are both -1: nobody could connect. Set one of them to a port."
    if listen.port > 0 and listen.port == listen.http_port:
        yield f"listen.port and listen.http_port are both {listen.port}. Set them to different ports, or one to -1."
    shared = listen.host == metrics.host or listen.host in EVERY_ADDRESS or metrics.host in EVERY_ADDRESS
    for name, port in (("listen.port", listen.port), ("listen.http_port", listen.http_port)):
        if metrics.port > 0 and metrics.port == port and shared:
            yield f"{name} and metrics.port are both {port}. Set them to different ports."


def _tls_contradictions(settings: Settings) -> Iterator[str]:
    """Settings that ask for TLS but would result in plain text, which nobody would notice."""
    listen, tls = settings.listen, settings.tls
    for name, value in (("tls.key", tls.key), ("tls.client_ca", tls.client_ca)):
        if value and not tls.certificate:
            yield (
                f"{name} is set, but tls.certificate is empty: no port would use TLS. Set tls.certificate too, or "
                f"remove {name}."
            )
    open_ports = {name for name, port in (("binary", listen.port), ("http", listen.http_port)) if port != OFF}
    if tls.certificate and open_ports.isdisjoint(tls.ports) and not settings.gateways.tls_ca:
        named, unused = (" and ".join(sorted(each)) for each in (tls.ports, open_ports))
        yield (
            f"tls.certificate is set, but no open port uses TLS: tls.ports names {named}, but the open port is "
            f"{unused}. Open {named} with listen.*, or add {unused} to tls.ports."
        )
    if settings.upstream.tls_ca and not ((place := settings.upstream.place) and place.tls):
        yield (
            "upstream.tls_ca is set, but upstream.address does not say ssl=true: the connection to Spark would not be "
            "encrypted. Write jdbc:hive2://HOST:PORT/;ssl=true, or remove upstream.tls_ca."
        )


def _from_file(path: Path) -> Iterator[tuple[str, Any, int | None]]:
    """Yields name, value and line of each setting. Raises ConfigError if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path} is not a TOML file: {error}.{_short_form_advice(text)}") from error
    except OSError as error:
        raise ConfigError(f"Cannot read the configuration file {path}: {error.strerror}. Check --config.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a TOML file: {error}.") from error
    lines = toml_lines.lines_of(text)
    for name, value in _flatten(tree):
        yield name, value, lines.get(name)


def _short_form_advice(text: str) -> str:
    """Advice for a file that has both the short form of a setting and its table, which TOML does not allow."""
    for other, name in SHORT_FORMS.items():
        value = re.search(rf"^[ \t]*{other}[ \t]*=", text, re.MULTILINE)
        table = re.search(rf"^[ \t]*(\[[ \t]*{other}[ \t]*\]|{other}[ \t]*\.)", text, re.MULTILINE)
        if value and table:
            last = name.rpartition(".")[2]
            return f" `{other} = ...` cannot be combined with the table [{other}]: write `{last} = ...` in that table."
    return ""


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _checked(name: str, value: Any, source: str) -> Any:
    """The value in the setting's type. Raises ConfigError if there is no such setting, or its check refuses the
    value."""
    setting = SETTINGS.get(name)
    if setting is None or name == FREE_TABLE:
        known = [item for item in SETTINGS if item != FREE_TABLE]
        # A short form inside a table has the table's name as a prefix.
        meant = SHORT_FORMS.get(name.rpartition(".")[2])
        near = [meant] if meant else difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        advice = f"Did you mean '{near[0]}'?" if near else "`freshgate config` lists the settings."
        raise ConfigError(f"{source}: there is no setting '{name}'. {advice}")
    typed = _typed(setting, value, source)
    problem = setting.check(typed) if setting.check else None
    if problem:
        raise ConfigError(f"{source}: '{name}' {problem}; it is {_toml(typed)}.")
    return typed


def _spark_text(name: str, value: Any, source: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise ConfigError(f"{source}: '{name}' must be a string, a number or true/false.")


def _typed(setting: _Setting, value: Any, source: str) -> Any:
    """The value in the setting's type. An int is accepted as a float; a bool is never a number."""
    wanted = setting.type
    if wanted is bool and isinstance(value, bool):
        return value
    if wanted is str and isinstance(value, str):
        return value
    if wanted is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if wanted is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if wanted == tuple[str, ...] and is_list:
        return tuple(value)
    kind = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}.get(
        wanted, "a list of strings"
    )
    shown = json.dumps(value, default=str)
    raise ConfigError(
        f"{source}: '{setting.name}' must be {kind}, for example {_toml(setting.default)}; it is {shown}."
    )


def _from_text(name: str, text: str, source: str) -> Any:
    """Parses a value from the command line: strings need no quotes there, and lists are separated by commas or written
    as in TOML.

    Raises ConfigError for a malformed TOML list.
    """
    setting = SETTINGS.get(name) or REMOVED.get(name)
    if setting is None:
        return text
    if setting.type == tuple[str, ...] and text.lstrip().startswith("["):
        try:
            return tomllib.loads(f"list = {text}")["list"]
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"{source}: '{name}' begins with [ but is not a TOML list: {error}. Write {name}=a,b or "
                f'{name}=["a", "b"], in shell quotes.'
            ) from error
    if setting.type == tuple[str, ...]:
        return [item.strip() for item in text.split(",") if item.strip()]
    if setting.type is bool:
        return {"true": True, "false": False}.get(text.strip().lower(), text)
    if setting.type in (int, float):
        try:
            return setting.type(text)
        except ValueError:
            return text
    return text


def _build(owner: Any, values: Mapping[str, Any], prefix: str = "") -> Any:
    changes: dict[str, Any] = {}
    for item in dataclasses.fields(owner):
        name = prefix + item.name
        current = getattr(owner, item.name)
        if dataclasses.is_dataclass(current):
            changes[item.name] = _build(current, values, f"{name}.")
        elif name in values:
            changes[item.name] = values[name]
    return dataclasses.replace(owner, **changes)


def effective(reading: FileReading) -> str:
    """All settings with their values as TOML, each with where the value comes from. Secrets are not shown."""
    lines = []
    for setting in SETTINGS.values():
        if setting.name == FREE_TABLE:
            for name, value in reading.settings.engine.spark.items():
                spark_name = f"engine.{name}"
                key = f"{FREE_TABLE}.{json.dumps(name.removeprefix('spark.'), ensure_ascii=False)}"
                lines.append(_effective_line(key, spark_name, value, reading))
        else:
            value = attrgetter(setting.name)(reading.settings)
            lines.append(_effective_line(setting.name, setting.name, value, reading))
    return "\n".join(lines) + "\n"


def _effective_line(key: str, name: str, value: Any, reading: FileReading) -> str:
    shown = '"(hidden)"' if value and _SECRET.search(name) else _toml(value)
    return f"{key} = {shown}  # {reading.sources.get(name, 'default')}"


def reference() -> str:
    """The text of `conf/freshgate.toml`: every setting with its reason, commented out with its default."""
    lines = [
        "# Freshgate's settings with their defaults. To change one, remove its #.",
        "# --set name=value on the command line takes precedence over this file. There, strings need no quotes,",
        "# and lists are separated by commas: --set listen.transports=sasl,nosasl.",
        "# Times are in seconds, sizes in bytes.",
        "# This file is printed by `freshgate config`.",
        "",
    ]
    settings = Settings()
    for item in dataclasses.fields(settings):
        value = getattr(settings, item.name)
        if dataclasses.is_dataclass(value):
            lines += ["", f"# {(type(value).__doc__ or '').strip()}", f"[{item.name}]"]
        for setting in SETTINGS.values():
            if setting.name == item.name or setting.name.startswith(item.name + "."):
                lines += [*_described(setting), ""]
    return "\n".join(lines).rstrip() + "\n"


def _described(setting: _Setting) -> list[str]:
    why = textwrap.wrap(setting.why, width=100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    if setting.name == FREE_TABLE:
        return [*why, f"[{FREE_TABLE}]"]
    return [*why, f"# {setting.name.rpartition('.')[2]} = {_toml(setting.default)}"]


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    # A JSON string without control characters is a TOML basic string, and numbers have the same form.
    return json.dumps(value, ensure_ascii=False)
