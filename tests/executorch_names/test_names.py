"""The tables of ExecuTorch's names: every counterpart exists."""

from importlib import import_module

import pytest
import torch

from edgecore import stability
from edgecore.errors import NoEffectWarning
from edgecore.executorch.exir.memory import MemoryPlanningPass
from edgecore.executorch.finder import plugin_modules
from edgecore.executorch.names import MODULES


@pytest.mark.parametrize("module", MODULES)
def test_each_counterpart_of_a_module_exists(module):
    for name, target in MODULES[module].items():
        source, _, attribute = target.partition(":")
        assert getattr(import_module(source), attribute) is not None, name


def test_each_counterpart_of_an_installed_backend_exists():
    modules = plugin_modules()
    for names in modules.values():
        for target in names.values():
            source, _, attribute = target.partition(":")
            try:
                imported = import_module(source)
            except ModuleNotFoundError as error:  # a vendor's compiler, which only that backend needs
                assert not str(error.name).startswith("edgecore"), error
                continue
            assert getattr(imported, attribute) is not None, target


def test_each_module_and_name_is_one_of_executorch():
    pytest.importorskip("executorch.exir")
    unknown = []
    for module, names in MODULES.items():
        theirs = import_module(module)
        unknown += [f"{module}.{name}" for name in names if not hasattr(theirs, name)]
    assert not unknown


def test_a_planning_pass_with_executorchs_arguments_has_its_defaults(monkeypatch):
    monkeypatch.setattr(stability, "_without_effect", set())
    planning = MemoryPlanningPass()
    assert planning.alloc_graph_input and planning.alloc_graph_output and planning.alignment == 16
    with pytest.warns(NoEffectWarning, match="alloc_mutable_buffers=False"):
        MemoryPlanningPass(alloc_mutable_buffers=False)
    planning.note = torch.float32  # a subclass may set attributes
