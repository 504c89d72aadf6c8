"""The catalog of views, the observation of what they read, and their versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway.assembly.at_spark import METASTORE_SESSIONS, AtSpark
from gateway.config import Settings
from gateway.mv.catalog.confirmation import Confirmation
from gateway.mv.catalog.draft_file import DraftFile, Drafts
from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.catalog.loading import Loading
from gateway.mv.catalog.restoration import Restoration, Restored
from gateway.mv.catalog.settlement import Settlement
from gateway.mv.observation.inspection import Inspector
from gateway.mv.observation.observer import Observer
from gateway.mv.observation.relations import Relations
from gateway.mv.observation.schemas import Schemas
from gateway.mv.observation.storage_looks import StorageLooks
from gateway.mv.observation.stored_files import StoredFiles
from gateway.mv.versions.compaction import Compaction
from gateway.mv.versions.janitor import Janitor
from gateway.mv.versions.kept import KeptLimits, VersionLookup
from gateway.mv.versions.readers import Readers
from gateway.mv.versions.removal import Removal
from gateway.mv.versions.version_numbers import VersionNumbers
from gateway.service.answers.members import Members


@dataclass(frozen=True, slots=True)
class Views:
    """The existing views, what they read, and which gateways are over them."""

    fence: Fence
    catalog: Catalog
    loading: Loading
    settlement: Settlement
    confirmation: Confirmation
    relations: Relations
    schemas: Schemas
    observer: Observer
    storages: StorageLooks
    inspector: Inspector
    members: Members


def known_views(settings: Settings, spark: AtSpark, restored: Callable[[Restored], None]) -> Views:
    """`restored` is called for each public view that was restored."""
    metastore, fence = spark.metastore, spark.fence
    catalog = Catalog(settings.storage.database, fence)
    restoration = Restoration(catalog, metastore, restored)
    settlement = Settlement(catalog, metastore, fence, restoration.restore)
    confirmation = Confirmation(catalog, settlement, restoration, metastore, fence)
    relations = Relations(catalog, metastore)
    schemas = Schemas(catalog, metastore)
    observer = Observer(metastore, spark.looks)
    storages = StorageLooks(catalog, settlement, StoredFiles(observer.listings))
    inspector = Inspector(catalog, relations, observer, settlement, storages, settings.staleness.probe_interval)
    loading = Loading(catalog, metastore, METASTORE_SESSIONS)
    members = Members(settings, fence)
    return Views(
        fence, catalog, loading, settlement, confirmation, relations, schemas, observer, storages, inspector, members
    )


def drafts_of(settings: Settings, _: AtSpark) -> Drafts:
    """Where drafts of the catalog are kept for the next start."""
    return DraftFile(Path(settings.data_dir), settings.storage.database)


@dataclass(frozen=True, slots=True)
class KeptVersions:
    """Versions and their readers."""

    readers: Readers
    numbers: VersionNumbers
    janitor: Janitor
    versions: VersionLookup


def kept_versions(settings: Settings, spark: AtSpark, views: Views) -> KeptVersions:
    kept, metastore = settings.versions, spark.metastore
    readers = Readers()
    numbers = VersionNumbers(views.catalog, views.fence)
    compaction = Compaction(views.catalog, views.settlement, metastore)
    removal = Removal(views.catalog, views.settlement, compaction, metastore, spark.looks)
    janitor = Janitor(removal, readers, views.fence, kept.retention)
    versions = VersionLookup(janitor, readers, metastore, KeptLimits(kept.max_count, kept.max_bytes))
    return KeptVersions(readers, numbers, janitor, versions)
