"""The ledger of noted writes, against a model that knows when each write really committed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from views import given, view_of

from gateway.mv.catalog.fence import Fence
from gateway.mv.catalog.index import Catalog
from gateway.mv.freshness.ledger import WORKED_OUT_MAX, Ledger, OpenWrites
from gateway.mv.model.contents import Contents
from gateway.mv.model.snapshot import Snapshot
from gateway.mv.model.view import MaterializedView, Version
from sql.names import Namespace, TableName
from sql.statement import Clauses
from sql.texts.maintenance import UNPARTITIONED


@dataclass(eq=False)
class _Write:
    number: int
    ended: bool = False


@dataclass(eq=False)
class _Refresh:
    """What a refresh saw when it began: the writes that had ended. Open ones may be missing from what it read."""

    contained: frozenset[int]
    contains: int


class LedgerMachine(RuleBasedStateMachine):
    """Writes begin and end, refreshes begin and publish: nothing stale is ever taken for fresh."""

    writes = Bundle("writes")
    refreshes = Bundle("refreshes")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.ended: set[int] = set()
        self.begun = 0
        self.current = frozenset[int]()

    @rule(target=writes)
    def begin(self) -> _Write:
        self.begun += 1
        self.ledger.begin(self.begun)
        return _Write(self.begun)

    @rule(write=writes)
    def end(self, write: _Write) -> None:
        self.ledger.end(write.number)
        self.ended.add(write.number)

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
    ledger = Ledger()
    ledger.begin(1)
    assert not ledger.stale
    ledger.end(1)
    assert ledger.stale


def test_open_writes_are_found_by_table_or_by_word() -> None:
    writes = OpenWrites()
    orders, other = TableName("sales", "orders"), TableName("sales", "other")
    exact = writes.begin(frozenset({"insert", "orders"}), [orders])
    vague = writes.begin(frozenset({"merge", "orders"}), None)
    writes.begin(frozenset({"insert", "orders"}), [other])
    assert writes.touching(frozenset({orders})) == [exact, vague]
    writes.end(exact)
    assert writes.touching(frozenset({orders})) == [vague]
    assert writes.touching(frozenset()) == []
    writes.begin(frozenset({"create", "orders", "copy"}), None, targets=lambda: frozenset({other}))
    assert writes.touching(frozenset({orders})) == [vague]


def test_the_tables_of_few_open_writes_are_worked_out_at_once() -> None:
    writes, asked = OpenWrites(), 0

    def targets() -> frozenset[TableName]:
        nonlocal asked
        asked += 1
        return frozenset()

    for _ in range(3 * WORKED_OUT_MAX):
        writes.begin(frozenset({"create", "orders"}), None, targets=targets)
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
        clauses=Clauses(),
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
    write = catalog.writes.begin(frozenset(), [table])
    catalog.begin_write(write)
    late = catalog.suspect_write(write)
    assert entry.ledger.stale
    entry.ledger.contains = entry.ledger.events  # a refresh that began now
    assert not entry.ledger.stale
    catalog.end_write(late)
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

    def counted_end(ledger: Ledger, write: int, at: int = 0, tables: frozenset[TableName] = frozenset()) -> bool:
        asked["end"] += 1
        return end(ledger, write, at, tables)

    def counted_forget(ledger: Ledger, write: int) -> None:
        asked["forget"] += 1
        forget(ledger, write)

    monkeypatch.setattr(Ledger, "end", counted_end)
    monkeypatch.setattr(Ledger, "forget", counted_forget)
    catalog.show(catalog.reserve(reading("w", T)))
    for tables, views in ((None, 0), ([TableName("d", "x")], 0), ([T], 1)):
        writes = [catalog.writes.begin(frozenset({"insert"}), tables) for _ in range(3)]
        for each in writes:
            catalog.begin_write(each)
        asked.clear()
        catalog.end_write(writes[0])
        catalog.forget_write(writes[1])
        catalog.end_write(catalog.suspect_write(writes[2]))
        assert asked == Counter({"end": 3 * views, "forget": views})
        assert catalog.entry("w").ledger.open == {}


@pytest.mark.parametrize("exact", [True, False])
def test_a_view_that_comes_to_read_a_table_hears_of_the_end_of_its_open_writes(exact: bool) -> None:
    catalog, stale, touched = stage(1), list[str](), set[TableName]()
    catalog.news.stale.add(lambda ids, _: stale.extend(ids))
    catalog.news.touched.add(touched.update)
    write = catalog.writes.begin(frozenset({"insert", "t"}), [T] if exact else None)
    catalog.begin_write(write)
    made = catalog.reserve(reading("made", T))
    replaced = catalog.entry("v0")
    given(replaced, tables=frozenset({T, U}))
    gone = catalog.reserve(reading("gone", T))
    catalog.remove(gone)
    assert [entry.ledger.stale for entry in (made, replaced)] == [False, False]
    late = catalog.suspect_write(write)
    assert [entry.ledger.stale for entry in (made, replaced)] == [True, True]
    assert touched == {T} if exact else {T, U}
    for entry in (made, replaced):
        entry.ledger.publish(entry.ledger.events)
    another = catalog.reserve(reading("another", T))
    catalog.end_write(late)
    assert [entry.ledger.stale for entry in (made, replaced, another)] == [True, True, True]
    assert sorted(stale) == ["another", "made", "v0"]
    assert not gone.ledger.stale


def test_a_write_that_takes_rows_away_beside_a_refresh_is_told() -> None:
    """A table may look again as before, though what was read in between was not."""
    writes = OpenWrites()
    adding = writes.begin(frozenset({"insert", "into", "t"}), None)
    removing = writes.begin(frozenset({"truncate", "table", "t"}), None)
    assert (adding.removes, removing.removes) == (False, True)
    ledger = Ledger()
    ledger.begin(1, removes=True)
    ledger.end(1)
    began = ledger.events
    assert not ledger.removed_since(began)
    ledger.begin(2)
    ledger.end(2)
    assert not ledger.removed_since(began)
    ledger.begin(3, removes=True)
    assert ledger.removed_since(ledger.events)
    ledger.end(3)
    assert ledger.removed_since(began)
    assert not ledger.removed_since(ledger.events)
    before = Contents(Snapshot("t", "empty"), ((0, {"u": Snapshot("u", "empty")}),))
    doubtful = before.doubtful(7)
    assert doubtful.followed is not None
    assert Snapshot("t", "empty").changed(doubtful.followed) is None
    assert doubtful.others_of(7)["u"].identity != "u"
