"""Compares Spark's own parser with the gateway's: the gateway may miss nothing that Spark finds in a statement.

`scripts/fuzz --sql` does the same with any number of mutated texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from oracle import trial
from oracle.comparison import Ours, misses
from oracle.corpus import statements
from oracle.mutation import Sample, Texts, pieces
from oracle.plans import APART, DEFINED, Settings, read, shown
from spark_corpus import QUERIES

from sql.classify import glance
from sql.lexed import Lexed
from sql.reading import effects
from sql.statement import Forwarded
from sql.texts.indentation import indented

SEED = 20_261_126
PLAIN = 400
MUTATED = 1_200
FORMATTED = 200


def outcome(samples: list[Sample]) -> trial.Outcome:
    whole = trial.Outcome()
    for each in trial.outcomes(samples):
        whole.add(each)
    return whole


def sampled(count: int) -> list[Sample]:
    texts = Texts(statements(), SEED)
    return [texts.sample(number) for number in range(count)]


def test_nothing_in_the_corpus_is_missed() -> None:
    corpus = [text for text in statements() if APART.isdisjoint(text) and len(text) < 2_000]
    chosen = Random(SEED).sample(corpus, PLAIN)
    found = outcome([Sample(number, text, Settings()) for number, text in enumerate(chosen)])
    assert [trial.description(each, SEED) for each in found.found] == []
    assert found.counts["accepted by Spark"] > 0.9 * PLAIN
    assert found.counts["understood exactly, with a name that Spark does not see"] < 0.01 * PLAIN


def test_nothing_in_mutated_statements_is_missed() -> None:
    """`scripts/fuzz --sql` continues with further samples."""
    found = outcome(sampled(MUTATED))
    assert [trial.description(each, SEED) for each in found.found] == []
    assert found.counts["accepted by Spark"] > 0.4 * MUTATED
    assert found.counts["understood exactly, with a name that Spark does not see"] < 0.01 * MUTATED


def test_a_parser_that_ignores_joins_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An injected fault shows that the samples are diverse enough, and that a miss is shortened to its core."""
    correct = effects.forwarded

    def faulty(lexed: Lexed, keyword: str) -> Forwarded:
        statement = correct(lexed, keyword)
        joined = {found.end() for found in re.finditer(r"(?i)\bjoin\s+", lexed.text)}
        if not statement.exact:
            return statement
        kept = tuple(each for each in statement.reads if each.start not in joined)
        return Forwarded(kept, statement.writes, calls=statement.calls)

    with monkeypatch.context() as injected:
        injected.setattr(effects, "forwarded", faulty)
        found = [each for each in outcome(sampled(300)).found if each.kind == "not read"]
        first = min(
            (each for each in found if "join" in each.sample.text.lower()), key=lambda each: len(each.sample.text)
        )
        trial.shorten(first)
        description = trial.description(first, SEED)
    assert re.search(r"(?i)\bjoin\b", first.shortest)
    assert len(pieces(first.shortest)) < 30
    assert f"  text   {first.shortest!r}\n" in description


@pytest.mark.parametrize(
    ("text", "blind", "kind"),
    [
        ("INSERT INTO s.t SELECT 1", {"writes": ()}, "not written"),
        ("SELECT f(a) FROM t", {"calls": ()}, "not called"),
        ("USE s", {"changes_namespace": False}, "namespace not changed"),
        ("SELECT a FROM t", {"touches_rows": False}, "rows not touched"),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", {"creates_view": None}, "not made for the session"),
        ("DROP SCHEMA s", {"drops": None}, "database not dropped"),
        ("DROP VIEW s.mv", {"writes": ()}, "not written"),
        ("INSERT OVERWRITE DIRECTORY '/x' SELECT 1", {"writes_files": False}, "no files written"),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c", {"reads": ()}, "not read"),
        ("SELECT * FROM t WHERE 1 = 0 AND a IN (SELECT b FROM u)", {"reads": ()}, "not read"),
        ("SELECT a FROM t WHERE 1 = 1.0", {"touches_rows": False}, "rows not touched"),
        ("SELECT count((SELECT max(b) FROM u)) FROM t WHERE false", {"touches_rows": False}, "rows not touched"),
    ],
)
def test_each_kind_of_miss_is_reported(
    text: str, blind: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = read([text], Settings())[0]
    assert misses(text, plan) == []
    statement = Ours(text).statement
    assert isinstance(statement, Forwarded)
    changed = replace(statement, **blind)
    monkeypatch.setattr("sql.understood.classify", lambda *_: changed)
    assert kind in {trial.kind_of(miss) for miss in misses(text, plan)}


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t WHERE 1 = 0 AND a IN (SELECT b FROM u)",
        "WITH q AS (SELECT * FROM t) SELECT * FROM q WHERE false ORDER BY 1",
        "SELECT max(a) FROM t WHERE 1 = 0 GROUP BY (SELECT b FROM u) ORDER BY (SELECT c FROM v)",
        "SHOW COLUMNS FROM IDENTIFIER((SELECT max(a) FROM t))",
        "DROP ${x}VIEW s.mv",
        f"DROP ${{hivevar:{DEFINED}VIEW}} s.mv",
        "CREATE TEMP${x} VIEW ${日本}a AS SELECT 1",
        r'EXECUTE IMMEDIATE "DROP DATABASE IF EXISTS s.m${x\U0000007Dv CASCADE"',
    ],
)
def test_a_name_without_effect_is_no_miss(text: str) -> None:
    """Spark does not run this part of the statement, or the gateway asks Spark for the value of the variable."""
    plan = read([text], Settings())[0]
    assert plan.accepted
    assert misses(text, plan) == []


def test_a_gateway_that_ignores_variables_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def faulty(_: object, text: str) -> str:
        return text

    monkeypatch.setattr("oracle.comparison.substituted", faulty)
    text = f"DROP ${{{DEFINED}VIEW}} s.mv"
    assert {trial.kind_of(miss) for miss in misses(text, read([text], Settings())[0])} == {"view not changed"}


@pytest.mark.parametrize(
    ("text", "settings", "reads"),
    [
        ("EXECUTE IMMEDIATE 'SELECT 1 FROM\\ns.mv'", Settings(), {("s", "mv")}),
        ("EXECUTE IMMEDIATE 'SELECT 1 FROM t -- \\n, u'", Settings(escaped=True), {("t",)}),
        ('SELECT * FROM "a b".c', Settings(quoted=True), {("a b", "c")}),
        ("WITH MV AS (SELECT 1) SELECT * FROM mv", Settings(cased=True), {("mv",)}),
        ("WITH MV AS (SELECT 1) SELECT * FROM mv", Settings(), set[tuple[str, ...]]()),
        ("BEGIN FOR r AS SELECT 1 FROM a DO INSERT INTO b TABLE c; END FOR; END", Settings(), {("a",), ("c",)}),
        ("SELECT * FROM IDENTIFIER('s.t')", Settings(), {("s", "t")}),
        (f"SELECT * FROM ${{x}}${{{DEFINED}t}}", Settings(), {("t",)}),
    ],
)
def test_the_oracle_finds_what_spark_reads(text: str, settings: Settings, reads: set[tuple[str, ...]]) -> None:
    assert {note.parts for note in read([text], settings)[0].notes if note.kind == "UnresolvedRelation"} - {
        ("b",)
    } == reads


def test_a_formatted_query_has_the_same_plan() -> None:
    joined = {" ".join(text.split()) for text in statements() if APART.isdisjoint(text) and len(text) < 800}
    chosen = Random(SEED).sample(sorted(text for text in joined if glance(Lexed(text)).keyword in QUERIES), FORMATTED)
    accepted = [text for text, plan in zip(chosen, read(chosen, Settings()), strict=True) if plan.accepted]
    changed = {text: formatted for text in accepted if (formatted := indented(text)) != text}
    assert len(changed) > FORMATTED / 2
    assert [text for text, formatted in changed.items() if numberless(formatted) != numberless(text)] == []


def numberless(text: str) -> str:
    """Returns the plan without the numbers that Spark gives to expressions."""
    return re.sub(r"#\d+", "#", shown(text))


def test_samples_are_reproducible_and_diverse(record_property: Callable[[str, object], None]) -> None:
    assert sampled(50) == sampled(50)
    assert len({sample.text for sample in sampled(200)}) > 190
