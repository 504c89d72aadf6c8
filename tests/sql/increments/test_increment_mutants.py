"""The random changes find each mistake that other systems have made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import duck
import pytest
from duck import Definition, Row, Step, play
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_definitions import STARTS, STEPS, aggregations, distinct, selections, windows

from sql.increments import changed_rows, texts
from sql.increments.named_keys import NamedKeys
from sql.increments.outline import Outline
from sql.increments.scopes import Place, Touch
from sql.increments.states import States
from sql.increments.templates import Aggregate
from sql.increments.terms import ChangeTerm, terms
from sql.names import TableName, quote

Change = Mapping[TableName, str]
SEARCH = settings(
    max_examples=400,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def found(
    definitions: st.SearchStrategy[Definition],
    *,
    change: Callable[[Outline], Outline] = lambda outline: outline,
    stored: duck.Stored = duck._all_stored,
) -> None:
    """Fails if no random change shows the mistake."""

    @SEARCH
    @given(definitions, STARTS, STEPS)
    def search(definition: Definition, rows: dict[str, list[Row]], steps: list[Step]) -> None:
        play(definition, rows, steps, outline=change(duck.outline_of(definition)), stored=stored)

    with pytest.raises(AssertionError):
        search()


def _joined(selected: Definition) -> bool:
    return "t AS q" in selected.text or "u AS q" in selected.text


def test_a_join_of_new_rows_with_new_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(
        branch: int, places: Sequence[Place], added: Change, _: Change, removed: Change, now: Change
    ) -> Iterator[ChangeTerm]:
        if places and all(place.table in added for place in places):
            yield ChangeTerm({place.number: added[place.table] for place in places}, branch)

    monkeypatch.setattr("sql.increments.terms._of_branch", one)
    found(selections().filter(_joined))


def test_an_old_state_that_includes_the_new_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def new(
        branch: int, places: Sequence[Place], added: Change, _: Change, removed: Change, now: Change
    ) -> Iterator[ChangeTerm]:
        for place in places:
            for rows, removes in ((added, False), (removed, True)):
                if place.table in rows:
                    yield ChangeTerm({place.number: rows[place.table]}, branch, removes)

    monkeypatch.setattr("sql.increments.terms._of_branch", new)
    found(selections().filter(_joined))


def test_a_table_that_is_joined_with_itself_as_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def once(
        branch: int, places: Sequence[Place], added: Change, before: Change, _: Change, now: Change
    ) -> Iterator[ChangeTerm]:
        done: list[Place] = []
        for table in dict.fromkeys(place.table for place in places):
            own = [place for place in places if place.table == table]
            if table in added:
                changed = {place.number: added[table] for place in own}
                yield ChangeTerm({**{place.number: before[place.table] for place in done}, **changed}, branch)
            done += own

    monkeypatch.setattr("sql.increments.terms._of_branch", once)
    found(aggregations(exact=False).filter(lambda each: "t AS q" in each.text))


def test_an_average_of_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    def average(self: States, aggregate: Aggregate) -> str:
        return quote(self._state(aggregate.text, "avg({})", "double").name)

    monkeypatch.setattr(States, "_average", average)
    found(aggregations(exact=True).filter(lambda each: "avg" in each.text))


def test_a_total_as_the_group_of_the_null_key() -> None:
    def without(outline: Outline) -> Outline:
        assert outline.groups is not None
        return replace(outline, groups=replace(outline.groups, sets=False))

    found(aggregations(sets=True), change=without)


def test_groups_that_having_hides_are_dropped() -> None:
    def shown(outline: Outline) -> str:
        return f"SELECT * FROM stored{' WHERE freshgate_shown' if outline.filtered else ''}"

    found(aggregations().filter(lambda each: "HAVING" in each.text and not each.keys), stored=shown)


def test_a_sum_of_no_values_after_subtraction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(States, "_unless_none", lambda self, aggregate, value: value)
    found(st.just(Definition("SELECT p.a AS k0, sum(p.v) AS m0 FROM t AS p GROUP BY p.a", ("k0", "m0"))))


def test_a_group_without_rows_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_vanishing", lambda terms: "")
    found(distinct())


def test_distinct_rows_without_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_signed", lambda state, removes: f"{-1 if removes else 1} AS {quote(state.name)}")
    found(distinct())


def test_a_least_value_that_is_subtracted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sql.increments.analysis.subtractable", lambda aggregate, types: True)
    found(st.just(Definition("SELECT p.a AS k0, min(p.v) AS m0 FROM t AS p GROUP BY p.a", ("k0", "m0"))))


def test_parts_of_a_union_that_are_read_with_each_other() -> None:
    def beside(outline: Outline) -> Outline:
        return replace(outline, places=tuple(replace(place, beside=frozenset()) for place in outline.places))

    found(selections().filter(lambda selected: "other.both" in selected.text), change=beside)


EXTREME = Definition("SELECT p.a AS k0, min(p.v) AS m0 FROM t AS p GROUP BY p.a", ("k0", "m0"))
PLAIN = Definition("SELECT p.a AS c0 FROM t AS p", ("c0",))


def test_groups_of_removed_rows_that_are_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    touched = texts.touched

    def of_added(outline: Outline, terms: Sequence[ChangeTerm]) -> str:
        return touched(outline, [term for term in terms if not term.removes] or terms)

    monkeypatch.setattr(texts, "touched", of_added)
    found(st.just(EXTREME))


def test_groups_that_are_touched_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_half_joined", _changed(texts._half_joined, lambda text: text.replace("ANTI", "SEMI")))
    found(st.just(EXTREME))


def test_the_group_of_null_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_half_joined", _changed(texts._half_joined, lambda text: text.replace("<=>", "=")))
    found(st.just(EXTREME))


def test_all_equal_rows_are_removed_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        texts, "subtracted", _changed(texts.subtracted, lambda text: text.replace("EXCEPT ALL", "EXCEPT"))
    )
    found(st.just(PLAIN))


def test_only_stored_rows_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another term may have added them."""

    def first(outline: Outline, stored: str, terms: Sequence[ChangeTerm], floats: Mapping[str, str]) -> str:
        removed = [term for term in terms if term.removes]
        added = texts.appended(
            outline, [term for term in terms if not term.removes] or [replace(removed[0], removes=False)]
        )
        nothing = "" if any(not term.removes for term in terms) else " WHERE false"
        return f"({subtracted(outline, stored, removed, floats)}) UNION ALL (SELECT * FROM ({added}) AS x{nothing})"

    subtracted = texts.subtracted
    monkeypatch.setattr(texts, "subtracted", first)
    text = "SELECT p.a AS c0 FROM t AS p JOIN u AS q ON p.a = q.a"
    found(st.just(Definition(text, ("c0",))))


OUTER = st.one_of(
    st.just(Definition("SELECT p.a AS c0, q.c AS c1 FROM t AS p LEFT JOIN u AS q ON p.a = q.a", ("c0", "c1"))),
    st.just(
        Definition(
            "SELECT q.c AS c0, count(*) AS c1 FROM t AS p LEFT JOIN u AS q ON p.a = q.a GROUP BY q.c", ("c0", "c1")
        )
    ),
)


def test_rows_without_partners_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(outline: Outline, added: Change, before: Change, removed: Change, *now: Change) -> tuple[ChangeTerm, ...]:
        return tuple(
            term for term in terms(outline, added, before, removed, *now) if not (term.removes and not removed)
        )

    monkeypatch.setattr(duck, "terms", kept)
    found(OUTER)


def test_the_other_side_is_joined_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def old(
        outline: Outline, added: Change, before: Change, removed: Change, now: Change, _: Change
    ) -> tuple[ChangeTerm, ...]:
        return terms(outline, added, before, removed, {**now, **before})

    monkeypatch.setattr(duck, "terms", old)
    found(OUTER)


def test_partners_that_were_removed_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Touch.rows

    def added_only(touch: Touch, preserved: str, changed: str) -> str:
        return rows(touch, preserved, changed.partition(" UNION ALL ")[0])

    monkeypatch.setattr(Touch, "rows", added_only)
    found(OUTER)


def test_rows_that_change_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition that is cut off finds too many rows, which are removed and added again; a wrong one, too few."""
    monkeypatch.setattr(
        Touch, "rows", _changed(Touch.rows, lambda text: text.replace(" ON p.a = q.a", " ON p.a = q.a AND p.a > 1"))
    )
    found(OUTER)


def test_a_named_key_of_null_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = NamedKeys.condition

    def without_null(keys: NamedKeys, number: int, text: str) -> str:
        return condition(keys, number, text).replace(f"({text}) IS NULL", "false")

    monkeypatch.setattr(NamedKeys, "condition", without_null)
    found(st.just(EXTREME))


def test_only_the_first_named_key_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = NamedKeys.condition
    monkeypatch.setattr(
        NamedKeys,
        "condition",
        lambda keys, number, text: condition(replace(keys, values=keys.values[:1]), number, text),
    )
    found(st.just(EXTREME))


FULL = st.just(Definition("SELECT p.a AS c0, q.c AS c1 FROM t AS p FULL JOIN u AS q ON p.a = q.a", ("c0", "c1")))
WITHIN = st.sampled_from(
    [
        Definition("SELECT p.a AS c0 FROM t AS p WHERE p.a IN (SELECT a FROM u)", ("c0",)),
        Definition("SELECT p.a AS c0 FROM t AS p WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = p.a)", ("c0",)),
    ]
)


def test_changed_rows_of_a_full_join_that_have_no_partner_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Touch.own
    monkeypatch.setattr(Touch, "own", lambda self, state, changed, touched: own(self, state, None, touched))
    found(FULL)


def test_only_changed_rows_of_a_full_join_are_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Touch.own
    monkeypatch.setattr(
        Touch,
        "own",
        lambda self, state, changed, touched: own(self, changed or f"{state} WHERE false", changed, touched),
    )
    found(FULL)


def test_rows_above_a_subquery_that_change_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Touch.rows
    monkeypatch.setattr(Touch, "rows", lambda self, preserved, changed: f"{rows(self, preserved, changed)} AND false")
    found(WITHIN)


def test_not_in_as_if_it_were_about_equal_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A NULL below NOT IN leaves out all rows above."""
    monkeypatch.setattr("sql.increments.scopes._is_conjunct", lambda node: True)
    found(st.just(Definition("SELECT p.a AS c0 FROM t AS p WHERE NOT (p.a IN (SELECT a FROM u))", ("c0",))))


JOINED = st.just(
    Definition("SELECT q.c AS k0, sum(p.v) AS m0 FROM t AS p JOIN u AS q ON p.a = q.a GROUP BY q.c", ("k0", "m0"))
)


def test_removed_rows_of_a_place_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    both = texts._both
    monkeypatch.setattr(
        texts, "_both", lambda *arguments, **named: both(*arguments, **named).replace(", true AS", ", false AS")
    )
    found(JOINED)


def test_rows_of_a_place_that_were_removed_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    both = texts._both
    monkeypatch.setattr(
        texts, "_both", lambda *arguments, **named: both(*arguments, **named).partition(" UNION ALL ")[0]
    )
    found(JOINED)


def test_changed_rows_are_compared_as_if_equal_ones_were_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_rows, "net", _once)
    found(st.just(PLAIN))


def _once(added: str, removed: str) -> tuple[str, str]:
    return f"({added}) EXCEPT ({removed})", f"({removed}) EXCEPT ({added})"


def test_removed_rows_with_other_keys_than_added_ones_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    few_values = changed_rows.few_values
    monkeypatch.setattr(changed_rows, "few_values", lambda changed, *others: few_values(changed[:1], *others))
    found(JOINED)


def test_groups_that_another_column_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duck, "outline_of", _changed_outline(duck.outline_of))
    text = "SELECT q.a AS k0, max(p.v) AS m0 FROM t AS p JOIN u AS q ON p.a = q.a GROUP BY q.a"
    found(st.just(Definition(text, ("k0", "m0"))))


def _changed_outline(made: Callable[[Definition], Outline]) -> Callable[[Definition], Outline]:
    def change(definition: Definition) -> Outline:
        outline = made(definition)
        assert outline.groups is not None
        keys = [replace(key, origin=key.origin and (key.origin[0], "v")) for key in outline.groups.keys]
        return replace(outline, groups=replace(outline.groups, keys=tuple(keys)))

    return change


def _changed(made: Callable[..., str], change: Callable[[str], str]) -> Callable[..., str]:
    return lambda *arguments, **named: change(made(*arguments, **named))


def test_a_window_that_is_computed_within_a_part_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys of one window, in place of those that all windows have."""
    monkeypatch.setattr("sql.increments.layers._common", lambda constraints: list(constraints[0]))
    text = "SELECT sum(p.v) OVER (PARTITION BY p.a, p.b) AS s, count(*) OVER (PARTITION BY p.a) AS n FROM t AS p"
    found(st.just(Definition(text, ("s", "n"))))


def test_only_the_added_rows_of_a_window_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_terms(outline: Outline, stored: str, terms: Sequence[ChangeTerm], _: object, named: NamedKeys | None) -> str:
        return regrouped(outline, stored, terms, terms[0].sources, named)

    regrouped = texts.regrouped
    monkeypatch.setattr(texts, "regrouped", of_terms)
    found(windows())
