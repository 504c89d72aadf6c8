"""What names of columns mean in a FROM."""

from __future__ import annotations

from dataclasses import replace

from sql.query.resolution import HALF_JOINS, NULL_SIDES, Column, Scope, relation


def table(name: str, *columns: str, complete: bool = True) -> Scope[str]:
    listed = [Column(column, f"{name}.{column}") for column in columns]
    return Scope.of(relation(listed, [(name,), ("db", name)], complete=complete))


def joined(left: Scope[str], right: Scope[str], label: str, *names: str) -> Scope[str]:
    pairs = left.keys(right, names)
    assert pairs is not None
    return left.joined_by(right, pairs, label)


BOTH = table("t", "A", "b").beside(table("u", "a", "c"))


def test_names_with_and_without_qualifiers() -> None:
    assert BOTH.found(["b"]) == (["t.b"], True)
    assert BOTH.found(["U", "A"]) == (["u.a"], True)
    assert BOTH.found(["db", "t", "a"]) == (["t.A"], True)
    assert BOTH.found(["a"]) == (["t.A", "u.a"], True)
    assert BOTH.found(["x"]) == ([], True)


def test_parts_that_may_be_fields_of_structs() -> None:
    scope = BOTH.beside(table("b", "f"))
    assert scope.resolve(["b", "f"]) == (["b.f"], [])
    assert scope.resolve(["b", "g"]) == (["t.b"], ["g"])
    assert scope.resolve(["t", "b", "g", "h"]) == (["t.b"], ["g", "h"])
    assert scope.resolve(["x", "y"]) == ([], ())


def test_a_relation_of_unknown_columns() -> None:
    unknown: Scope[str] = Scope.of(relation([], [("v",)], complete=False, unlisted=lambda name: f"v?{name}"))
    scope = table("t", "a").beside(unknown)
    assert scope.found(["a"]) == (["t.a"], False)
    assert scope.resolve(["v", "z"]) == (["v?z"], [])
    assert scope.resolve(["a"]) == (["t.a"], [])
    assert scope.star([]) is None
    assert [column.value for column in scope.star(["t"]) or ()] == ["t.a"]


def test_joins_by_column_names() -> None:
    left, right = table("t", "x", "k"), table("u", "k", "y")
    for label, expected in (("", "t.k t.x u.y"), ("RIGHT", "u.k t.x u.y"), ("LEFT SEMI", "t.k t.x")):
        scope = joined(left, right, label, "k")
        assert " ".join(column.value for column in scope.columns) == expected
        assert scope.found(["k"])[0] == [expected.split()[0]]
    scope = joined(left, right, "LEFT", "k")
    assert scope.found(["u", "k"]) == (["u.k"], True)
    assert scope.star(["u"]) is None
    assert left.common(right) == ["k"]
    assert table("t", "k", "K").common(right) is None
    assert left.keys(table("u", "k", complete=False), ["k"]) is None


def test_other_values_are_found_by_every_name() -> None:
    scope = joined(table("t", "k"), table("u", "k"), "", "k").mapped(lambda column: replace(column, value="lost"))
    assert [scope.found(parts)[0] for parts in (["k"], ["t", "k"], ["u", "k"])] == [["lost"]] * 3
    assert [column.value for column in scope.columns] == ["lost"]


def test_a_full_join_by_column_names() -> None:
    left, right = table("t", "x", "k"), table("u", "k", "y")
    pairs = left.keys(right, ["k"])
    assert pairs is not None
    scope = left.joined_by(right, pairs, "FULL OUTER", [Column("k", "t.k or u.k")])
    assert [column.value for column in scope.columns] == ["t.k or u.k", "t.x", "u.y"]
    assert scope.resolve(["K"]) == (["t.k or u.k"], [])
    assert [scope.resolve([table, "k"])[0] for table in ("t", "u")] == [["t.k"], ["u.k"]]
    chained = scope.keys(table("v", "k"), ["k"])
    assert chained is not None
    assert [one.value for one, _ in chained] == ["t.k or u.k"]


def test_which_sides_may_have_null_for_a_row() -> None:
    assert NULL_SIDES["LEFT"] == (False, True)
    assert NULL_SIDES["FULL OUTER"] == (True, True)
    assert not any(any(NULL_SIDES[f"{side}{half}"]) for side in ("", "LEFT ") for half in HALF_JOINS)
