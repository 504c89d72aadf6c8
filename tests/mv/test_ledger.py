"""The ledger of noted writes, against a model that knows when each write really committed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from views import given, view_of

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import Ledger, TablesWritten
from gateway.mv.freshness.news import News
from gateway.mv.freshness.pending import WORKED_OUT_MAX, PendingWrites
from gateway.mv.model.contents import Contents
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import MaterializedView, Version
from sql.names import Namespace, TableName
from sql.statement import CreateClauses
from sql.texts.storage_layout import UNPARTITIONED


def insert(*words: str) -> TablesWritten:
    return TablesWritten(frozenset({"insert", *words}), frozenset())


def no_views() -> PendingWrites:
    """There are none that could note a write."""
    return PendingWrites({}, lambda _: [], lambda _: [], News(), lambda: 0)


@dataclass(eq=False)
class _Refresh:
    """What a refresh saw when it began: the writes that had ended. Open ones may be missing from what it read."""

    contained: frozenset[TablesWritten]
    contains: int


class LedgerMachine(RuleBasedStateMachine):
    """Writes begin and end, refreshes begin and publish: nothing stale is ever taken for fresh."""

    writes = Bundle("writes")
    refreshes = Bundle("refreshes")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.ended: set[TablesWritten] = set()
        self.current = frozenset[TablesWritten]()

    @rule(target=writes)
    def begin(self) -> TablesWritten:
        write = insert()
        self.ledger.begin(write)
        return write

    @rule(write=writes)
    def end(self, write: TablesWritten) -> None:
        self.ledger.end(write)
        self.ended.add(write)

    @rule(target=refreshes)
    def start_refresh(self) -> _Refresh:
        return _Refresh(frozenset(self.ended), self.ledger.events)

    @rule(refresh=consumes(refreshes))
    def publish(self, refresh: _Refresh) -> None:
        if refresh.contains < self.ledger.contains:
            return  # they run one at a time: an older one never publishes over a newer
        self.current = refresh.contained
        self.ledger.publish(refresh.contains)

    @invariant()
    def a_version_that_misses_an_ended_write_is_stale(self) -> None:
        if self.ended - self.current:
            assert self.ledger.stale
        else:
            assert not self.ledger.missed


LedgerMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestLedger = LedgerMachine.TestCase


def test_a_reader_during_an_open_write_needs_no_refresh() -> None:
    """A long write must not make every read recompute: until it ends, what is published is right."""
    ledger, write = Ledger(), insert()
    ledger.begin(write)
    assert not ledger.stale
    ledger.end(write)
    assert ledger.stale


def test_open_writes_are_found_by_table_or_by_word() -> None:
    writes = no_views()
    orders, other = TableName("sales", "orders"), TableName("sales", "other")
    exact = TablesWritten(frozenset({"insert", "orders"}), frozenset({orders}))
    vague = TablesWritten(frozenset({"merge", "orders"}), None)
    for each in (exact, vague, TablesWritten(frozenset({"insert", "orders"}), frozenset({other}))):
        writes.begin(each)
    assert writes.touching(frozenset({orders})) == [exact, vague]
    writes.end(exact)
    assert writes.touching(frozenset({orders})) == [vague]
    assert writes.touching(frozenset()) == []
    copies = TablesWritten(frozenset({"create", "orders", "copy"}), None, targets=lambda: frozenset({other}))
    writes.begin(copies)
    assert writes.touching(frozenset({orders})) == [vague]


def test_the_tables_of_few_open_writes_are_worked_out_at_once() -> None:
    writes, asked = no_views(), 0

    def targets() -> frozenset[TableName]:
        nonlocal asked
        asked += 1
        return frozenset()

    for _ in range(3 * WORKED_OUT_MAX):
        writes.begin(TablesWritten(frozenset({"create", "orders"}), None, targets=targets))
    assert len(writes.touching(frozenset({TableName("sales", "orders")}))) == 2 * WORKED_OUT_MAX
    assert asked == WORKED_OUT_MAX


def test_a_cancelled_write_stays_suspect() -> None:
    """Spark may commit what it was told to cancel: it counts as ended now, and again when that cannot be any more."""
    table = TableName("sales", "orders")
    catalog = Catalog("freshgate_storage", Fence(None, "freshgate_storage", ""))  # type: ignore[arg-type]  # nobody asks Spark
    view = MaterializedView(
        id="v",
        name=TableName("sales", "m"),
        storage=TableName("freshgate_storage", "v"),
        definition=TableName("freshgate_storage", "v__definition"),
        query="",
        namespace=Namespace(),
        columns=(),
        listed=(),
        clauses=CreateClauses(),
        owner="",
        created_at=0,
        tables=frozenset({table}),
        schemas={},
        views=frozenset(),
        layout=UNPARTITIONED,
        followed=None,
        view_names={},
        properties={},
        comment=None,
        current=Version(1, 0, 0, {}),
        versions_reserved=2,
    )
    entry = catalog.reserve(view)
    write = TablesWritten(frozenset(), frozenset({table}))
    catalog.writes.begin(write)
    catalog.writes.send(write)
    catalog.writes.lose(write)
    assert entry.ledger.stale
    entry.ledger.contains = entry.ledger.events  # a refresh that began now
    assert not entry.ledger.stale
    catalog.writes.end(write)
    assert entry.ledger.stale


T, U = TableName("d", "t"), TableName("d", "u")


def stage(views: int) -> Catalog:
    """So many views that read d.u."""
    catalog = Catalog("s", Fence(None, "s", ""))  # type: ignore[arg-type]  # nobody asks Spark
    for number in range(views):
        catalog.show(catalog.reserve(reading(f"v{number}", U)))
    return catalog


def reading(view_id: str, *tables: TableName) -> MaterializedView:
    any_view = view_of(Version.whole(1, 0, 0, {}))
    return replace(any_view, id=view_id, name=TableName("d", view_id), tables=frozenset(tables))


def test_a_write_ends_with_the_views_with_which_it_was_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks the others, of which there may be thousands."""
    catalog, asked = stage(50), Counter[str]()
    end, forget = Ledger.end, Ledger.forget

    def counted_end(ledger: Ledger, write: TablesWritten, *rest: Any) -> bool:
        asked["end"] += 1
        return end(ledger, write, *rest)

    def counted_forget(ledger: Ledger, write: TablesWritten) -> None:
        asked["forget"] += 1
        forget(ledger, write)

    monkeypatch.setattr(Ledger, "end", counted_end)
    monkeypatch.setattr(Ledger, "forget", counted_forget)
    catalog.show(catalog.reserve(reading("w", T)))
    for tables, views in ((None, 0), (frozenset({TableName("d", "x")}), 0), (frozenset({T}), 1)):
        ended, forgotten, lost = (TablesWritten(frozenset({"insert"}), tables) for _ in range(3))
        for each in (ended, forgotten, lost):
            catalog.writes.begin(each)
            catalog.writes.send(each)
        asked.clear()
        catalog.writes.end(ended)
        catalog.writes.forget(forgotten)
        catalog.writes.lose(lost)
        catalog.writes.end(lost)
        assert asked == Counter({"end": 3 * views, "forget": views})
        assert catalog.entry("w").ledger.open == {}


@pytest.mark.parametrize("exact", [True, False])
def test_a_view_that_comes_to_read_a_table_hears_of_the_end_of_its_open_writes(exact: bool) -> None:
    catalog, stale, touched = stage(1), list[str](), set[TableName]()
    catalog.news.stale.add(lambda ids, _: stale.extend(ids))
    catalog.news.touched.add(touched.update)
    write = TablesWritten(frozenset({"insert", "t"}), frozenset({T}) if exact else None)
    catalog.writes.begin(write)
    catalog.writes.send(write)
    made = catalog.reserve(reading("made", T))
    replaced = catalog.entry("v0")
    given(replaced, tables=frozenset({T, U}))
    gone = catalog.reserve(reading("gone", T))
    catalog.remove(gone)
    assert [entry.ledger.stale for entry in (made, replaced)] == [False, False]
    catalog.writes.lose(write)
    assert [entry.ledger.stale for entry in (made, replaced)] == [True, True]
    assert touched == {T} if exact else {T, U}
    for entry in (made, replaced):
        entry.ledger.publish(entry.ledger.events)
    another = catalog.reserve(reading("another", T))
    catalog.writes.end(write)
    assert [entry.ledger.stale for entry in (made, replaced, another)] == [True, True, True]
    assert sorted(stale) == ["another", "made", "v0"]
    assert not gone.ledger.stale


def test_a_write_that_takes_rows_away_beside_a_refresh_is_told() -> None:
    """A table may look again as before, though what was read in between was not."""
    adding, removing = insert("into", "t"), TablesWritten(frozenset({"truncate", "table", "t"}), None)
    assert (adding.removes, removing.removes) == (False, True)
    ledger = Ledger()
    ledger.begin(removing)
    ledger.end(removing)
    began = ledger.events
    assert not ledger.removed_since(began)
    ledger.begin(adding)
    ledger.end(adding)
    assert not ledger.removed_since(began)
    ledger.begin(removing)
    assert ledger.removed_since(ledger.events)
    ledger.end(removing)
    assert ledger.removed_since(began)
    assert not ledger.removed_since(ledger.events)
    before = Contents(Snapshot("t", "empty"), ((0, {"u": Snapshot("u", "empty")}),))
    doubtful = before.doubtful(7)
    assert doubtful.followed is not None
    assert Snapshot("t", "empty").changed(doubtful.followed) is None
    assert doubtful.others_of(7)["u"].identity != "u"
