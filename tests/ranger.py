"""Apache Kyuubi's AuthZ plugin in a Spark, with Ranger's policies from a file.

The environment variable JARS names a directory with the plugin's archives: that of a release of Kyuubi
(kyuubi-spark-authz-shaded for Scala 2.13), or one that is built of its sources, with Ranger's beside it.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import jpype
from clients import start_jvm
from processes import wait_until

JARS = "FRESHGATE_AUTHZ_JARS"
EXTENSION = "org.apache.kyuubi.plugin.spark.authz.ranger.RangerSparkExtension"
POLL_SECONDS = 0.3
_SERVICE = "spark_tests"
_CLASS = "RangerPolicies"
_DEFINITION = "service-defs/ranger-servicedef-spark.json"
_EVERYTHING: tuple[dict[str, str], ...] = (
    {"database": "*", "table": "*", "column": "*"},
    {"database": "*", "udf": "*"},
    {"url": "*"},
)
_WRITTEN = ("update", "create", "drop", "alter", "index", "lock", "all", "read", "write", "use")

Policy: TypeAlias = dict[str, Any]


def archives_of_authz() -> list[Path]:
    """The plugin's archives; none if JARS names no directory."""
    named = os.environ.get(JARS, "")
    return sorted(Path(named).glob("*.jar")) if named else []


def _policy(number: int, kind: int, resources: dict[str, str], **items: Any) -> Policy:
    named = {name: {"values": value.split(","), "isRecursive": name == "url"} for name, value in resources.items()}
    return {
        "id": number,
        "name": f"policy {number}",
        "policyType": kind,
        "service": _SERVICE,
        "resources": named,
    } | items


def _may(users: str, *kinds: str) -> dict[str, Any]:
    return {"users": users.split(","), "accesses": [{"type": kind, "isAllowed": True} for kind in kinds]}


class RangerPolicies:
    """The archives of a Spark, and its policies, which restrict tables and views of one database. Whoever is in
    `users`, separated by commas, may do all that no policy denies."""

    def __init__(self, directory: Path, archives: list[Path], database: str, users: str) -> None:
        self._file = directory / "policies.json"
        self._applied = directory / "policies.json.applied"
        self._database = database
        self._users = users
        self._version = 0
        self._definition = _definition_in(archives)
        own = directory / "ranger.jar"
        self.archives = [*archives, own]
        self.set()
        start_jvm()
        compiler = jpype.JClass("org.codehaus.janino.SimpleCompiler")()
        loader = jpype.JClass("java.net.URLClassLoader")
        urls = [jpype.JClass("java.io.File")(str(path)).toURI().toURL() for path in archives]
        compiler.setParentClassLoader(loader(urls, jpype.JClass("java.lang.ClassLoader").getSystemClassLoader()))
        source = Path(__file__).with_name(f"{_CLASS}.java").read_text(encoding="utf-8")
        compiler.cook(source.replace('"FILE"', f'"{self._file}"'))
        with zipfile.ZipFile(own, "w") as archive:
            for name, code in compiler.getBytecodes().items():
                archive.writestr(f"{str(name).replace('.', '/')}.class", bytes(code))
            archive.writestr("ranger-spark-security.xml", self._settings(directory))

    def _settings(self, directory: Path) -> str:
        settings = {
            "service.name": _SERVICE,
            "policy.source.impl": _CLASS,
            "policy.cache.dir": str(directory / "cache"),
            "policy.pollIntervalMs": str(int(POLL_SECONDS * 1000)),
        }
        written = "".join(
            f"<property><name>ranger.plugin.spark.{name}</name><value>{value}</value></property>"
            for name, value in settings.items()
        )
        return f"<configuration>{written}</configuration>"

    def set(self, *policies: str) -> None:
        """Replaces all policies. They are written as those of `RowPolicies`, or `user read name`, which lets another
        user read a table or view, and are for names in the database. A Spark that has started applies them when this
        returns."""
        self._version += 1
        granted = [_may(self._users, "select", *_WRITTEN)]
        made = [_policy(number, 0, each, policyItems=granted) for number, each in enumerate(_EVERYTHING)]
        made += [self._restriction(100 + number, *policy.split(" ")) for number, policy in enumerate(policies)]
        found = {"serviceName": _SERVICE, "serviceId": 1, "policyVersion": self._version, "auditMode": "audit-none"}
        written = self._file.with_suffix(".new")
        written.write_text(json.dumps({**found, "policies": made, "serviceDef": self._definition}), encoding="utf-8")
        written.replace(self._file)
        if self._applied.exists():
            wait_until(self._are_applied, what="Ranger's plugin to apply the policies")

    def _are_applied(self) -> bool:
        return self._applied.read_text(encoding="utf-8") == str(self._version)

    def _restriction(self, number: int, user: str, kind: str, name: str, column: str = "", value: str = "") -> Policy:
        table = {"database": self._database, "table": name}
        item = _may(user, "select")
        if kind == "read":
            # Whoever connects uses the database `default`.
            shown = {"database": f"default,{self._database}", "table": name, "column": "*"}
            return _policy(number, 0, shown, policyItems=[item])
        if kind == "deny":
            denied = _may(user, "select", *_WRITTEN)
            return _policy(number, 0, {**table, "column": "*"}, denyPolicyItems=[denied])
        if kind == "filter":
            item["rowFilterInfo"] = {"filterExpr": f"{column} = {value}"}
            return _policy(number, 2, table, rowFilterPolicyItems=[item])
        item["dataMaskInfo"] = {"dataMaskType": "CUSTOM", "valueExpr": f"{column} * {value}"}
        return _policy(number, 1, {**table, "column": column}, dataMaskPolicyItems=[item])


def _definition_in(archives: list[Path]) -> dict[str, Any]:
    """How Ranger's server knows Spark: the plugin brings that file."""
    for path in archives:
        with zipfile.ZipFile(path) as archive:
            if _DEFINITION in archive.namelist():
                found: dict[str, Any] = json.loads(archive.read(_DEFINITION))
                return found
    raise LookupError(f"No archive in the directory {JARS} has {_DEFINITION}.")
