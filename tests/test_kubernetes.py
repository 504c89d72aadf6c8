"""Tests the Helm chart: the manifests that helm makes of it, and the settings in them."""

from __future__ import annotations

import base64
import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployments import CHART, KUBERNETES, helm, manifests, parsed, program, run
from processes import ROOT

from gateway import settings_file
from gateway.arguments import parser
from gateway.config import Address, Settings
from gateway.login import exposure

PAGE = ROOT / "docs" / "how-to" / "kubernetes.md"
NAME = "tea-freshgate"
LEAST = {"settings": {"upstream": {"address": "spark:10000"}}}
FULL: dict[str, Any] = {
    "image": {"repository": "registry.example/freshgate", "tag": "0.1.0@sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "settings": {
        "upstream": {"address": "spark:10000", "user": 'o\'neill "b" \\ <ü>\n'},
        "listen": {"http_port": 10001, "transports": ["sasl"], "trusted_proxies": []},
        "limits": {"drain_seconds": 90.5, "statement_bytes": 33554432},
        "rewrite": {"new_views": True},
        "engine": {"spark": {"sql.shuffle.partitions": "64", "sql.ansi.enabled": True}},
    },
    "usersSecret": "users",
    "tlsSecret": "certificate",
    "extraSecrets": ["ca.example", "more"],
    "env": [{"name": "AWS_REGION", "value": "eu-central-1"}],
    "gateways": {"port": 4711, "secret": "shared", "clusterDomain": "example.internal"},
    "service": {"type": "LoadBalancer", "annotations": {"a/b": "c"}},
    "serviceAccount": {"annotations": {"role": "r"}},
    "networkPolicy": {"enabled": True, "clients": [{"podSelector": {"matchLabels": {"bi": "yes"}}}]},
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "data"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists"}],
    "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
}
ONE: dict[str, Any] = {**FULL, "replicas": 1, "dataClaim": "data"}
SETTINGS_SECRET = {"settingsSecret": "settings", "serviceAccount": {"create": False}}


def workload(found: dict[tuple[str, str], Any]) -> dict[str, Any]:
    (only,) = [each["spec"] for (kind, name), each in found.items() if kind in ("StatefulSet", "Deployment")]
    return dict(only)


def pod_of(found: dict[tuple[str, str], Any]) -> dict[str, Any]:
    return dict(workload(found)["template"]["spec"])


def container(found: dict[tuple[str, str], Any]) -> dict[str, Any]:
    (only,) = pod_of(found)["containers"]
    return dict(only)


def settings_of(found: dict[tuple[str, str], Any], place: Path) -> Settings:
    """The settings with which the pod starts. Fails if one of them does not exist."""
    data = found["ConfigMap", NAME]["data"]
    (place / "freshgate.toml").write_text(data["freshgate.toml"], encoding="utf-8")
    (place / "secret").write_text("s" * 64, encoding="utf-8")
    mounts = {"/etc/freshgate/settings": place, "/etc/freshgate/gateways": place}
    mounted = {path: each for each in container(found)["volumeMounts"] if (path := each["mountPath"]) in mounts}
    arguments = []
    for each in container(found)["args"]:
        for path in mounted:
            each = each.replace(path, str(mounts[path]))
        # As Kubernetes does for the first pod.
        arguments.append(each.replace("$(POD_NAME)", f"{NAME}-0"))
    options = parser().parse_args(arguments)
    return settings_file.load(options.config, options.set, files=options.set_file)


@pytest.mark.parametrize("values", [LEAST, FULL, ONE, SETTINGS_SECRET], ids=["least", "full", "one", "secret"])
def test_the_manifests_agree_with_the_schemas_of_kubernetes(values: dict[str, Any], tmp_path: Path) -> None:
    found = manifests(values)
    files = []
    for number, each in enumerate(found.values()):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(json.dumps(each), encoding="utf-8")
    release = KUBERNETES.rpartition(".")[0]
    command = [str(program("kubernetes-validate")), "--strict", "--kubernetes-version", release]
    done = run([*command, *map(str, files)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count(" passed ") + done.stdout.count(" passed ") == len(found)


def test_monitoring_is_off_by_default() -> None:
    assert not [kind for kind, _ in manifests(LEAST) if kind in ("ServiceMonitor", "PrometheusRule")]
    assert ("ConfigMap", f"{NAME}-dashboard") not in manifests(LEAST)


def test_the_alerts_and_the_dashboard_are_those_of_the_files() -> None:
    monitoring = {
        "serviceMonitor": {"enabled": True, "labels": {"release": "p"}},
        "rules": {"enabled": True, "labels": {"release": "p"}},
        "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Data"}},
    }
    found = manifests({**LEAST, "monitoring": monitoring})
    rule, monitor = found["PrometheusRule", NAME], found["ServiceMonitor", NAME]
    assert rule["spec"] == yaml.safe_load((ROOT / "conf" / "monitoring" / "alerts.yaml").read_text(encoding="utf-8"))
    assert rule["metadata"]["labels"]["release"] == monitor["metadata"]["labels"]["release"] == "p"
    dashboard = found["ConfigMap", f"{NAME}-dashboard"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["metadata"]["annotations"] == {"grafana_folder": "Data"}
    shown = json.loads((ROOT / "conf" / "monitoring" / "dashboard.json").read_text(encoding="utf-8"))
    assert json.loads(dashboard["data"]["freshgate.json"]) == shown
    # What it collects from is the Service of the metrics, and no other one.
    (endpoint,) = monitor["spec"]["endpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    served = [
        name
        for (kind, name), each in found.items()
        if kind == "Service"
        and wanted <= each["metadata"]["labels"].items()
        and endpoint["port"] in [port["name"] for port in each["spec"]["ports"]]
    ]
    assert served == [f"{NAME}-metrics"]


def test_the_chart_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = (CHART / "Chart.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^(?:version|appVersion): (\S+)$", chart, re.MULTILINE) == [version, version]


def test_the_chart_has_no_faults_that_helm_knows() -> None:
    done = run([str(program("helm")), "lint", "--strict", str(CHART), "--set", "settings.upstream.address=spark:10000"])
    assert done.returncode == 0, done.stdout
    assert "[WARNING]" not in done.stdout


def test_the_settings_of_the_least_values_start_a_gateway(tmp_path: Path) -> None:
    settings = settings_of(manifests(LEAST), tmp_path)
    exposure.check(settings)
    assert settings.upstream.address == "spark:10000"
    assert settings.listen.host == settings.metrics.host == "0.0.0.0"


def test_every_kind_of_value_reaches_the_gateway(tmp_path: Path) -> None:
    settings = settings_of(manifests(FULL), tmp_path)
    given = FULL["settings"]
    assert settings.upstream.user == given["upstream"]["user"]
    assert settings.listen.transports == ("sasl",)
    assert settings.listen.trusted_proxies == ()
    assert settings.limits.drain_seconds == 90.5
    assert settings.limits.statement_bytes == 33554432
    assert settings.rewrite.new_views is True
    assert dict(settings.engine.spark) == {
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.ansi.enabled": "true",
    }


def test_every_port_of_the_settings_is_reached_through_a_service(tmp_path: Path) -> None:
    for values in (LEAST, FULL):
        found = manifests(values)
        settings = settings_of(found, tmp_path)
        ports = {each["name"]: each["containerPort"] for each in container(found)["ports"]}
        relay = Address.parse(settings.gateways.address)
        expected = {"thrift": settings.listen.port, "metrics": settings.metrics.port, "relays": relay.port}
        if settings.listen.http_port > 0:
            expected["http"] = settings.listen.http_port
        assert ports == expected
        served = {}
        for name in (NAME, f"{NAME}-metrics", f"{NAME}-gateways"):
            service = found["Service", name]["spec"]
            labels = workload(found)["template"]["metadata"]["labels"]
            assert service["selector"].items() <= labels.items()
            served[name] = {each["targetPort"]: each["port"] for each in service["ports"]}
        # Whoever reaches the clients' Service, perhaps from outside of the cluster, does not reach the metrics.
        assert served.pop(f"{NAME}-metrics") == {"metrics": expected.pop("metrics")}
        assert served.pop(f"{NAME}-gateways") == {"relays": expected.pop("relays")}
        assert served == {NAME: expected}


def test_what_the_settings_name_is_mounted(tmp_path: Path) -> None:
    found = manifests(ONE)
    settings, pod = settings_of(found, tmp_path), pod_of(found)
    sources = {each["name"]: each for each in pod["volumes"]}
    mounted = {each["mountPath"]: sources[each["name"]] for each in container(found)["volumeMounts"]}
    assert len(mounted) == len(sources)
    for path, secret in (
        (settings.authentication.users_file, "users"),
        (settings.tls.certificate, "certificate"),
        (settings.tls.key, "certificate"),
    ):
        assert mounted[str(Path(path).parent)]["secret"]["secretName"] == secret
    assert mounted["/etc/freshgate/secrets/ca.example"]["secret"]["secretName"] == "ca.example"
    assert mounted[str(Path(settings.data_dir).parent)]["persistentVolumeClaim"] == {"claimName": "data"}
    assert settings.authentication.method == "file"


def test_settings_in_a_secret_replace_the_config_map() -> None:
    found = manifests(SETTINGS_SECRET)
    assert "ConfigMap" not in {kind for kind, _ in found}
    assert "ServiceAccount" not in {kind for kind, _ in found}
    sources = pod_of(found)["volumes"]
    assert {"name": "settings", "secret": {"secretName": "settings", "defaultMode": 0o440}} in sources


def test_the_pod_has_no_rights_that_it_does_not_need() -> None:
    image = (ROOT / "conf" / "Containerfile").read_text(encoding="utf-8")
    found = manifests(LEAST)
    pod = pod_of(found)
    context = pod["securityContext"]
    assert f"\nUSER {context['runAsUser']}:{context['runAsGroup']}\n" in image
    assert context["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    own = container(found)["securityContext"]
    assert own["readOnlyRootFilesystem"] is True
    assert own["capabilities"] == {"drop": ["ALL"]}
    writable = {each["mountPath"] for each in container(found)["volumeMounts"] if not each.get("readOnly")}
    assert writable == {"/tmp", *re.findall(r"^VOLUME (\S+)$", image, re.MULTILINE)}


def test_several_gateways_know_each_other_and_one_at_a_time_is_replaced(tmp_path: Path) -> None:
    for values, domain, secret in ((LEAST, "cluster.local", f"{NAME}-gateways"), (FULL, "example.internal", "shared")):
        found = manifests(values)
        stateful = workload(found)
        assert found["StatefulSet", NAME]["spec"] == stateful
        assert stateful["replicas"] == 3
        # Kubernetes replaces one pod of a StatefulSet at a time.
        assert stateful["updateStrategy"] == {"type": "RollingUpdate"}
        service = found["Service", stateful["serviceName"]]["spec"]
        assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
        gateways = settings_of(found, tmp_path).gateways
        assert (gateways.enabled, gateways.secret) == (True, "s" * 64)
        assert Address.parse(gateways.address).host == f"{NAME}-0.{stateful['serviceName']}.shop.svc.{domain}"
        named = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        assert named in container(found)["env"]
        budget = found["PodDisruptionBudget", NAME]["spec"]
        assert budget["maxUnavailable"] == 1
        assert budget["selector"] == stateful["selector"]
        (volume,) = [each for each in pod_of(found)["volumes"] if each["name"] == "gateways"]
        assert volume["secret"]["secretName"] == secret
        assert container(found)["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_chart_makes_a_secret_unless_one_is_named() -> None:
    made = [manifests(LEAST)["Secret", f"{NAME}-gateways"]["data"]["secret"] for _ in range(2)]
    assert all(len(base64.b64decode(each)) == 64 for each in made)
    assert made[0] != made[1]
    assert "Secret" not in {kind for kind, _ in manifests(FULL)}


def test_a_single_gateway_is_never_beside_another_one(tmp_path: Path) -> None:
    found = manifests(ONE)
    assert found["Deployment", NAME]["spec"]["replicas"] == 1
    assert workload(found)["strategy"] == {"type": "Recreate"}
    assert {kind for kind, _ in found}.isdisjoint({"PodDisruptionBudget", "StatefulSet", "Secret"})
    assert settings_of(found, tmp_path).gateways.enabled is False


@pytest.mark.parametrize("values", [LEAST, FULL, ONE], ids=["least", "full", "one"])
def test_a_stop_has_its_time(values: dict[str, Any], tmp_path: Path) -> None:
    found = manifests(values)
    drain = settings_of(found, tmp_path).limits.drain_seconds
    slept = container(found).get("lifecycle", {"preStop": {"exec": {"command": ["sleep", "0"]}}})["preStop"]
    assert pod_of(found)["terminationGracePeriodSeconds"] > drain + 20 + int(slept["exec"]["command"][1])


def test_other_settings_are_another_pod() -> None:
    def annotations(address: str) -> Any:
        found = manifests({"settings": {"upstream": {"address": address}}})
        return workload(found)["template"]["metadata"]["annotations"]

    assert annotations("a:1") == annotations("a:1")
    assert annotations("a:1") != annotations("b:1")


def test_a_policy_lets_only_the_named_pods_in() -> None:
    assert "NetworkPolicy" not in {kind for kind, _ in manifests(LEAST)}
    found = manifests(FULL)
    clients, monitoring, relays = found["NetworkPolicy", NAME]["spec"]["ingress"]
    assert relays == {
        "from": [{"podSelector": workload(found)["selector"]}],
        "ports": [{"protocol": "TCP", "port": "relays"}],
    }
    assert len(manifests(ONE)["NetworkPolicy", NAME]["spec"]["ingress"]) == 2
    assert clients["from"] == FULL["networkPolicy"]["clients"]
    assert [each["port"] for each in clients["ports"]] == ["thrift", "http"]
    assert monitoring["from"] == [{"namespaceSelector": {}}]
    assert [each["port"] for each in monitoring["ports"]] == ["metrics"]


def notes(values: dict[str, Any], place: Path) -> str:
    """What helm prints after the installation. `helm template` shows it only within a manifest."""
    chart = place / CHART.name
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    within = 'notes: {{ include (print $.Template.BasePath "/NOTES.txt") . | toJson }}'
    (chart / "templates" / "notes.yaml").write_text(within, encoding="utf-8")
    done = helm(values, chart)
    assert done.returncode == 0, done.stderr
    (found,) = [each["notes"] for each in parsed(done.stdout) if "notes" in each]
    return str(found)


def test_the_notes_say_how_to_connect(tmp_path: Path) -> None:
    least = notes(LEAST, tmp_path)
    assert f"jdbc:hive2://{NAME}.shop:10000/\n" in least
    assert "Only Spark checks passwords" in least
    assert f"rollout status statefulset/{NAME}\n" in least
    assert "One of 3 gateways leads" in least
    assert f"rollout status deployment/{NAME}\n" in notes(ONE, tmp_path)
    full = notes(FULL, tmp_path)
    assert f"jdbc:hive2://{NAME}.shop:10000/;ssl=true\n" in full
    assert f"jdbc:hive2://{NAME}.shop:10001/;transportMode=http;httpPath=cliservice;ssl=true\n" in full
    assert "Only Spark" not in full


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "Set settings.upstream.address"),
        ({**LEAST, "replicas": 0}, "replicas"),
        ({**LEAST, "dataClaim": "data"}, "set replicas to 1"),
        ({"settings": {"engine": {"accept_user_code": True}}}, "set replicas to 1"),
        ({**LEAST, "gateways": {"port": 0}}, "gateways.port"),
        ({"settings": {"upstream": {"address": "a:1"}, "listen": {"port": -1}}}, "settings.listen"),
        ({"settings": {"upstream": {"address": "a:1"}, "metrics": {"port": 0}}}, "settings.metrics.port"),
        ({**LEAST, "service": {"type": "Elsewhere"}}, "service.type"),
        ({"settings": {"upstream": {"address": "a:1", "usr": "x"}}}, "usr"),
        ({"settings": {"upstream": {"address": "a:1"}, "listn": {"port": 1}}}, "listn"),
        ({"settings": {"upstream": {"address": "a:1", "tls": "yes"}}}, "settings.upstream.tls"),
    ],
)
def test_unusable_values_are_refused(values: dict[str, Any], said: str) -> None:
    done = helm(values)
    assert done.returncode != 0
    assert said in done.stderr.replace("/", ".")


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ({"upstream": {"address": "a:1", "password": "x"}}, "upstream.password"),
        ({"upstream": {"address": "a:1"}, "ldap": {"bind_password": "x"}}, "ldap.bind_password"),
        (
            {"engine": {"accept_user_code": True, "spark": {"hadoop.fs.s3a.secret.key": "x"}}},
            "engine.spark.hadoop.fs.s3a.secret.key",
        ),
        (
            {"engine": {"accept_user_code": True, "spark": {"hadoop": {"fs.s3a.access.key": "x"}}}},
            "engine.spark.hadoop.fs.s3a.access.key",
        ),
    ],
)
def test_no_password_lands_in_a_config_map(table: dict[str, Any], name: str) -> None:
    done = helm({"settings": table})
    assert done.returncode != 0
    assert f"settings.{name} would be readable in a ConfigMap" in done.stderr
    assert "settingsSecret" in done.stderr
    # A Secret with all settings makes no ConfigMap.
    assert "ConfigMap" not in {kind for kind, _ in manifests({"settings": table, "settingsSecret": "settings"})}


def test_an_empty_password_is_none() -> None:
    manifests({"settings": {"upstream": {"address": "a:1", "password": ""}}})


def test_the_chart_and_the_gateway_agree_on_what_is_secret() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text(encoding="utf-8")
    (pattern,) = re.findall(r'regexMatch "(.+?)"', helpers)
    assert pattern == settings_file._SECRET.pattern


def test_the_values_of_the_page_are_usable(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        (values,) = parsed(block)
        exposure.check(settings_of(manifests(values), tmp_path))
    shown = set(re.findall(r"^\| `(\w+)[.`]", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    (defaults,) = parsed((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert shown == set(defaults)
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(schema["properties"]) == {*defaults, "global"}
