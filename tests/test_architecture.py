"""Checks the layers and the size limits in the source code."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("gateway", "sql")
CONSTRUCTOR_PARAMETERS_MAX = FUNCTION_PARAMETERS_MAX = 10
METHODS_MAX = 50
LARGE_CLASSES = {"gateway.proxy.relay.Relay"}
"""Two sockets and what may happen to each; its parts would share all of its state."""
FUNCTION_LINES, MODULE_LINES = 70, 700
"""Targets."""

# What each layer may import besides itself. All of gateway except wire and sqlalchemy may also import gateway.errors,
# config and tally.
ALLOWED = {
    "sql": set[str](),
    "gateway.wire": set[str](),
    "gateway.checks": set[str](),
    "gateway.access_list": set[str](),
    "gateway.networks": set[str](),
    "gateway.no_redirects": set[str](),
    "gateway.limit_rules": {"gateway.access_list", "gateway.networks"},
    "gateway.config": {
        *("gateway.access_list", "gateway.checks", "gateway.limit_rules", "gateway.networks", "gateway.upstream_url")
    },
    "gateway.arguments": set[str](),
    "gateway.removed_settings": {"gateway.upstream_url"},
    "gateway.settings_file": {
        *("gateway.checks", "gateway.removed_settings", "gateway.toml_lines", "gateway.upstream_url")
    },
    "gateway.toml_lines": set[str](),
    "gateway.upstream_url": set[str](),
    "gateway.children": set[str](),
    "gateway.errors": set[str](),
    "gateway.tally": set[str](),
    "gateway.watchdog": set[str](),
    "gateway.loops": {"gateway.errors"},
    "gateway.sealed_transport": {"gateway.wire"},
    "gateway.spark_home": {"gateway.errors"},
    "gateway.mv": {"sql"},
    "gateway.login": {"gateway.wire"},
    "gateway.service": {"sql", "gateway.mv", "gateway.login", "gateway.wire"},
    "gateway.proxy": {"gateway.sealed_transport", "gateway.service", "gateway.wire"},
    # It starts and ends whole gateways without knowing their parts.
    "gateway.discovery": set[str](),
    "gateway.gateways": {"gateway.mv", "gateway.proxy", "gateway.wire"},
    "gateway.memory": {"sql", "gateway.mv", "gateway.wire"},
    "gateway.spark": {"sql", "gateway.mv", "gateway.sealed_transport", "gateway.wire", "gateway.spark_home"},
    # It tells others what happens to views; these do not know it.
    "gateway.lineage": {"sql", "gateway.mv"},
    # It reads counters that the other layers keep; these do not know it.
    "gateway.monitoring": {"sql", "gateway.mv", "gateway.service", "gateway.proxy"},
    # It reads what the other layers keep, and does what statements do; these do not know it.
    "gateway.page": {
        *("sql", "gateway.mv", "gateway.service", "gateway.login", "gateway.proxy", "gateway.status", "gateway.wire")
    },
    # A client of the gateway: it queries the gateway with SQL, and imports none of the other layers.
    "gateway.status": set[str](),
    # A client, too, which starts its gateway as another process.
    "gateway.demonstration": {"gateway.spark_home"},
    # A client, too, which runs in other programs: it imports nothing else of ours, not even the leaves.
    "gateway.sqlalchemy": set[str](),
    "gateway": set[str](),
}
# The rooms of a layer, and its modules outside rooms, in order: each may import those before it.
ROOMS = {
    "sql": (
        *(
            "words",
            "names",
            "table_keys",
            "mentioned",
            "releases",
            "spark_settings",
            "wildcards",
            "query",
            "redaction",
            "statement",
            "scan",
            "lexed",
        ),
        *(
            "texts",
            "reading",
            "grammar",
            "definition",
            "increments",
            "rewriting",
            "proof",
            "column_lineage",
            "memory",
            "classify",
            "scripts",
            "composed",
            "understood",
        ),
    ),
    "gateway.mv": (
        *("ports", "temporary_settings", "concurrency", "subscribers", "many", "model", "freshness", "catalog"),
        *("formats", "observation", "versions", "memory", "refresh", "rewriting", "jobs", "statements"),
    ),
    "gateway.service": (
        *("decision", "results", "operations", "clients", "answers", "routing"),
        *("leadership", "recording", "memory", "executions", "elsewhere", "repeats", "dispatch"),
    ),
    "gateway.assembly": (
        *("at_spark", "records", "views", "refreshes", "rewriting", "answers", "routing", "in_memory", "clients"),
        *("listening", "one_gateway", "reporting", "browsers", "doors"),
    ),
}
SHARED_NAMES = {"client", "command", "dialect", "terms"}
"""`client`: of Spark, and of the gateway. `command`: `freshgate user`, and `freshgate status`. `dialect`: of sqlglot,
and of SQLAlchemy. `terms`: of an expression in a proof, and of a change."""
LEAVES = {
    "gateway.access_list",
    "gateway.limit_rules",
    "gateway.networks",
    "gateway.no_redirects",
    "gateway.config",
    "gateway.errors",
    "gateway.tally",
    "gateway.loops",
    "gateway.children",
}
# The command line, the server and the assembly connect all layers. Only they import each other.
COMPOSITION = {"gateway.__main__", "gateway.server", "gateway.assembly"}
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager"}


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _modules() -> dict[str, Path]:
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = _modules()


def layer_of(module: str) -> str:
    """`gateway.mv` for any module in it, `sql` for `sql.names`; a module outside the layers is its own layer."""
    parts = module.split(".")
    if parts[0] == "sql":
        return "sql"
    return ".".join(parts[:2])


def imports_of(source: str, module: str, known: set[str]) -> set[str]:
    """The project's modules that a module imports, also within functions and under TYPE_CHECKING."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import in line {node.lineno}"
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in known else node.module or "")
    return {name for name in found if name.split(".")[0] in PACKAGES}


@cache
def graph() -> dict[str, set[str]]:
    known = set(MODULES)
    return {name: imports_of(path.read_text(encoding="utf-8"), name, known) for name, path in MODULES.items()}


def violations(imports: dict[str, set[str]]) -> Iterator[str]:
    """The imports that violate the layers."""
    for module, targets in imports.items():
        layer = layer_of(module)
        if layer in COMPOSITION:
            continue
        allowed = ALLOWED[layer] | {layer}
        if layer.startswith("gateway.") and layer not in LEAVES | {"gateway.wire", "gateway.sqlalchemy"}:
            allowed |= LEAVES
        for target in sorted(targets):
            if layer_of(target) in COMPOSITION or layer_of(target) not in allowed:
                yield f"{module} imports {target}"


def test_imports_follow_the_layers() -> None:
    assert list(violations(graph())) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sql.names", "import gateway.errors"),
        ("gateway.wire.frame", "from gateway.errors import FreshgateError"),
        ("gateway.mv.catalog.index", "def f():\n    from gateway.service import session"),
        ("gateway.mv.catalog.index", "if TYPE_CHECKING:\n    from gateway.spark.client import Connection"),
        ("gateway.service.clients.session", "from gateway.spark import client"),
        ("gateway.proxy.relay", "from gateway.mv.catalog.index import Catalog"),
        ("gateway.mv.catalog.index", "from gateway.wire.message import Handle"),
        ("gateway.mv.catalog.index", "import gateway.server"),
        ("gateway.login.ldap", "from gateway.service.clients.session import Session"),
        ("gateway.mv.statements.rights", "from gateway.login.authenticator import Authenticator"),
        ("gateway.status.model", "from gateway.mv.model.view import Freshness"),
        ("gateway.service.dispatch", "from gateway.monitoring.metrics import Metrics"),
        ("gateway.monitoring.metrics", "from gateway.spark.client import SessionPool"),
        ("gateway.proxy.relay", "from gateway.status.client import Client"),
        ("gateway.sqlalchemy.dialect", "from gateway.errors import FreshgateError"),
        ("gateway.sqlalchemy.values", "from sql.names import quote"),
    ],
)
def test_an_import_against_the_layers_is_found(module: str, source: str) -> None:
    assert list(violations({module: imports_of(source, module, set(MODULES))}))


def room_of(module: str) -> tuple[str, int]:
    """The module's layer, and the position of its room there; -1 in a layer without rooms and for the layer itself."""
    layer = layer_of(module)
    rest = module.removeprefix(layer).lstrip(".").split(".")[0]
    return layer, ROOMS[layer].index(rest) if layer in ROOMS and rest else -1


def upward(imports: dict[str, set[str]]) -> Iterator[str]:
    """The imports of rooms above the importing one."""
    for module, targets in imports.items():
        layer, place = room_of(module)
        for target in sorted(targets):
            above, higher = room_of(target)
            if above == layer and higher > place:
                yield f"{module} imports {target}"


def test_rooms_import_downward() -> None:
    assert list(upward(graph())) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sql.reading.effects", "from sql import classify"),
        ("sql.statement", "from sql.grammar import parser"),
        ("gateway.mv.model.view", "from gateway.mv.catalog.index import Catalog"),
        ("gateway.mv.catalog.index", "from gateway.mv.refresh.tasks import Tasks"),
        ("gateway.service.clients.session", "from gateway.service.routing.route import Router"),
    ],
)
def test_an_upward_import_is_found(module: str, source: str) -> None:
    assert list(upward({module: imports_of(source, module, set(MODULES))}))


def test_module_names_are_unique() -> None:
    names = Counter(name.split(".")[-1] for name, path in MODULES.items() if path.name != "__init__.py")
    assert [name for name, count in names.items() if count > 1 and name not in SHARED_NAMES] == []


def test_there_is_no_import_cycle() -> None:
    edges, done = graph(), set[str]()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"import cycle: {' -> '.join((*way, module))}"
        if module not in done:
            for target in sorted(edges.get(module, ())):
                if target != module:
                    visit(target, (*way, module))
            done.add(module)

    for module in edges:
        visit(module, ())


def test_every_module_is_used() -> None:
    used = set().union(*graph().values())
    # These modules are started by name, or loaded by other programs through the entry points in pyproject.toml.
    loaded = {"gateway.sqlalchemy.dialect", "gateway.sqlalchemy.superset"}
    loaded |= {"gateway.lineage.events", "gateway.page.page_assembly"}
    started = {"gateway.__main__", "gateway.spark.host", "gateway.memory.engine_process", *loaded}
    assert [name for name in MODULES if name not in used | started and not _is_package(name)] == []


def _is_package(name: str) -> bool:
    return MODULES[name].name == "__init__.py"


def test_no_function_contains_an_import() -> None:
    found = []
    for name, path in MODULES.items():
        tree = parsed(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                inside = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
                found += [f"{name}:{node.lineno}" for node in inside]
    assert found == []


OWNED = {"gateway.mv.freshness.entry": "Entry"}
"""Classes whose state only their own methods may write, by module."""


def state_of(module: str, owner: str) -> set[str]:
    """Returns the names of an object's attributes and properties, including private ones."""
    tree = parsed(MODULES[module].read_text(encoding="utf-8"))
    (found,) = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner)
    names = {node.attr for node in ast.walk(found) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    methods = [node for node in found.body if isinstance(node, ast.FunctionDef)]
    properties = {method.name for method in methods if method.decorator_list}
    return (names | properties) - ({method.name for method in methods} - properties)


def writes_to_others(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each attribute that is assigned or deleted on anything but `self`."""
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and not _is_self(node.value):
            yield node.lineno, node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"setattr", "delattr"}:
            yield node.lineno, ast.unparse(node.args[1]).strip("'")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def test_a_state_is_written_by_its_owner() -> None:
    states = {owner: state_of(module, owner) for module, owner in OWNED.items()}
    found = [
        f"{name}:{line} writes {attribute} of {owner}"
        for name, path in MODULES.items()
        for line, attribute in writes_to_others(path.read_text(encoding="utf-8"))
        for owner, state in states.items()
        if attribute in state
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "entry.view = entry.view.published(version, 2)",
        "a, old.doubtful = 1, False",
        "self._entries[0]._drift = None",
        "entry.writing += 1",
        "del entry._compared",
        "setattr(entry, 'view', view)",
    ],
)
def test_a_write_by_another_object_is_found(source: str) -> None:
    state = state_of("gateway.mv.freshness.entry", "Entry")
    assert [attribute for _, attribute in writes_to_others(source) if attribute in state]


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class with its dotted name."""
    for name, path in MODULES.items():
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield f"{name}.{node.name}", node


def methods_of(node: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def constructor_parameters(node: ast.ClassDef) -> int:
    """How many parameters the class's own `__init__` takes, without `self`."""
    for method in methods_of(node):
        if method.name == "__init__":
            return parameters_of(method) - 1
    return 0


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)


def names_used_twice(found: Iterator[tuple[str, ast.ClassDef]]) -> dict[str, list[str]]:
    """The modules of each class name that more than one class has."""
    by_name: dict[str, list[str]] = {}
    for dotted, node in found:
        by_name.setdefault(node.name, []).append(dotted.rpartition(".")[0])
    return {name: modules for name, modules in by_name.items() if len(modules) > 1}


def test_class_names_have_one_meaning() -> None:
    assert names_used_twice(classes()) == {}


def test_a_class_name_used_twice_is_found() -> None:
    rows, row = parsed("class Rows: ...\nclass Row: ...").body
    assert isinstance(rows, ast.ClassDef)
    assert isinstance(row, ast.ClassDef)
    assert names_used_twice(iter([("a.Rows", rows), ("b.Rows", rows), ("b.Row", row)])) == {"Rows": ["a", "b"]}


def test_constructors_and_functions_are_narrow() -> None:
    widths = {name: constructor_parameters(node) for name, node in classes()}
    assert {name: width for name, width in widths.items() if width > CONSTRUCTOR_PARAMETERS_MAX} == {}
    wide = [
        f"{name}.{node.name}"
        for name, path in MODULES.items()
        for node in parsed(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters_of(node) > FUNCTION_PARAMETERS_MAX
    ]
    assert wide == []


def starred_tuples(source: str) -> list[int]:
    """The lines of calls with `*(a, b)`, which shows as one argument to whoever counts them."""
    calls = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))
    starred = (each for call in calls for each in call.args if isinstance(each, ast.Starred))
    return [each.lineno for each in starred if isinstance(each.value, ast.Tuple)]


def test_no_arguments_hide_in_a_tuple() -> None:
    found = {name: starred_tuples(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert starred_tuples("f(*(a, b), c)\ng(*a)") == [1]


def test_classes_have_few_methods() -> None:
    sizes = {name: len(methods_of(node)) for name, node in classes()}
    assert {name for name, size in sizes.items() if size > METHODS_MAX} == LARGE_CLASSES


def test_a_wide_constructor_is_counted() -> None:
    (node,) = parsed("class C:\n    def __init__(self, a, /, b, c=1, *, d, e=2) -> None: ...").body
    assert isinstance(node, ast.ClassDef)
    assert constructor_parameters(node) == 5


def test_sizes_beyond_the_targets_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """A person judges them: a file that is cut at a number of lines is cut in the wrong place."""
    found = []
    for name, path in MODULES.items():
        text = path.read_text(encoding="utf-8")
        if (lines := text.count("\n")) > MODULE_LINES:
            found.append(f"{name} has {lines} lines, more than {MODULE_LINES}")
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(f"{name}.{node.name} has {length} lines, more than {FUNCTION_LINES}")
    with capsys.disabled():
        for each in found:
            print(f"\n{each}")


def test_module_names_are_specific() -> None:
    # A script run in a folder would import our file instead of the standard library's.
    taken = sys.stdlib_module_names | VAGUE_NAMES
    assert [name for name in MODULES if name.split(".")[-1] in taken - {"__main__"}] == []


def test_every_module_and_package_says_what_it_is_for() -> None:
    """No page lists the modules, so their docstrings are where a reader looks."""
    first = {
        name: (ast.get_docstring(parsed(path.read_text(encoding="utf-8"))) or "").partition("\n\n")[0]
        for name, path in MODULES.items()
    }
    assert {name: text for name, text in first.items() if not text.endswith((".", ":"))} == {}


def test_the_page_of_the_architecture_names_every_layer() -> None:
    page = (ROOT / "docs" / "internals" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The layers")[2].partition("\n\nThe docstring")[0]
    layers = {layer_of(name).removeprefix("gateway.") for name in MODULES if _is_package(name)} - {"gateway"}
    assert layers - set(re.findall(r"`(\w+)`", table)) == set()


def test_names_of_test_modules_are_unique() -> None:
    """pytest imports test modules by their last name. Two with the same name fail only if both are collected."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_packages_are_not_deeply_nested() -> None:
    assert [name for name in MODULES if name.count(".") > 3] == []


def test_no_source_contains_a_reminder() -> None:
    # The words are split, so that this file does not contain them.
    words = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error", "XX" + "X")
    sources = [path for folder in (*PACKAGES, "tests", "scripts") for path in (ROOT / folder).rglob("*")]
    found = []
    for path in sources:
        if path.is_file() and path.suffix in {".py", ".sql", ""}:
            text = path.read_text(encoding="utf-8")
            found += [f"{path.relative_to(ROOT)}: {word}" for word in words if word in text]
    assert found == []


# What opens sessions at Spark. `assembly.at_spark` has their statements pass `mv.catalog.fenced` where several gateways
# run, and the probe only asks whether a login succeeds. What is asked of another server before it is used changes no
# table.
OPENING = {
    "gateway.assembly.at_spark",
    "gateway.spark.client",
    "gateway.spark.connector",
    "gateway.spark.probe",
    "gateway.spark.server_checks",
}


def opens_sessions(source: str) -> bool:
    nodes = list(ast.walk(parsed(source)))
    calls = (ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call))
    named = (ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute))
    return "SessionPool" in calls or "Connection.open" in named


def test_no_statement_goes_around_the_port_for_changes() -> None:
    opening = {name for name, path in MODULES.items() if opens_sessions(path.read_text(encoding="utf-8"))}
    assert opening == OPENING
    assert opens_sessions("pool = SessionPool(spark, user, 1)")
    assert opens_sessions("async def f(): await Connection.open(place, user)")
    assert opens_sessions("reach(partial(Connection.open, user=user))")
