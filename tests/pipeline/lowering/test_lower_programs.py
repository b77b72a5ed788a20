"""Lowering to the edge dialect leaves the user's program and Python's garbage collector alone."""

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from edge_programs import export, inplace_chain

import edgecore
from edgecore.errors import CompileError
from edgecore.pipeline import to_edge


def test_the_users_program_is_left_alone():
    program = export(inplace_chain, torch.randn(3, 4))
    before = program.graph_module.code
    to_edge(program)
    assert program.graph_module.code == before


def test_the_garbage_collector_is_as_before_after_success_and_failure():
    def fail(program):
        assert gc.get_freeze_count() > 0  # during lowering, the user's objects are not visited
        raise ValueError("a pass of the user")

    program = export(inplace_chain, torch.randn(3, 4))
    edgecore.to_edge_transform_and_lower(program)
    assert gc.get_freeze_count() == 0 and gc.isenabled()
    with pytest.raises(CompileError, match="a pass of the user"):
        edgecore.to_edge_transform_and_lower(program, transform_passes=[fail])
    assert gc.get_freeze_count() == 0


def test_what_the_application_has_frozen_stays_frozen():
    program = export(inplace_chain, torch.randn(3, 4))
    gc.freeze()
    try:
        edgecore.to_edge_transform_and_lower(program)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_threads_can_lower_at_the_same_time():
    functions = [inplace_chain, lambda self, x: torch.softmax(x @ x.T, -1)] * 3
    x = torch.randn(3, 3)
    programs = [export(function, x) for function in functions]
    expected = [program.module()(x) for program in programs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns in the middle of torch's tracing
    try:
        with ThreadPoolExecutor(4) as pool:
            files = list(pool.map(lambda program: edgecore.compile(program).buffer, programs))
    finally:
        sys.setswitchinterval(interval)
    for file, want in zip(files, expected, strict=True):
        torch.testing.assert_close(edgecore.load(file).forward(x), want)
    assert gc.get_freeze_count() == 0
