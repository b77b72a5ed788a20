"""Check the documentation of a package: metadata, README, table of operators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution

from edgecore.conformance.check import BackendUnderTest, Check, Failed
from edgecore.plugin.installed.entry_points import normalised


def checks(subject: BackendUnderTest) -> Iterator[Check]:
    """Yield the checks of the metadata, the README and the table of operators."""
    yield Check("documentation/metadata", metadata)
    yield Check("documentation/readme", readme)
    yield Check("documentation/operators", operators)


def metadata(subject: BackendUnderTest) -> str:
    """Check that the metadata have a summary, a licence, the minimum Python version, and a dependency on edgecore."""
    fields = distribution(subject.distribution).metadata.json
    missing = [name for name in ("Summary", "Requires-Python") if not fields.get(name.lower().replace("-", "_"))]
    if not (fields.get("license_expression") or fields.get("license")):
        missing.append("License-Expression")
    if missing:
        raise Failed(f"the metadata of {subject.distribution} lack {', '.join(missing)}")
    required = distribution(subject.distribution).requires or []
    names = [normalised(re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0]) for line in required if "extra ==" not in line]
    if "edgecore" not in names:
        raise Failed(f"{subject.distribution} does not depend on edgecore (dependencies in pyproject.toml)")
    line = next(line for line in required if normalised(line).startswith("edgecore"))
    return f"{fields.get('summary')}; requires {line}"


def readme(subject: BackendUnderTest) -> str:
    """Check that the metadata contain a README, which names all options."""
    text = _description(distribution(subject.distribution))
    if len(text.strip()) < 200:
        raise Failed(f"the metadata of {subject.distribution} contain no README (readme in pyproject.toml)")
    options = list(subject.compiler.Options.model_fields)
    absent = [name for name in options if name not in text]
    if absent:
        raise Failed(f"the README does not mention the options {', '.join(absent)}")
    return f"names all {len(options)} options"


def operators(subject: BackendUnderTest) -> str:
    """Check that `operator_support()` returns at least one row, each row with dtypes, and no row twice."""
    rows = subject.operators
    if not rows:
        raise Failed("operator_support() is empty")
    seen: set[tuple[str, tuple[str, ...], str]] = set()
    for row in rows:
        key = (row.operator, tuple(row.dtypes), row.constraints)
        if not row.dtypes:
            raise Failed(f"operator_support() names no dtypes for {row.operator}")
        if not re.fullmatch(r"\w+\.\w+\.\w+", row.operator):
            raise Failed(f"operator_support() names {row.operator!r}; write it as reports do: aten.add.Tensor")
        if key in seen:
            raise Failed(f"operator_support() has the same row of {row.operator} twice")
        seen.add(key)
    return f"{len(rows)} operators"


def _description(package: Distribution) -> str:
    return str(package.metadata.json.get("description", ""))
