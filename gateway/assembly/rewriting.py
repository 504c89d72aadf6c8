"""Which queries views may answer, and which they have answered."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.assembly.at_spark import AtSpark
from gateway.assembly.refreshes import Refreshes
from gateway.assembly.views import KeptVersions, Views
from gateway.config import Settings
from gateway.mv.rewriting.candidates import Candidates
from gateway.mv.rewriting.observed_keys import ObservedKeys
from gateway.mv.rewriting.partly_stale import PartlyStale
from gateway.mv.rewriting.proving import Prover
from gateway.mv.rewriting.quarantine import Quarantine
from gateway.mv.rewriting.suggestions import Suggestions
from gateway.mv.rewriting.unanswered import Unanswered
from gateway.mv.rewriting.usage import SHAPES_MAX, Usages
from gateway.mv.versions.measures import Measures
from gateway.service.clients.proof_sessions import ProofSessions


@dataclass(frozen=True, slots=True)
class Rewriting:
    """The parts that know how views may answer queries."""

    candidates: Candidates
    measures: Measures
    prover: Prover
    partly_stale: PartlyStale
    sessions: ProofSessions
    quarantine: Quarantine
    usages: Usages
    unanswered: Unanswered
    suggestions: Suggestions


def rewriting_of(
    settings: Settings, spark: AtSpark, views: Views, versions: KeptVersions, refreshes: Refreshes
) -> Rewriting:
    catalog, inspector, schemas, metastore = views.catalog, views.inspector, views.schemas, spark.metastore
    planning, proposer, habits, rules = refreshes.planning, refreshes.proposer, spark.habits, settings.rewrite
    surroundings = planning.surroundings
    keys = ObservedKeys(catalog, metastore, inspector, proposer, lambda: habits.caches_listings)
    candidates = Candidates(catalog, schemas, keys)
    unanswered = Unanswered(SHAPES_MAX if rules.advice else 0)
    quarantine = Quarantine()
    catalog.news.vouched.add(quarantine.release)
    return Rewriting(
        candidates,
        Measures(metastore, versions.janitor.readable),
        Prover(spark.plans, surroundings, planning.refreshers, planning.rights, catalog.invoking_below),
        PartlyStale(catalog, inspector, schemas, proposer, surroundings, habits, enabled=rules.partly_stale),
        ProofSessions(spark.plans),
        quarantine,
        Usages(SHAPES_MAX),
        unanswered,
        Suggestions(catalog, schemas, metastore, candidates, unanswered),
    )
