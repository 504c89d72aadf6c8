"""A view's properties read back as the view that was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mv import properties
from gateway.mv.model import MaterializedView, Version, Watermark
from sql.names import Namespace, TableName

texts = st.text(max_size=60)
words = st.text(min_size=1, max_size=20).map(str.lower)
names = st.builds(TableName, words, words, words)
counts = st.integers(min_value=0, max_value=2**53)
versions = st.builds(
    Version,
    number=st.integers(1, 10_000),
    started_at=counts,
    published_at=counts,
    watermark=st.builds(Watermark, counts, st.dictionaries(words, counts, max_size=3)),
    method=st.just("COMPLETE"),
)
views = st.builds(
    MaterializedView,
    id=words,
    name=names,
    storage=st.just(TableName("freshgate_storage", "x")),
    definition=st.just(TableName("freshgate_storage", "x__definition")),
    query=st.text(min_size=1, max_size=20_000) | st.just("select 1 " * 3_000),
    namespace=st.builds(Namespace, words, words),
    columns=st.lists(texts, max_size=5).map(tuple),
    owner=texts,
    created_at=counts,
    tables=st.frozensets(names, max_size=4),
    views=st.frozensets(words, max_size=3),
    properties=st.dictionaries(texts, texts, max_size=3),
    comment=st.none() | texts,
    current=versions,
    mark=counts,
    versions_reserved=counts,
)


def _read(stored: dict[str, str], view: MaterializedView) -> MaterializedView:
    return properties.read_view(stored, view.storage, view.definition, view.current.number)


@given(views)
def test_a_view_reads_back(view: MaterializedView) -> None:
    stored = properties.write_view(view)
    assert _read(stored, view) == view
    assert properties.read_name(stored) == view.name
    assert properties.versions(stored) == {view.current.number}
    assert max(map(len, stored.values())) <= properties.VALUE_CHARACTERS_MAX


@given(views, versions)
def test_the_published_version_is_read_whatever_others_there_are(view: MaterializedView, other: Version) -> None:
    stored = properties.write_view(view)
    if other.number != view.current.number:
        stored |= properties.write_version(other, view.mark, view.versions_reserved)
    assert _read(stored, view).current == view.current


@given(views, st.frozensets(names, max_size=200))
def test_shorter_bases_replace_longer_ones(view: MaterializedView, many: frozenset[TableName]) -> None:
    """Pieces of the longer value stay in the metastore; they must not be read."""
    longer = {**properties.write_view(view), **properties.write_bases(_with_tables(view, many))}
    stored = longer | properties.write_bases(view)
    assert _read(stored, view) == view


@given(views)
def test_the_keys_of_a_version_are_its_own(view: MaterializedView) -> None:
    stored = properties.write_view(view)
    keys = properties.version_keys(stored, view.current.number)
    assert keys
    rest = {key: value for key, value in stored.items() if key not in keys}
    assert properties.versions(rest) == frozenset()


def test_a_later_format_is_refused_with_advice() -> None:
    stored = {"freshgate.format": "99"}
    with pytest.raises(properties.UnreadableProperties, match="format 99"):
        properties.read_view(stored, TableName("s", "x"), TableName("s", "x__definition"), 1)


@given(views, st.data())
def test_a_missing_property_is_named(view: MaterializedView, data: st.DataObject) -> None:
    stored = properties.write_view(view)
    required = [key for key in stored if key.split(".")[1] in {"query", "owner", "mark", "tables", "view"}]
    del stored[data.draw(st.sampled_from(required))]
    with pytest.raises(properties.UnreadableProperties, match="missing"):
        _read(stored, view)


def _with_tables(view: MaterializedView, tables: frozenset[TableName]) -> MaterializedView:
    return MaterializedView(**{name: getattr(view, name) for name in view.__slots__} | {"tables": tables})
