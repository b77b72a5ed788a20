"""`edgecore verify`: does a file keep to the format and to a runtime profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from edgecore.cli.common import AnyFile, complain, progress, read_any, read_file, stderr
from edgecore.errors import BackendError

if TYPE_CHECKING:
    from edgecore.format import Buffer, Checker, Violation


def command(
    file: AnyFile,
    runtime: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="executorch-1.5 or edgecore; by default the file's own.")
    ] = None,
) -> None:
    """List everything in a file that its runtime would refuse. Exit status 1 if there is any."""
    from edgecore.format import EDGECORE, EXECUTORCH_1_5, PtdFile, get_meta, verify, verify_ptd

    if runtime not in (None, EDGECORE, EXECUTORCH_1_5):
        raise typer.BadParameter(f"{runtime!r} is neither {EXECUTORCH_1_5!r} nor {EDGECORE!r}", param_hint="--runtime")
    content = read_any(file)
    if isinstance(content, PtdFile):
        _conclude(file, verify_ptd(content), "the .ptd format")
        return
    pte = read_file(file)
    meta = get_meta(pte)
    profile = runtime or (meta.profile if meta else EXECUTORCH_1_5)
    ids = sorted({delegate.id for plan in pte.program.execution_plan for delegate in plan.delegates})
    with progress(f"verifying {file}"):
        violations = verify(pte, profile, _checkers(ids, profile))
    _conclude(file, violations, f"the profile {profile}")


def _conclude(file: Path, violations: Sequence[Violation], rules: str) -> None:
    for violation in violations:
        print(violation)
    if violations:
        complain(f"{file}: {len(violations)} violation{'s' * (len(violations) > 1)} of {rules}")
        raise typer.Exit(1)
    print(f"{file}: sound, keeps to {rules.removeprefix('the profile ')}")


def _checkers(backend_ids: list[str], profile: str) -> dict[str, Checker]:
    """Those who can look into the delegates' blobs: the compile sides of the installed plugins."""
    from edgecore.plugin.registry import find, load_compiler

    checkers: dict[str, Checker] = {}
    for backend_id in backend_ids:
        try:
            compiler = load_compiler(find(backend_id))
        except BackendError as error:
            stderr.print(f"the blobs of {backend_id} are not looked into: {error}", markup=False, soft_wrap=True)
            continue

        def check(blob: Buffer, context: dict[str, Any], compiler: Any = compiler) -> list[str]:
            return list(compiler.verify_blob(bytes(blob), context["named_data"], runtime=profile))

        checkers[backend_id] = check
    return checkers
