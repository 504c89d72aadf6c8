"""Prints a bill of materials (CycloneDX 1.6, JSON): this project, and what its package needs in the versions of
requirements.lock.

    .venv/bin/python scripts/bill_of_materials.py dist/freshgate-0.1.0-py3-none-any.whl

The wheel says what is needed, with the extras that users install. requirements.lock gives the versions; the installed
packages give licences and the dependencies between them. Two runs print the same text.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import sys
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parent.parent / "requirements.lock"
EXTRAS = ("engine",)


class NotLocked(Exception):
    """The package needs something that requirements.lock does not name."""


def main(wheel: Path) -> None:
    print(json.dumps(bill(wheel, versions(LOCK.read_text(encoding="utf-8"))), indent=2, ensure_ascii=False))


def versions(lock: str) -> Mapping[str, str]:
    """The locked versions by canonical name."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pinned}


def bill(wheel: Path, locked: Mapping[str, str]) -> dict[str, Any]:
    """The document. Raises NotLocked."""
    metadata = _metadata_of(wheel)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    project = _component(metadata, "application") | {"hashes": [{"alg": "SHA-256", "content": digest}]}
    needed = _closure(metadata)
    if missing := sorted(needed.keys() - locked.keys()):
        raise NotLocked(f"requirements.lock does not pin {', '.join(missing)}, which the package needs. Add them.")
    components = [_component(_installed(name, locked[name]), "library") for name in sorted(needed)]
    references = {name: _purl(name, locked[name]) for name in needed}
    edges = [
        (project["bom-ref"], _direct(metadata, EXTRAS)),
        *((references[name], needed[name]) for name in sorted(needed)),
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # From the wheel, so that the same wheel has the same bill.
        "serialNumber": f"urn:uuid:{uuid.UUID(digest[:32], version=4)}",
        "version": 1,
        "metadata": {"component": project},
        "components": components,
        "dependencies": [
            {"ref": reference, "dependsOn": sorted({references[canonicalize_name(each.name)] for each in requirements})}
            for reference, requirements in edges
        ],
    }


def _metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def _installed(name: str, version: str) -> Message:
    found = importlib.metadata.distribution(name)
    if found.version != version:
        raise NotLocked(
            f"{name} is installed as {found.version}, but requirements.lock says {version}. Run scripts/setup."
        )
    return message_from_bytes((found.read_text("METADATA") or "").encode())


def _direct(metadata: Message, extras: Iterable[str]) -> list[Requirement]:
    contexts = [{"extra": extra} for extra in ("", *extras)]
    requirements = map(Requirement, metadata.get_all("Requires-Dist") or ())
    return [each for each in requirements if each.marker is None or any(map(each.marker.evaluate, contexts))]


def _closure(metadata: Message) -> dict[str, list[Requirement]]:
    """What is needed, directly or not, with the requirements of each."""
    found: dict[str, list[Requirement]] = {}
    waiting = _direct(metadata, EXTRAS)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        distribution = importlib.metadata.distribution(name)
        needs = _direct(message_from_bytes((distribution.read_text("METADATA") or "").encode()), requirement.extras)
        known = {str(each) for each in found.get(name, ())}
        new = [each for each in needs if str(each) not in known]
        if name not in found or new:
            found[name] = [*found.get(name, ()), *new]
            waiting += new
    return found


def _component(metadata: Message, kind: str) -> dict[str, Any]:
    name, version = canonicalize_name(str(metadata["Name"])), str(metadata["Version"])
    purl = _purl(name, version)
    component: dict[str, Any] = {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if licences := list(_licences(metadata)):
        component["licenses"] = licences[:1]
    return component


def _licences(metadata: Message) -> Iterator[dict[str, Any]]:
    """As an SPDX expression if there is one, otherwise by name."""
    if expression := metadata["License-Expression"]:
        yield {"expression": str(expression)}
    for classifier in metadata.get_all("Classifier") or ():
        if classifier.startswith("License :: ") and classifier.count("::") > 1:
            yield {"license": {"name": classifier.rpartition(":: ")[2]}}
    # Some packages have the whole text here.
    if (text := str(metadata["License"] or "").strip()) and "\n" not in text:
        yield {"license": {"name": text}}


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{name}@{version}"


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except NotLocked as error:
        sys.exit(f"bill_of_materials: {error}")
