"""Describe the packages of a release: hashes, a bill of materials (CycloneDX), and the table of sizes in README.md."""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

from artifacts import PLATFORMS, PUBLISH, ROOT, run, sdists_of, source, wheels_of
from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL
from packaging.requirements import Requirement
from third_party import Pin, read_pins

RELEASE = ROOT / "dist/release"
TABLE = re.compile(r"(?<=<!-- sizes -->\n).*?(?=<!-- end of sizes -->)", re.DOTALL)


def describe_all() -> None:
    """Write SHA256SUMS and sbom.cdx.json into ``dist/release``, and the sizes into README.md."""
    RELEASE.mkdir(parents=True, exist_ok=True)
    files = sorted(PUBLISH.iterdir())
    (RELEASE / "SHA256SUMS").write_text("".join(f"{sha256(path)}  {path.name}\n" for path in files))
    outputter = make_outputter(bill_of_materials(), OutputFormat.JSON, SchemaVersion.V1_6)
    (RELEASE / "sbom.cdx.json").write_text(outputter.output_as_string(indent=2))
    readme = ROOT / "README.md"
    readme.write_text(TABLE.sub(lambda _: size_table(), readme.read_text(encoding="utf-8")), encoding="utf-8")


def sha256(path: Path) -> str:
    """Return the hash of a file as 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill_of_materials() -> Bom:
    """Return the packages with their files, what is compiled into them, and the packages that they require."""
    licenses = LicenseFactory()
    packages = {name: metadata(wheels_of(name)[0]) for name in PLATFORMS}
    components = {
        name: Component(
            name=name,
            version=entries["Version"],
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", name=name, version=entries["Version"]),
            bom_ref=name,
            licenses=[licenses.make_from_string(entries["License-Expression"])],
            components=[file_component(path) for path in (*wheels_of(name), *sdists_of(name))],
        )
        for name, entries in packages.items()
    }
    bom = Bom()
    bom.metadata.component = components["edgecore"]
    for name, entries in packages.items():
        required = {Requirement(text).name for text in entries.get_all("Requires-Dist") or ()} - {name}
        for other in required - set(components):
            components[other] = Component(
                name=other, type=ComponentType.LIBRARY, purl=PackageURL("pypi", name=other), bom_ref=other
            )
        inside = list(compiled_components(name))
        for component in inside:
            components.setdefault(component.bom_ref.value, component)
        keys = [*sorted(required), *(component.bom_ref.value for component in inside)]
        bom.register_dependency(components[name], [components[key] for key in keys])
    bom.components.update(component for name, component in components.items() if name != "edgecore")
    return bom


def metadata(wheel: Path) -> Message:
    """Return the fields of the wheel's METADATA."""
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def file_component(path: Path) -> Component:
    """Return a file of a package with its hash."""
    digest = HashType(alg=HashAlgorithm.SHA_256, content=sha256(path))
    return Component(name=path.name, type=ComponentType.FILE, hashes=[digest], bom_ref=path.name)


def compiled_components(package: str) -> Iterator[Component]:
    """Yield the other projects that are compiled into the wheels of a package.

    A wheel contains the licence text of each such project (CONTRIBUTING.md). The version and the hash come from the
    line of a ``.pins`` file about the project, if there is one.
    """
    with ZipFile(wheels_of(package)[-1]) as archive:
        texts = [Path(name) for name in archive.namelist() if ".dist-info/licenses/" in name and name.endswith(".txt")]
    folders = (source(package) / "native/third_party", ROOT / "runtime_cpp/vulkan/third_party")
    pins = [pin for folder in folders for path in sorted(folder.glob("*.pins")) for pin in read_pins(path)]
    for name in sorted({path.stem for path in texts}):
        pin = next((pin for pin in pins if name in pin.name.replace("_", "-")), None)
        yield Component(
            name=name,
            version=version_of(pin) if pin else None,
            type=ComponentType.LIBRARY,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=pin.sha256)] if pin else [],
            bom_ref=f"compiled:{name}",
        )


def version_of(pin: Pin) -> str:
    """Return the version in the name of a pinned file, such as ``0.0~git20241108.4ea82e5``."""
    match = re.search(r"[_-](\d[^_]*?)(\.orig\.tar\.xz$|_|-cp)", pin.name)
    return match[1] if match else pin.name


def size_table() -> str:
    """Return the rows of the table with the sizes of installed packages."""
    rows = ["| installed | size |\n|---|---:|\n"]
    rows.append(f"| edgecore, with the packages that it requires | {megabytes(installed_size('edgecore'))} |\n")
    both = installed_size("edgecore", "edgecore-xnnpack")
    rows.append(f"| edgecore and edgecore-xnnpack, with these packages | {megabytes(both)} |\n")
    for name in PLATFORMS:
        if name != "edgecore":
            rows.append(f"| {name} alone | {megabytes(installed_size('--no-deps', name))} |\n")
    return "".join(rows)


def installed_size(*requirements: str) -> int:
    """Return the bytes that pip writes for these requirements on Linux for x86-64, without compiled Python."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--no-compile", "--only-binary=:all:", "--find-links", PUBLISH, "--target", folder]
        run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *options, *requirements)
        return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())


def megabytes(size: int) -> str:
    """Return a size for the table."""
    return f"{size / 1e6:.1f} MB"
