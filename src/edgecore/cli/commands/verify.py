"""`edgecore verify`: check a file against its format and a target runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import AnyFile, Data, Json, complain, print_json, read_any, read_file, stderr
from edgecore.errors import BackendError, FormatError
from edgecore.progress import task

if TYPE_CHECKING:
    from edgecore.format import Buffer, Checker, PtdFile, PteFile, Violation


def command(
    file: AnyFile,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="RUNTIME", help="The target runtime: executorch-1.5 or edgecore; by default that of the file."
        ),
    ] = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """List everything in a file that its target runtime would reject. Exit status 1 if there is anything."""
    from edgecore.format import EDGECORE, EXECUTORCH_1_5, BpteFile, PtdFile, get_meta, verify_cases, verify_ptd

    if runtime not in (None, EDGECORE, EXECUTORCH_1_5):
        raise typer.BadParameter(f"{runtime!r} is neither {EXECUTORCH_1_5!r} nor {EDGECORE!r}", param_hint="--runtime")
    content = read_any(file)
    if isinstance(content, PtdFile):
        _conclude(file, verify_ptd(content), "the .ptd format", as_json)
        return
    pte = read_file(file)
    meta = get_meta(pte)
    target = runtime or (meta.profile if meta else EXECUTORCH_1_5)
    with task(f"verifying {file}"):
        violations = violations_of(pte, target, _weights(pte, data or ()))
        if isinstance(content, BpteFile):
            violations += verify_cases(content, pte)
    if not data and any("named data" in violation.what for violation in violations):
        stderr.print("if the missing data is in .ptd files, pass them with --data", markup=False, soft_wrap=True)
    _conclude(file, violations, f"the rules of {target}", as_json)


def violations_of(pte: PteFile, target: str, weights: Mapping[str, PtdFile] | None = None) -> list[Violation]:
    """Return everything in a program that a target runtime would reject; the backends' compilers check the blobs.

    Args:
        pte: The program.
        target: The target runtime.
        weights: The `.ptd` files by path; None if they are not checked.
    """
    from edgecore.format import verify

    ids = sorted({delegate.id for plan in pte.program.execution_plan for delegate in plan.delegates})
    return verify(pte, target, _checkers(ids, target), weights)


def _weights(pte: PteFile, paths: Sequence[Path]) -> dict[str, PtdFile] | None:
    """Read the `.ptd` files of --data. Map their paths to their content; return None if --data names no files."""
    from edgecore.devtools.describe import describe
    from edgecore.format import PtdFile

    files = {str(path): read_any(path) for path in paths}
    for path, content in files.items():
        if not isinstance(content, PtdFile):
            raise FormatError(f"{path}: this is not a .ptd file")
    names = describe(pte)["external_data"]
    if names and not files:
        stderr.print(
            f"{len(names)} weights are in .ptd files, which are not checked; pass them with --data",
            markup=False,
            soft_wrap=True,
        )
    return {path: content for path, content in files.items() if isinstance(content, PtdFile)} or None


def _conclude(file: Path, violations: Sequence[Violation], rules: str, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "rules": rules, "violations": [asdict(violation) for violation in violations]})
    else:
        for violation in violations:
            print(violation)
    if violations:
        complain(f"{file}: {len(violations)} violation{'s' * (len(violations) > 1)} of {rules}")
        raise typer.Exit(1)
    if not as_json:
        print(f"{file}: valid, follows {rules}")


def _checkers(backend_ids: list[str], target: str) -> dict[str, Checker]:
    """Return functions that check blobs, by backend id: each calls `verify_blob` of the backend's compiler."""
    from edgecore.plugin.registry import find, load_compiler

    checkers: dict[str, Checker] = {}
    for backend_id in backend_ids:
        try:
            compiler = load_compiler(find(backend_id))
        except BackendError as error:
            stderr.print(f"the blobs of {backend_id} are not checked: {error}", markup=False, soft_wrap=True)
            continue

        def check(blob: Buffer, context: dict[str, Any], compiler: Any = compiler) -> list[str]:
            return list(compiler.verify_blob(bytes(blob), context["named_data"], runtime=target))

        checkers[backend_id] = check
    return checkers
