"""The settings of each release of Spark, as they stand in `tests/spark/settings.tsv`.

`python tests/setting_lists.py RELEASE ...` reads them from the classes of installed releases (`spark_releases.home_of`)
and writes them to the file, in place of what it says of these releases.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jpype
from jvm import java_options
from spark_releases import RELEASES, home_of

FILE = Path(__file__).with_name("spark") / "settings.tsv"
OF_THE_MACHINE = {"spark.sql.session.timeZone", "spark.sql.warehouse.dir"}
"""Settings whose default depends on where Spark runs."""


@dataclass(frozen=True, order=True)
class Setting:
    """What a release says of a setting."""

    name: str
    static: bool
    """It is one of a whole Spark."""
    kept: bool
    """Spark keeps a session's value with a view."""
    default: str
    text: str
    """Stands for its description: another one has another text."""


def listed() -> dict[str, dict[str, Setting]]:
    """The settings of the file by release, and by name."""
    found = defaultdict[str, dict[str, Setting]](dict)
    for line in FILE.read_text(encoding="utf-8").splitlines():
        name, releases, flags, default, text = line.split("\t")
        for release in releases.split():
            found[release][name] = Setting(name, "static" in flags, "kept" in flags, default, text)
    return dict(found)


def of_this_jvm() -> dict[str, Setting]:
    """The settings of the Spark in the process's JVM."""
    load = jpype.java.lang.Class.forName
    for name in ("internal.StaticSQLConf$", "hive.HiveUtils$"):
        load(f"org.apache.spark.sql.{name}")
    conf: Any = load("org.apache.spark.sql.internal.SQLConf$").getField("MODULE$").get(None)
    for method in conf.getClass().getMethods():  # Some are registered when they are first used.
        if method.getReturnType().getSimpleName().endswith("ConfigEntry") and not method.getParameterCount():
            method.invoke(conf)
    left_out, allowed = _not_captured()
    each, found = conf.getConfigEntries().iterator(), {}
    while each.hasNext():
        entry = each.next()
        name, static = str(entry.key()), bool(conf.isStaticConfigKey(entry.key()))
        default = "" if name in OF_THE_MACHINE else str(entry.defaultValueString())
        kept = not static and (name in allowed or not name.startswith(tuple(left_out)))
        text = hashlib.sha256(" ".join(str(entry.doc()).split()).encode()).hexdigest()[:8]
        found[name] = Setting(name, static, kept, default, text)
    return found


def _not_captured() -> tuple[list[str], set[str]]:
    """The beginnings of names that views are created without, and exceptions from them."""
    helper: Any = jpype.java.lang.Class.forName("org.apache.spark.sql.execution.command.ViewHelper$")
    fields = {str(field.getName()).rpartition("$")[2]: field for field in helper.getDeclaredFields()}
    found = {}
    for name in ("configPrefixDenyList", "configAllowList", "singlePassResolverDenyList"):
        found[name] = list[str]()
        if name in fields:
            fields[name].setAccessible(True)
            each = fields[name].get(helper.getField("MODULE$").get(None)).iterator()
            while each.hasNext():
                found[name].append(str(each.next()))
    assert found["configPrefixDenyList"], "Spark keeps these lists elsewhere"
    return found["configPrefixDenyList"] + found["singlePassResolverDenyList"], set(found["configAllowList"])


def of_release(release: str) -> dict[str, Setting]:
    """The settings of an installed release."""
    home = home_of(release)
    assert home is not None, f"Spark {release} is not installed: run scripts/setup --spark-versions"
    done = subprocess.run(
        [sys.executable, __file__, "--print", str(home / "jars" / "*")], capture_output=True, text=True, check=True
    )
    return {each["name"]: Setting(**each) for each in json.loads(done.stdout.splitlines()[-1])}


def write(found: Mapping[str, Mapping[str, Setting]]) -> None:
    rows = defaultdict[Setting, list[str]](list)
    for release in RELEASES:
        for setting in found.get(release, {}).values():
            rows[setting].append(release)
    lines = []
    for setting, releases in sorted(rows.items()):
        flags = " ".join(name for name in ("static", "kept") if getattr(setting, name))
        lines.append("\t".join((setting.name, " ".join(releases), flags, setting.default, setting.text)))
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def main(arguments: Iterable[str]) -> None:
    first, *rest = arguments
    if first == "--print":
        jpype.startJVM("-Xmx512m", *java_options().split(), classpath=rest, convertStrings=True)
        print(json.dumps([asdict(setting) for setting in of_this_jvm().values()]))
        return
    known = listed() if FILE.exists() else {}
    write(known | {release: of_release(release) for release in (first, *rest)})


if __name__ == "__main__":
    main(sys.argv[1:])
