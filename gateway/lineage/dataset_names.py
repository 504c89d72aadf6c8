"""The names of tables in lineage: those that openlineage-spark gives them, so that both tell of the same datasets.

A table is named by its location; its name in the metastore is a further name of it, a symlink.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

from sql.names import SESSION_CATALOG, TableName

HIVE_METASTORES = (
    "spark.sql.hive.metastore.uris",
    "hive.metastore.uris",
    "spark.hadoop.hive.metastore.uris",
)
"""Settings of Spark that name the metastore's service; of several addresses the first counts."""
IMPLEMENTATION = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
CATALOG = "spark.sql.catalog."
_URI = re.compile(r"(?:([A-Za-z][\w+.-]*):)?(?://([^/?#]*))?(.*)", re.ASCII | re.DOTALL)
_OBJECT_STORES = (("s3", "s3"), ("gs", "gs"), ("abfs", "abfss"), ("wasb", "wasbs"))
"""First letters of schemes, and the scheme that each is told as."""
_DATES = (
    (re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII), (1, 2, 3)),
    (re.compile(r"(\d{2})\.(\d{2})\.(\d{4})", re.ASCII), (3, 2, 1)),
    (re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII), (1, 2, 3)),
)
_BESIDE_DATES = re.compile(r"[\s:.\d-]*", re.ASCII)
_MONTH = re.compile(r"(\d{4})-?(\d{2})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class DatasetName:
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class NamedDataset:
    """A table, or a materialized view."""

    name: DatasetName
    symlinks: tuple[DatasetName, ...] = ()


@dataclass(frozen=True, slots=True)
class Naming:
    """Names tables of one Spark."""

    settings: Mapping[str, str] = field(default_factory=dict)
    """What SET lists in a session."""
    metastore: str = ""
    """The namespace of the metastore's tables, `hive://HOST:PORT` or `arn:aws:glue:REGION:ACCOUNT`; empty: as the
    settings say."""

    def table(self, name: TableName, location: str, *further: TableName) -> NamedDataset:
        """A table at this location, whose other names are `name` and `further`. Without a location, the first of those
        is its name. Raises ValueError if it has none."""
        if name.path:
            return NamedDataset(of_location(name.path))
        if name.catalog == SESSION_CATALOG:
            symlinks = [each for table in (*further, name) if (each := self._symlink(table, location)) is not None]
        else:
            symlinks = [each] if (each := self._symlink_in_catalog(name)) is not None else []
        if location:
            return NamedDataset(of_location(location), tuple(dict.fromkeys(symlinks)))
        if not symlinks:
            raise ValueError(f"{name} has neither a location nor a metastore")
        first, *others = dict.fromkeys(symlinks)
        return NamedDataset(first, tuple(others))

    def _symlink(self, name: TableName, location: str) -> DatasetName | None:
        """Its name in the metastore; without one, in the warehouse's directory if it is there."""
        plain, service = f"{name.database}.{name.table}", self._service()
        if service.startswith("arn:"):
            return DatasetName(service, f"table/{name.database}/{name.table}")
        if service:
            return DatasetName(service, plain)
        warehouse = self.settings.get(WAREHOUSE, "")
        if not warehouse or (location and not _is_below(location, warehouse)):
            return None
        return DatasetName(_directory(warehouse), plain)

    def _symlink_in_catalog(self, name: TableName) -> DatasetName | None:
        """Its name in a catalog of Iceberg's."""
        start, plain = f"{CATALOG}{name.catalog}.", f"{name.database}.{name.table}"
        said = {each.removeprefix(start): value for each, value in self.settings.items() if each.startswith(start)}
        kind, implementation = said.get("type", "").lower(), said.get("catalog-impl", "")
        if implementation.endswith("GlueCatalog"):
            service = self._service()
            return DatasetName(service, f"table/{plain.replace('.', '/')}") if service.startswith("arn:") else None
        if kind == "rest" or implementation.endswith("RESTCatalog"):
            return DatasetName(said["uri"], plain) if said.get("uri") else None
        if kind == "hadoop":
            return DatasetName(_directory(said["warehouse"]), plain) if said.get("warehouse") else None
        service = _hive(said["uri"]) if said.get("uri") else self._service()
        return DatasetName(service, plain) if service.startswith("hive:") else None

    def _service(self) -> str:
        if self.metastore:
            return self.metastore.rstrip("/")
        if self.settings.get(IMPLEMENTATION) != "hive":
            return ""
        uris = next((value for name in HIVE_METASTORES if (value := self.settings.get(name, ""))), "")
        return _hive(uris.split(",")[0].strip()) if uris else ""


def of_location(location: str) -> DatasetName:
    """The name of the dataset at a location, which is as Spark prints it."""
    scheme, authority, path = _parts(location)
    path = path.rstrip("/")
    if scheme in ("", "file"):
        return DatasetName("file", trimmed(path or "/"))
    if (store := _object_store(scheme)) is not None:
        return DatasetName(f"{store}://{authority}", trimmed(path.lstrip("/") or "/"))
    return DatasetName(f"{scheme}://{authority}" if authority else scheme, trimmed(path or "/"))


def trimmed(name: str) -> str:
    """A dataset's name without the directories at its end that are partitions: dates and `key=value`."""
    while (parts := _partitions(name)) > 0:
        name = "/".join(name.split("/")[:-parts])
    return name


def _partitions(name: str) -> int:
    """How many directories at the end of a name are one partition; 0: none."""
    folders = name.removeprefix("/").split("/")
    last = folders[-1]
    if len(folders) < 2:
        return 0
    if last.count("=") == 1 or _is_date(last) or _is_month(last):
        return 1
    if len(folders) > 2 and len(last) == 2 and _is_month(folders[-2] + last):
        return 2
    return 3 if len(folders) > 3 and _is_day("".join(folders[-3:])) else 0


def _is_date(folder: str) -> bool:
    """Whether it is a date, perhaps with a time or further numbers."""
    for pattern, places in _DATES:
        for found in pattern.finditer(folder):
            year, month, day = (int(found[place]) for place in places)
            if year and 1 <= month <= 12 and 1 <= day <= 31:
                rest = (folder[: found.start()] + folder[found.end() :]).replace("T", "", 1).replace("Z", "", 1)
                return _BESIDE_DATES.fullmatch(rest) is not None
    return False


def _is_month(folder: str) -> bool:
    found = _MONTH.fullmatch(folder)
    return found is not None and int(found[1]) > 0 and 1 <= int(found[2]) <= 12


def _is_day(digits: str) -> bool:
    if len(digits) != 8 or not digits.isdecimal() or not digits.isascii():
        return False
    try:
        date(int(digits[:4]), int(digits[4:6]), 1)
    except ValueError:
        return False
    return 1 <= int(digits[6:]) <= 31


def _directory(location: str) -> str:
    """A directory as a namespace."""
    scheme, authority, path = _parts(location)
    path = path.rstrip("/")
    if scheme in ("", "file"):
        return f"file:{path}" if path else "file"
    if (store := _object_store(scheme)) is not None:
        return f"{store}://{authority}{path}"
    return f"{scheme}://{authority}{path}" if authority else f"{scheme}:{path}".rstrip(":")


def _is_below(location: str, directory: str) -> bool:
    return _directory(location).startswith(f"{_directory(directory)}/")


def _hive(uri: str) -> str:
    """`hive://HOST:PORT` of `thrift://HOST:PORT`."""
    return f"hive://{_parts(uri)[1]}"


def _object_store(scheme: str) -> str | None:
    return next((told for first, told in _OBJECT_STORES if scheme.startswith(first)), None)


def _parts(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path."""
    found = _URI.fullmatch(location)
    assert found is not None
    return (found[1] or "").lower(), found[2] or "", found[3]
