"""Make the tables of `docs/coming-from-executorch.md` from the tables of names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from edgecore.executorch.names import MODULES, REASONS


def markdown(plugins: Mapping[str, Mapping[str, str]]) -> str:
    """Return all tables of names: first edgecore's, then the backends'."""
    return f"{names_markdown(MODULES)}\n\n{names_markdown(plugins)}"


def names_markdown(modules: Mapping[str, Mapping[str, str]]) -> str:
    """Return for each module a heading and a table of its names and their counterparts in edgecore.

    For a counterpart with the same name, the table shows only the module.
    """
    return "\n\n".join("\n".join(_section(module, modules[module])) for module in sorted(modules))


def reasons_markdown() -> str:
    """Return the table of names without counterpart."""
    rows = [f"| `{name}` | {text} |" for name, text in REASONS.items() if not name.startswith("executorch.backends")]
    return "\n".join(["| name | what to do |", "|---|---|", *rows])


def _section(module: str, names: Mapping[str, str]) -> Iterator[str]:
    yield f"### {module}\n"
    yield "| name | in edgecore |"
    yield "|---|---|"
    for name, target in sorted(names.items()):
        source, _, attribute = target.partition(":")
        yield f"| `{name}` | `{source}` |" if name == attribute else f"| `{name}` | `{source}.{attribute}` |"
