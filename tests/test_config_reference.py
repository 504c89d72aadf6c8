"""Tests that the default configuration file is what the code prints, and that invalid settings are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import chart_schema
import pytest

from gateway import __main__, settings_file
from gateway.__main__ import main
from gateway.config import Address, ConfigError, Settings
from gateway.toml_lines import lines_of
from gateway.upstream_url import UpstreamPlace, place_of

ROOT = Path(__file__).parent.parent


def test_the_file_is_what_the_code_prints() -> None:
    # `freshgate config > conf/freshgate.toml` updates the file.
    assert (ROOT / "conf" / "freshgate.toml").read_text(encoding="utf-8") == settings_file.reference()


def test_the_schema_of_the_chart_has_the_settings_of_the_gateway() -> None:
    """After a change of the settings: .venv/bin/python scripts/chart_schema.py"""
    text = chart_schema.SCHEMA.read_text(encoding="utf-8")
    assert chart_schema.updated(text) == text
    schema = json.loads(text)["properties"]["settings"]
    assert schema["additionalProperties"] is False
    assert "password" in schema["properties"]["upstream"]["properties"]


def test_the_file_changes_no_default() -> None:
    assert settings_file.load(ROOT / "conf" / "freshgate.toml") == Settings()


def test_the_file_with_every_line_uncommented_changes_no_default(tmp_path: Path) -> None:
    spelled, count = re.subn(r"^# (?=[a-z_]+ = )", "", settings_file.reference(), flags=re.MULTILINE)
    assert count == len(settings_file.SETTINGS) - 1  # all but the table of Spark's settings, which has free names
    path = tmp_path / "all.toml"
    path.write_text(spelled, encoding="utf-8")
    assert settings_file.load(path) == Settings()


def test_every_setting_has_a_reason() -> None:
    for setting in settings_file.SETTINGS.values():
        assert setting.why.endswith("."), setting.name


def test_every_table_is_listed_in_the_documentation() -> None:
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    tables = re.findall(r"^(\[[a-z.]+\])$", settings_file.reference(), re.MULTILINE)
    assert re.findall(r"^\| `(\[[a-z.]+\])` \|", page, re.MULTILINE) == tables


def test_the_command_line_takes_precedence_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('data_dir = "here"\n[listen]\nport = 7\ntransports = ["sasl"]\n', encoding="utf-8")
    settings = settings_file.load(path, ["listen.port=0", "listen.port=8", "limits.idle_seconds=2"])
    assert (settings.data_dir, settings.listen.port, settings.listen.transports) == ("here", 8, ("sasl",))
    assert settings.limits.idle_seconds == 2.0


def test_a_list_on_the_command_line_has_commas() -> None:
    assert settings_file.load(None, ["listen.transports=nosasl"]).listen.transports == ("nosasl",)
    assert settings_file.load(None, ["listen.transports=nosasl, sasl"]).listen.transports == ("nosasl", "sasl")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('["root"]', ("root",)),
        (' ["root", "O\'Neil, Ada"] ', ("root", "O'Neil, Ada")),
        ("[]", ()),
        ("root,[x]", ("root", "[x]")),
    ],
)
def test_a_list_on_the_command_line_may_be_written_as_in_the_file(text: str, names: tuple[str, ...]) -> None:
    assert settings_file.load(None, [f"access.administrators={text}"]).access.administrators == names


def test_spark_settings_come_from_the_file_and_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "spark.toml"
    path.write_text(
        '[engine.spark]\n"sql.shuffle.partitions" = 64\nsql.ansi.enabled = false\nexecutor.memory = "1g"\n',
        encoding="utf-8",
    )
    spark = settings_file.load(path, ["engine.spark.executor.memory=2g", "engine.spark.x=a=b"]).engine.spark
    assert spark == {
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.ansi.enabled": "false",
        "spark.executor.memory": "2g",
        "spark.x": "a=b",
    }


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("listen.prot=1", "Did you mean 'listen.port'?"),
        ("zzz=1", "`freshgate config` lists the settings"),
        ("listen.port=http", "'listen.port' must be a whole number"),
        ("listen.port=70000", "must be between -1 and 65535"),
        ("listen.transports=", "must name at least one of sasl, nosasl"),
        ("listen.transports=http", "must name at least one of sasl, nosasl"),
        ('tls.ports=["ftp"]', "must name at least one of binary, http"),
        ("access.administrators=[root]", "Write access.administrators=a,b or"),
        ("access.administrators=[1]", "must be a list of strings"),
        ("upstream.address=spark", "'upstream.address' must be HOST:PORT, such as 127.0.0.1:10000, or several with"),
        ("upstream.address=spark:0", "must be HOST:PORT"),
        ("discovery.zookeeper=zk:99999", "must be HOST:PORT of each server, separated by commas"),
        ("discovery.zookeeper=zk-1;zk-2", "must be HOST:PORT of each server, separated by commas"),
        ("discovery.zookeeper=zk/a b", "must consist of letters, digits, _, - and dots"),
        ("discovery.namespace=a/../b", "must consist of letters, digits, _, - and dots"),
        ("discovery.namespace=/", "must consist of letters, digits, _, - and dots"),
        ("discovery.address=a:b", "must be HOST or HOST:PORT, such as gateway-1.example:10000"),
        ("jobs.time_zone=Mars/Base", "'jobs.time_zone' must be a time zone, such as Europe/Berlin or UTC; it is \"M"),
        ("storage.database=a.b", "must consist of lower-case letters"),
        ("storage.database=Mine", "must consist of lower-case letters"),
        ("storage.database=default", "must not be the default"),
        ("log.level=LOUD", "must be one of DEBUG"),
        ("limits.idle_seconds=soon", "must be a number"),
        ("limits.connections=0", "must be at least 1"),
        ("limits.idle_seconds=nan", "must be at least"),
        ("limits.idle_seconds=inf", "must be at least"),
        ("listen.port", "write name=value"),
        ("engine.spark=1", "there is no setting 'engine.spark'"),
        ("authentication=pam", "'authentication.method' must be one of none, file, ldap"),
        ("ldap.url=http://x", "must be URLs such as ldaps://"),
        ("ldap.url=ldap://a ldap://b/dc=x", "must be URLs such as ldaps://"),
        ("ldap.url=ldap://a:b", "must be URLs such as ldaps://"),
        ("ldap.user_dn_pattern=uid=%s", "must be DNs such as"),
        ("ldap.group_membership_key=a)(b", "must be the name of an LDAP attribute"),
        ("lineage.metastore=meta:9083", "must be hive://HOST:PORT"),
        ("lineage.url=marquez", "must be a URL"),
        ("healing=get_info,none", "must name only get_info, key_calls"),
    ],
)
def test_an_invalid_setting_is_refused_by_name(override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"--set") as refusal:
        settings_file.load(None, [override])
    assert said in str(refusal.value)


def test_short_options_take_precedence_and_are_named_in_messages(capsys: pytest.CaptureFixture[str]) -> None:
    options = {"--port": ("listen.port", "8"), "--upstream": ("upstream.address", "spark:1")}
    settings = settings_file.load(None, ["listen.port=7"], options)
    assert (settings.listen.port, settings.upstream.address) == (8, "spark:1")
    for option, value, said in (("--upstream", "nohost", "must be HOST:PORT"), ("--port", "x", "a whole number")):
        assert main(["serve", option, value]) == 2
        shown = capsys.readouterr().err
        assert shown.startswith(f"freshgate: {option} {value}: ")
        assert said in shown


@pytest.mark.parametrize(
    ("url", "address", "transport", "path", "tls"),
    [
        ("jdbc:hive2://h:1", Address("h", 1), "sasl", "/cliservice", False),
        ("JDBC:HIVE2://h/", Address("h", 10000), "sasl", "/cliservice", False),
        ("jdbc:hive2://[::1]/default", Address("::1", 10000), "sasl", "/cliservice", False),
        ("jdbc:hive2://[::1]:7", Address("::1", 7), "sasl", "/cliservice", False),
        ("jdbc:hive2://h:1/;transportMode=binary;ssl=false", Address("h", 1), "sasl", "/cliservice", False),
        ("jdbc:hive2://h:1/;transportMode=http;httpPath=gate/way", Address("h", 1), "http", "/gate/way", False),
        ("jdbc:hive2://h:1/;httppath=x;TRANSPORTMODE=HTTP;SSL=True", Address("h", 1), "http", "/x", True),
        ("jdbc:hive2://h:1;auth=noSasl", Address("h", 1), "nosasl", "/cliservice", False),
    ],
)
def test_the_upstream_may_be_a_jdbc_url(url: str, address: Address, transport: str, path: str, tls: bool) -> None:
    for settings in (
        settings_file.load(None, [f"upstream.address={url}"]),
        settings_file.load(None, (), {"--upstream": ("upstream.address", url)}),
    ):
        place = settings.upstream.place
        assert place is not None
        assert place == UpstreamPlace((str(address),), transport, path, tls)
        assert place_of(str(place)) == place


@pytest.mark.parametrize("text", ["h:1,i:2", "h:1, i:2", "jdbc:hive2://h:1,i:2/", "jdbc:hive2://h:1,i:2"])
def test_the_upstream_may_be_several_servers(text: str) -> None:
    place = settings_file.load(None, [f"upstream.address={text}"]).upstream.place
    assert place == UpstreamPlace(("h:1", "i:2"))
    assert place_of(str(place)) == place


@pytest.mark.parametrize("text", ["h:1,i:x", "h:1,", "h:1,i:2,h:1"])
def test_each_of_several_servers_is_checked(text: str) -> None:
    with pytest.raises(ConfigError):
        settings_file.load(None, [f"upstream.address={text}"])


@pytest.mark.parametrize(
    ("rest", "said"),
    [
        ("h:1/sales", "the gateway works with all databases. Remove /sales."),
        ("h:1,i:2,h:1/", "it names a server twice. Name each once."),
        ("zoo:1/;serviceDiscoveryMode=zooKeeper", "Name the servers themselves: the gateway does not look for them in"),
        ("h:1/;principal=hive", "principal=hive is not supported."),
        ("h:1/;principal=hive/_HOST@REALM;transportMode=http", "principal needs the binary transport"),
        ("h:1/;user=ada;password=hush", "user is not part of a server's address. Set upstream.user."),
        ("h:1/;password=hush", "Set upstream.password, in a file that nobody else can read."),
        ("h:1/;ssl=true;sslTrustStore=/a.jks", "Set upstream.tls_ca to a PEM file."),
        ("h:1/;transportMode=carrier", "transportMode=carrier is not supported."),
        ("h:1/;auth=delegationToken", "auth=delegationToken is not supported."),
        ("h:1/;httpPath=x", "httpPath has no effect without transportMode=http."),
        ("h:1/;fetchSize=7", "fetchSize is not part of a server's address. Remove it"),
        (
            "h:1/?spark.sql.ansi.enabled=true",
            "settings of Spark (?...) belong to a client's session.",
        ),
        ("h:1/#a=b", "variables (#...) belong to a client's session."),
        ("", "the URL names no server. Write jdbc:hive2://HOST:PORT."),
        ("/;ssl=true", "the URL names no server."),
        ("h:x", "must be HOST:PORT"),
    ],
)
def test_an_unusable_part_of_a_jdbc_url_is_named(rest: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"--upstream jdbc:hive2://") as refusal:
        settings_file.load(None, (), {"--upstream": ("upstream.address", f"jdbc:hive2://{rest}")})
    assert said in str(refusal.value)
    assert "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen = 3", "there is no setting 'listen'"),
        ("[listen]\nport = true", "'listen.port' must be a whole number"),
        ("[listen]\ntransports = [1]", "must be a list of strings"),
        ("data_dir = 5", "'data_dir' must be a string"),
        ("[engine.spark]\nx = [1]", "'engine.spark.x' must be a string, a number or true/false"),
        ("port : 3", "is not a TOML file"),
        (
            'authentication = "file"\n[authentication]\nusers_file = "users"',
            "cannot be combined with the table [authentication]: write `method = ...` in that table.",
        ),
        ('authentication = "file"\nauthentication.users_file = "users"', "write `method = ...` in that table."),
        ('[authentication]\nauthentication = "file"', "Did you mean 'authentication.method'?"),
        ('[listen]\nauthentication = "file"', "Did you mean 'authentication.method'?"),
    ],
)
def test_an_invalid_file_is_refused_with_its_path(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refusal:
        settings_file.load(path)
    assert said in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        settings_file.load(tmp_path / "none.toml")


def test_an_address_is_parsed_and_printed() -> None:
    assert Address.parse("spark.example:10000") == Address("spark.example", 10000)
    assert Address.parse("[::1]:10000") == Address("::1", 10000)
    assert str(Address("::1", 10000)) == "[::1]:10000"


def test_authentication_has_two_spellings(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('authentication = "file"\n[listen]\nport = 7\n', encoding="utf-8")
    assert settings_file.load(path).authentication.method == "file"
    assert settings_file.load(path, ["authentication.method=none"]).authentication.method == "none"
    assert (
        settings_file.load(None, ["authentication=file", "authentication.method=file"]).authentication.method == "file"
    )


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["authentication=file", "authentication.method=none"], "are the same setting"),
        (["authentication=ldap"], "ldap.url is empty"),
        (["authentication.hand_on=proxy_user"], "anybody could log in as any user"),
        (["ldap.bind_dn=cn=a,dc=b"], "ldap.bind_password is empty"),
        (["tls.key=/nope.pem"], "tls.key is set, but tls.certificate is empty"),
        (["discovery.user=ada"], "only one of discovery.user and discovery.password is set"),
        (["tls.client_ca=/nope.pem"], "tls.client_ca is set, but tls.certificate is empty"),
        (["tls.certificate=a.pem", "tls.ports=http"], "tls.ports names http, but the open port is binary"),
        (
            ["tls.certificate=a.pem", "tls.ports=binary", "listen.port=-1", "listen.http_port=1"],
            "but the open port is http",
        ),
        (["upstream.tls_ca=/nope.pem"], "does not say ssl=true"),
        (["gateways.enabled=true"], "gateways.address is empty"),
        (["gateways.enabled=true", "gateways.address=a:1"], "gateways.secret is empty"),
        (
            ["gateways.enabled=true", "gateways.address=a:1", f"gateways.secret={'s' * 32}"],
            "each embedded engine has a metastore of its own",
        ),
        (
            ["gateways.enabled=true", "gateways.address=a:1", f"gateways.secret={'s' * 32}", "gateways.tls_ca=a.pem"],
            "a gateway that leads would have no certificate",
        ),
        (["gateways.address=a"], "must be HOST:PORT"),
        (["gateways.secret=short"], "at least 32 characters"),
        (["listen.port=-1"], "nobody could connect"),
        (["healing=long_pages", "upstream.address=jdbc:hive2://a:1/;transportMode=http"], "healing names long_pages"),
        (["listen.port=28041", "listen.http_port=28041"], "listen.port and listen.http_port are both 28041"),
        (["listen.port=28041", "metrics.port=28041"], "listen.port and metrics.port are both 28041"),
        (
            ["listen.http_port=28041", "metrics.port=28041", "metrics.host=0.0.0.0"],
            "listen.http_port and metrics.port are both 28041",
        ),
    ],
)
def test_contradictory_settings_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings_file.load(None, overrides)
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    "overrides",
    [
        ["tls.certificate=a.pem", "tls.key=b.pem", "tls.client_ca=c.pem"],
        ["tls.certificate=a.pem", "tls.ports=http", "listen.http_port=0"],
        ["upstream.address=jdbc:hive2://a:1/;ssl=true", "upstream.tls_ca=a.pem"],
        ["listen.port=-1", "listen.http_port=28041"],
        ["listen.port=0", "listen.http_port=0", "metrics.port=0"],
        ["listen.port=28041", "metrics.port=28041", "metrics.host=127.0.0.2"],
    ],
)
def test_compatible_settings_are_accepted(overrides: list[str]) -> None:
    settings_file.load(None, overrides)


def test_every_problem_of_a_file_is_reported_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text(
        'data_dir = 5\n\n[listen] # ports\nprot = 3\n"http_port" = "x"\ntransports = [\n  "port = 7",\n]\n'
        '[engine.spark]\n"sql.x" = [1]\n[log]\nlevel = "INFO"\n',
        encoding="utf-8",
    )
    assert main(["config", "--check", str(path)]) == 2
    shown = capsys.readouterr()
    assert [line.partition("; ")[0] for line in shown.err.splitlines()] == [
        f"freshgate: {path}:1: 'data_dir' must be a string, for example \"freshgate-data\"",
        f"freshgate: {path}:4: there is no setting 'listen.prot'. Did you mean 'listen.port'?",
        f"freshgate: {path}:5: 'listen.http_port' must be a whole number, for example -1",
        f"freshgate: {path}:6: 'listen.transports' must name at least one of sasl, nosasl, and nothing else",
        f"freshgate: {path}:10: 'engine.spark.sql.x' must be a string, a number or true/false.",
    ]
    assert shown.out == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = [", "is not a TOML file"),
        ("[listen]\nport = -1\n[tls]\nkey = 'a'\n", "nobody could connect"),
        ("[listen]\nport = -1\n[tls]\nkey = 'a'\n", "tls.key is set, but tls.certificate is empty"),
        ("[listen]\nhost = '0.0.0.0'\n", "which other machines can reach"),
    ],
)
def test_a_file_with_which_serve_would_not_start_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    assert main(["config", "--check", str(path)]) == 2
    assert said in capsys.readouterr().err
    assert main(["config", "--effective", "--config", str(path)]) == 2


def test_a_valid_file_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[listen]\nport = 7\n", encoding="utf-8")
    assert main(["config", "--check", str(path)]) == 0
    assert capsys.readouterr() == (f"freshgate: {path}: no problems found\n", "")


def test_the_default_file_is_the_first_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = tmp_path / "here.toml", tmp_path / "there.toml"
    monkeypatch.setattr(__main__, "DEFAULT_FILES", (here, there))
    for path, port in ((None, 10000), (there, 7), (here, 8)):
        if path is not None:
            path.write_text(f"[listen]\nport = {port}\n", encoding="utf-8")
        source = f"{path}:2" if path else "default"
        assert main(["config", "--effective"]) == 0
        assert f"\nlisten.port = {port}  # {source}\n" in capsys.readouterr().out
        assert main(["config", "--check"]) == 0
        assert capsys.readouterr().out == f"freshgate: {path or 'no settings file'}: no problems found\n"


def test_effective_settings_can_be_read_again(tmp_path: Path) -> None:
    given = ["listen.port=7", "listen.transports=sasl", "engine.spark.sql.x=a b", "limits.idle_seconds=2.5"]
    reading = settings_file.read(None, given)
    path = tmp_path / "effective.toml"
    path.write_text(settings_file.effective(reading), encoding="utf-8")
    assert settings_file.load(path) == reading.settings
    assert settings_file.read(path).problems == ()


def test_effective_settings_name_their_sources(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text('authentication = "file"\n[engine]\nspark."sql.x" = 1\n', encoding="utf-8")
    url = "jdbc:hive2://h:1/;transportMode=http"
    text = settings_file.effective(
        settings_file.read(path, ["limits.connections=5"], {"--upstream": ("upstream.address", url)})
    )
    lines = text.splitlines()
    assert len(lines) == len(settings_file.SETTINGS)
    assert {line for line in lines if not line.endswith("# default")} == {
        f'authentication.method = "file"  # {path}:1',
        f'upstream.address = "{url}"  # --upstream',
        f'engine.spark."sql.x" = "1"  # {path}:3',
        "limits.connections = 5  # --set",
    }


def test_effective_settings_hide_secrets() -> None:
    given = ["upstream.password=hush", "engine.spark.hadoop.fs.s3a.secret.key=hush", "engine.spark.x.authToken=hush"]
    text = settings_file.effective(settings_file.read(None, given))
    assert "hush" not in text
    assert text.count('"(hidden)"  # --set\n') == 3
    every = {name: name for name in settings_file.SETTINGS if settings_file._SECRET.search(name)}
    assert set(every) == {
        *("discovery.password", "gateways.secret", "ldap.bind_password", "lineage.api_key", "notify.secret"),
        "page.client_secret",
        *("upstream.guard_secret", "upstream.password"),
    }


def test_the_lines_of_keys_are_found() -> None:
    text = (
        'a = 1 # b = 2\n\n[t . \'u.v\']\n"x y".z = """\nno = 1\n"""\n  b=[\n  \'c = 1\',\n]\n[[list]]\nd = 1\n'
        '["\\u0061"]\n"\\U00000062" = 1\na = 2\n'
    )
    found = lines_of(text)
    assert found == {"a": 1, "t.u.v.x y.z": 4, "t.u.v.b": 7, "list.d": 11, "a.\\U00000062": 13, "a.a": 14}


def test_without_a_command_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: freshgate ")


def test_a_setting_from_a_file_is_its_first_line_and_is_shown_nowhere(tmp_path: Path) -> None:
    secret, empty = tmp_path / "secret", tmp_path / "empty"
    secret.write_text("hush " * 10 + "\nmore\n", encoding="utf-8")
    empty.write_text("", encoding="utf-8")
    reading = settings_file.read(None, ["upstream.password=other"], files=[f"upstream.password={secret}"])
    assert reading.problems == ()
    assert reading.settings.upstream.password == "hush " * 10
    assert "hush" not in settings_file.effective(reading)
    assert '"(hidden)"  # --set-file\n' in settings_file.effective(reading)
    assert settings_file.load(files=[f"upstream.password={empty}"]).upstream.password == ""
    for given, said in (
        (f"upstream.password={tmp_path / 'none'}", "No such file"),
        ("upstream.password", "write name=file"),
        (f"upstream.pasword={secret}", "there is no setting 'upstream.pasword'"),
        (f"limits.connections={secret}", "'limits.connections' must be"),
    ):
        with pytest.raises(ConfigError, match="--set-file") as refusal:
            settings_file.load(files=[given])
        assert said in str(refusal.value)
    assert main(["config", "--check", "--set-file", f"upstream.password={secret}"]) == 0
    assert main(["config", "--check", "--set-file", f"gateways.secret={empty}", "--set", "gateways.enabled=true"]) == 2


def documented(page: str) -> list[tuple[str, str]]:
    """The settings on a page, each with the title of its section."""
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```toml\n(\[.*?)^```$", text, re.MULTILINE | re.DOTALL)
    titles = [(title.start(), title[1]) for title in re.finditer(r"^## (.*)$", text, re.MULTILINE)]
    return [(max(each for each in titles if each[0] < block.start())[1], block[1]) for block in found]


@pytest.mark.parametrize(("page", "whole"), [("login.md", 3), ("limits.md", 0)])
def test_documented_settings_are_accepted(page: str, whole: int, tmp_path: Path) -> None:
    """Those of the cases are complete, too."""
    path = tmp_path / "freshgate.toml"
    for title, text in documented(page):
        if not text.startswith("[project]"):
            path.write_text(text, encoding="utf-8")
            problems = settings_file.read(path).problems
            assert [each for each in problems if title == "By case" or str(path) in each] == []
    assert sum(title == "By case" for title, _ in documented(page)) == whole
