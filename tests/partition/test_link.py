"""Linking: a backend gets the compiled partitions of all methods at once, and may replace their results."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from fake_backends import SilentCompiler, compiles, edge, no_sin

from edgecore.errors import CompileError, FallbackWarning
from edgecore.ir.delegate import delegates
from edgecore.partition import CapabilityPartitioner, PartitionDiagnostics, to_backend
from edgecore.pipeline import preprocess
from edgecore.plugin import NamedBlob, PreprocessResult


def share(backend_id, partitions):
    """Store the blobs of all partitions as one named blob."""
    data = {"all": NamedBlob(b"".join(partition.result.blob for partition in partitions))}
    return [PreprocessResult(f"{item.method} {index}".encode(), data) for index, item in enumerate(partitions)]


def lowered(link, methods=("prefill", "decode"), *, required=False):
    partitioner = CapabilityPartitioner("Fake", no_sin)
    diagnostics = {method: PartitionDiagnostics() for method in methods}
    programs = to_backend(
        {method: edge() for method in methods},
        dict.fromkeys(methods, partitioner),
        compiles,
        diagnostics,
        required=[partitioner] if required else [],
        link=link,
    )
    return [module for program in programs.values() for _, module in delegates(program)], diagnostics


def test_a_backend_links_the_partitions_of_all_methods():
    modules, _ = lowered(share)
    assert [module.processed_bytes for module in modules] == [b"prefill 0", b"prefill 1", b"decode 2", b"decode 3"]
    assert {bytes(module.named_data["all"].data) for module in modules} == {b"blob" * 4}


def test_a_backend_gets_the_programs_and_specs_of_its_partitions():
    seen = []

    def look(backend_id, partitions):
        seen.extend(partitions)
        return [partition.result for partition in partitions]

    modules, _ = lowered(look)
    assert [(item.program, item.specs) for item in seen] == [
        (module.original_module, module.compile_specs) for module in modules
    ]


def test_one_partition_is_not_linked():
    def never(backend_id, partitions):
        raise AssertionError("one partition is linked")

    partitioner = CapabilityPartitioner("Fake", lambda program: lambda node: None)
    (program,) = to_backend(
        {"forward": edge()}, {"forward": partitioner}, compiles, {"forward": PartitionDiagnostics()}, link=never
    ).values()
    assert len(delegates(program)) == 1


def fails(backend_id, partitions):
    raise ValueError("no common target")


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (fails, "ValueError: no common target"),
        (lambda backend_id, partitions: share(backend_id, partitions)[1:], "ValueError: link gave 3 results"),
        (lambda backend_id, partitions: [b""] * len(partitions), "TypeError: link gave a bytes"),
        (
            lambda backend_id, partitions: [PreprocessResult(b"", unread_results=[0])] * len(partitions),
            "link changed the number of unread_results",
        ),
    ],
)
def test_if_linking_fails_the_compiled_results_stay(link, message):
    with pytest.warns(FallbackWarning, match="Fake failed to link 4 delegates") as caught:
        modules, diagnostics = lowered(link)
    assert message in str(caught[0].message)
    assert {module.processed_bytes for module in modules} == {b"blob"}
    assert message in diagnostics["prefill"].failures[0].sentence
    with pytest.raises(CompileError, match="Fake failed to link 4 delegates"):
        lowered(link, required=True)


class Linker(SilentCompiler):
    def link(self, partitions):
        return share("", partitions)


@pytest.mark.parametrize(
    ("compiler", "blobs"), [(SilentCompiler(), [b"a", b"b"]), (Linker(), [b"forward 0", b"forward 1"])]
)
def test_a_compiler_may_have_no_linker(monkeypatch, compiler, blobs):
    monkeypatch.setattr(preprocess.registry, "find", lambda backend_id: SimpleNamespace(name=backend_id))
    monkeypatch.setattr(preprocess, "compiler_of", lambda info: compiler)
    partitions = [SimpleNamespace(method="forward", result=PreprocessResult(blob)) for blob in (b"a", b"b")]
    assert [result.blob for result in preprocess.link("Fake", partitions)] == blobs
