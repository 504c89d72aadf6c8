"""One module for a table format: no other module tells one format from another."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from test_architecture import MODULES

from gateway.mv.formats.known_formats import FORMATS, format_of
from gateway.mv.ports import Relation, RelationKind
from sql.names import PATH_FORMATS, TableName

WORDS = re.compile(r"iceberg|(?<!time)delta", re.IGNORECASE)
"""What a name or a text of a module does not contain."""
EXACTLY = frozenset({"hive", "jdbc"})
"""What a text of a module is not. Many contain these: HiveServer2, URLs."""
THEIRS = (
    "gateway.mv.formats.",
    *(f"sql.texts.{name}_texts" for name in ("delta", "hive", "iceberg")),
    *(f"sql.texts.{name}" for name in ("delta_rows", "iceberg_rows", "open_formats")),
)
"""The modules of formats, and those with their statements, which only they import."""
SCOPE = ("gateway.mv.", "gateway.service.", "gateway.spark.", "sql.")
MAY_NAME_THEM = {
    "sql.names": "reads the names of tables: paths, and parts of a table",
    "sql.proof.understood_classes": "what plans say of the state of a table that is read",
    "sql.spark_settings": "the names of Spark's settings",
    "sql.grammar.view_properties": "the prefixes of Spark's table properties",
    "gateway.spark.metastore": "reads what Spark's description of a Hive table has besides",
    "gateway.spark.older": "the same, of Spark 3.5",
    "gateway.spark.host": "the kind of the embedded engine's metastore",
    "gateway.spark.client": "a class of Spark's that has no views",
}


def names_of_formats(source: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each name and each literal that names a format, without docstrings."""
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documents:
                found = text.lower() in EXACTLY or WORDS.search(text)
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.alias(name=text):
                found = WORDS.search(text)
            case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
                found = WORDS.search(text)
            case _:
                continue
        if found:
            yield node.lineno, text[:60]


def test_only_the_modules_of_formats_name_formats() -> None:
    found = {
        f"{name}:{line} names {word!r}"
        for name, path in MODULES.items()
        if name.startswith(SCOPE) and not name.startswith(THEIRS) and name not in MAY_NAME_THEM
        for line, word in names_of_formats(path.read_text(encoding="utf-8"))
    }
    assert sorted(found) == []


def test_no_module_is_excused_without_need() -> None:
    needless = [name for name in MAY_NAME_THEM if not list(names_of_formats(MODULES[name].read_text(encoding="utf-8")))]
    assert needless == []


def test_a_name_that_is_a_path_is_of_a_format() -> None:
    for word in PATH_FORMATS:
        name = TableName(word, "/lake/sales")
        found = format_of(Relation(name, RelationKind.TABLE, provider=word, location=name.path))
        assert found is not None, word
        assert word in found.paths
    assert frozenset().union(*(each.paths for each in FORMATS)) == PATH_FORMATS
