"""Tests the pages of docs/: links are valid, the index names every page, and pictures are well-formed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gateway.service.answers.info import SHOW_COLUMNS
from gateway.spark import host
from sql.classify import classify
from sql.grammar.parser import SyntaxProblem
from sql.increments.reasons import Reason
from sql.lexed import Lexed

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PICTURES = sorted(DOCS.rglob("*.svg"))
PHOTOGRAPHS = sorted(DOCS.rglob("*.png"))
PHOTOGRAPH_BYTES = 100_000

LINK = re.compile(r"\]\(([^()\s]+)\)|\b(?:src|srcset|href)=\"([^\"]+)\"")
CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
MODULE = re.compile(r"`((?:mv|service|proxy|wire|login|monitoring|sql)(?:\.\w+)+)`")
MENTION = re.compile(r"docs/[\w./-]+\.(?:md|svg)")


def links(page: Path) -> list[str]:
    text = CODE.sub(lambda code: "x" * len(code[0]), page.read_text(encoding="utf-8"))
    found = [first or second for first, second in LINK.findall(text)]
    return [link for link in found if not link.startswith(("http://", "https://"))]


def anchors(page: Path) -> set[str]:
    """The anchors that repository hosts usually generate for headings."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_is_valid(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_index_names_every_page() -> None:
    named = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {page.resolve() for page in DOCS.rglob("*.md")} - {(DOCS / "README.md").resolve()}
    assert sorted(map(str, pages - named)) == []


def test_every_page_that_the_code_mentions_exists() -> None:
    sources = [path for folder in ("gateway", "sql", "tests", "scripts", "conf") for path in (ROOT / folder).rglob("*")]
    missing = []
    for path in sources:
        if path.is_file() and path.suffix in {".py", ".sql", ".toml", ""}:
            text = path.read_text(encoding="utf-8")
            missing += [f"{path.name}: {page}" for page in MENTION.findall(text) if not (ROOT / page).exists()]
    assert missing == []


def test_every_reason_against_an_incremental_refresh_is_explained() -> None:
    _, _, table = (DOCS / "how-to" / "incremental.md").read_text(encoding="utf-8").partition("### Reasons")
    assert re.findall(r"^\| `([A-Z_]+)` \| [^|]+ \| [^|]*\|$", table, re.MULTILINE) == list(Reason)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(
        r"`((?:mv|service|proxy|wire|login|monitoring|sql)(?:\.\w+)+)`", page.read_text(encoding="utf-8")
    )
    assert [name for name in named if not is_code(name)] == []


def is_code(name: str) -> bool:
    """Whether it is a module, or a name in one; `sql` lies beside the gateway's packages."""
    path = ROOT.joinpath(*(() if name.startswith("sql.") else ("gateway",)), *name.split("."))
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    module = path.parent.with_suffix(".py")
    defined = rf"\b(?:class|def) {path.name}\b|^{path.name}\b"
    return module.exists() and re.search(defined, module.read_text(encoding="utf-8"), re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_statement_in_an_example_is_understood(page: Path) -> None:
    """Placeholders of other languages are none of the gateway's: what it cannot read, it forwards."""
    blocks = re.findall(r"^```sql\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    statements = [statement.strip() for block in blocks for statement in block.split(";")]
    refused = []
    for statement in filter(None, statements):
        try:
            classify(Lexed(statement))
        except SyntaxProblem as problem:
            refused.append(f"{statement}: {problem}")
    assert refused == []


CLUMSY = {
    r"\bas (?:it|they) came\b": "forwarded unchanged",
    r"\b[Ss]omebody\b": "who: a client, a user, another program; or the passive",
    r"\b[Nn]obody's\b": "no client's, no statement's",
    r"\bfound out\b|\b[Ff]inds out\b": "determined, evaluated, asked",
    r"\bbeing found\b": "still being evaluated",
    r"(?<![Tt]here )\b(?:is|are) no (?!longer|more|need|other|such|way|reason)[a-z]": "is not a",
    r'(?:class|def) [^\n]*:\n +"""(?:Of|By|With (?:what|which)) ': "a noun or a verb first",
    r"\bknown by what\b": "identified by",
    r"\b(?:Errands|Journey|is_untold|loops\.aside)\b": "BackgroundTasks, TimeTravelRead, is_unknown, in_thread",
    r"\bneed be [a-z]+(?:ed|en)\b": "must be",
    r"\b[Oo]ne history's\b": "of one history",
    r'"""(?:Can|Is|Are|Does|Do|Has|Have|Must|May) [^"]*\?': 'a docstring "Whether ..."',
}
"""Phrases that read as translated, and what to write instead."""


def test_texts_are_idiomatic() -> None:
    """Those of pages, settings, docstrings, comments and messages."""
    folders = ("gateway", "sql", "conf", "scripts", "tests")
    sources = [
        path for folder in folders for kind in ("*.py", "*.toml", "*.md") for path in (ROOT / folder).rglob(kind)
    ]
    found = []
    for path in [*PAGES, *sources]:
        if path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8")
        for phrase, better in CLUMSY.items():
            for match in re.finditer(phrase, text):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path.relative_to(ROOT)}:{line}: '{match[0]}'; better: {better}")
    assert found == []


def test_the_columns_of_show_are_documented() -> None:
    page = (DOCS / "reference" / "statements.md").read_text(encoding="utf-8")
    named = re.search(r"`SHOW MATERIALIZED VIEWS` has the columns (.*?);", page, re.DOTALL)
    assert named is not None
    assert re.findall(r"`(\w+)`", named[1]) == [column.name for column in SHOW_COLUMNS]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_every_picture_is_well_formed_and_used(picture: Path) -> None:
    root = ElementTree.parse(picture).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    # Pictures load nothing from elsewhere.
    assert re.findall(r"(?:href|src|url)\W{1,3}https?:", picture.read_text(encoding="utf-8")) == []
    assert picture.resolve() in shown()


@pytest.mark.parametrize("picture", PHOTOGRAPHS, ids=lambda picture: picture.name)
def test_every_picture_of_a_screen_is_small_and_used(picture: Path) -> None:
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < PHOTOGRAPH_BYTES
    assert picture.resolve() in shown()


def shown() -> set[Path]:
    """The targets of all links and pictures of the pages."""
    return {(page.parent / link).resolve() for page in PAGES for link in links(page)}


def test_the_page_of_a_thrift_server_has_the_settings_of_the_embedded_engine() -> None:
    """The engine sets them for reasons that apply to any server."""
    own = {
        "spark.master",
        "spark.app.name",
        "spark.driver.memory",
        "spark.driver.host",
        "spark.driver.bindAddress",
        "spark.ui.enabled",
        "spark.ui.showConsoleProgress",
        "spark.sql.catalogImplementation",
        "spark.local.dir",
        f"spark.hadoop.{host.CONNECTION_URL}",
        "spark.hadoop.hive.exec.scratchdir",
        "spark.hadoop.hive.server2.transport.mode",
        "spark.hadoop.hive.server2.thrift.bind.host",
        "spark.hadoop.hive.server2.thrift.port",
        "spark.hadoop.hive.server2.async.exec.threads",  # Hive's own default.
    }
    page = (DOCS / "how-to" / "thrift-server.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^    (spark\.\S+) +(.+)$", page, re.MULTILINE))
    expected = host.spark_settings(host.HostOptions(Path("/srv/spark"), 1, {}))
    assert shown.keys() == expected.keys() - own
    differing = {"spark.sql.warehouse.dir", "spark.driver.extraJavaOptions"}
    assert {name: shown[name] for name in shown.keys() - differing} == {
        name: expected[name] for name in shown.keys() - differing
    }
    for option in ("-Dderby.storage.useDefaultFilePermissions=false", "-XX:+ExitOnOutOfMemoryError"):
        assert option in shown["spark.driver.extraJavaOptions"]
        assert option in expected["spark.driver.extraJavaOptions"].replace('"', "")
