from __future__ import annotations

import site
import sys
from types import ModuleType

import pytest
from sweep_files import MODEL, write_nets

from edgecore.errors import EdgecoreError
from edgecore.sweeps import CellResult, fingerprint, make_plan
from edgecore.sweeps.plan import named_files


@pytest.fixture(autouse=True)
def nets(tmp_path, monkeypatch):
    pytest.importorskip("edgecore_xnnpack")
    write_nets(tmp_path, monkeypatch)


def names(**options):
    return [
        cell.name for cell in make_plan({"models": {"a": MODEL, "b": MODEL}, "backends": ["xnnpack"], **options}).cells
    ]


def test_a_plan_is_the_product_of_all_lists():
    found = names(recipes=["float", "int8"], threads=[1, 2])
    assert len(found) == len(set(found)) == 8
    assert found[0] == "a/xnnpack/float/executorch-1.5/1" and found[-1] == "b/xnnpack/int8/executorch-1.5/2"


def test_rules_include_and_exclude_cells_by_patterns():
    recipes = ["float", "int8", "int8-dynamic"]
    left = names(recipes=recipes, include=[{"recipe": "int8*"}], exclude=[{"model": "b", "recipe": "int8"}])
    assert [name.split("/")[:3:2] for name in left] == [["a", "int8"], ["a", "int8-dynamic"], ["b", "int8-dynamic"]]
    with pytest.raises(EdgecoreError, match="no cells"):
        names(exclude=[{}])


def test_all_recipes_are_those_of_each_backend():
    plan = make_plan({"models": {"a": MODEL}, "backends": ["xnnpack", "kernels"], "recipes": "all"})
    found = {(cell.build.backend, cell.build.recipe) for cell in plan.cells}
    assert ("xnnpack", "int8") in found and {recipe for backend, recipe in found if backend == "kernels"} == {"float"}


def test_kernels_offer_their_recipes_for_their_runtime_only():
    options = {"backends": ["kernels"], "recipes": "all", "runtimes": ["executorch-1.5", "edgecore"]}
    found = [(cell.build.runtime, cell.build.recipe) for cell in make_plan({"models": {"a": MODEL}, **options}).cells]
    own = [("edgecore", recipe) for recipe in ("float", "int8", "int16x8")]
    assert found == [("executorch-1.5", "float"), *own]


def test_needs_are_no_option_of_a_backend_and_change_no_key():
    def cell(**backend):
        return make_plan({"models": {"a": MODEL}, "backends": {"xnnpack": backend}}).cells[0]

    assert cell(needs=["phone"]).needs == ("phone",) and cell(needs=["phone"]).build == cell().build


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": ["xnnpack"]}, r"the top of the file has no key 'backend'; it has models, backends"),
        ({"models": {"a": {**MODEL, "calibratoin": "x"}}}, r"\[models\.a\] has no key 'calibratoin'; it has source"),
        ({"models": {"a": {}}}, r"\[models\.a\] needs the key 'source'"),
        ({"limits": {"seconds": 0}}, r"\[limits\], seconds = 0"),
        ({"backends": ["nowhere"]}, r"\[backends\.nowhere\].*nowhere"),
        ({"recipes": ["int7"]}, r"\[recipes\.int7\]: no recipe 'int7'; there are float, int8"),
        ({"recipes": {"x": {"recipe": "int8", "grup": 3}}}, r"\[recipes\.x\].*grup"),
        ({"threads": [-1]}, r"threads"),
        ({"runtimes": ["executorch-9"]}, r"executorch-9"),
        ({"exclude": [{"modle": "a"}]}, r"modle"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_sentence_with_its_table(options, message):
    with pytest.raises(EdgecoreError, match=message) as caught:
        make_plan({"models": {"a": MODEL}, "backends": ["xnnpack"], **options})
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_toml_is_named_with_its_line(tmp_path):
    (tmp_path / "s.toml").write_text("runs = 3\nmodels = = 4\n")
    with pytest.raises(EdgecoreError, match=r"s\.toml is no TOML file.*line"):
        make_plan(tmp_path / "s.toml")


def test_two_models_of_the_same_name_need_tables():
    with pytest.raises(EdgecoreError, match="two models are called 'net'"):
        make_plan({"models": ["a/net.pt2", "b/net.pt2"], "backends": ["xnnpack"]})


def test_the_key_of_a_cell_follows_the_source_of_its_model_and_its_options(tmp_path):
    def key(**backend):
        return (
            make_plan({"models": {"a": MODEL}, "backends": {"x": {"backend": "xnnpack", **backend}}}).cells[0].build.key
        )

    first = key()
    assert key() == first != key(required=True)
    (tmp_path / "sweep_nets.py").write_text("# another one")
    assert key() != first


def test_the_estimate_takes_earlier_results_of_cells_or_else_of_models():
    plan = make_plan({"models": {"a": MODEL, "b": MODEL}, "backends": ["xnnpack"], "recipes": ["float", "int8"]})
    history = [CellResult(plan.cells[0].name, "a", "xnnpack", "float", "executorch-1.5", 0, "ok", seconds=10.0)]
    assert plan.estimate(history) == (40.0, 0) and plan.estimate(history, jobs=2) == (20.0, 0)
    assert plan.estimate([]) == (0.0, 4)


def test_packages_that_another_python_would_need_do_not_change_the_key_of_a_cell(tmp_path, monkeypatch):
    def key():
        fingerprint._with_requirements.cache_clear()
        return make_plan({"models": {"a": MODEL}, "backends": ["xnnpack"]}).cells[0].build.key

    before = key()
    info = tmp_path / "copies" / "tomli-1.0.dist-info"  # edgecore needs tomli before Python 3.11
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tomli\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(info.parent)])
    assert key() == before
    fingerprint._with_requirements.cache_clear()


def files_of(source, **more):
    plan = make_plan({"models": {"a": {"source": source, **more}}, "backends": ["xnnpack"]})
    return sorted(named_files(plan.cells[0].build))


def test_files_keep_the_paths_by_which_a_build_names_them(tmp_path):
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "0.npy").write_bytes(b"")
    (tmp_path / "net.pt2").write_bytes(b"")
    assert files_of("net.pt2", calibration="samples") == ["net.pt2", "samples/0.npy"]
    whole = [str(tmp_path / name) for name in ("net.pt2", "samples/0.npy")]
    assert files_of(whole[0], calibration=str(tmp_path / "samples")) == whole


@pytest.mark.parametrize("source", ["nets:small", "nets.inner:small", "nets.inner.deep:small"])
def test_a_function_of_a_package_brings_the_whole_package(tmp_path, source):
    for name in (
        "nets/__init__.py",
        "nets/inner/__init__.py",
        "nets/inner/deep.py",
        "other/__init__.py",
        "nets/weights.bin",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert files_of(source) == ["nets/__init__.py", "nets/inner/__init__.py", "nets/inner/deep.py", "sweep_nets.py"]


@pytest.fixture
def installed_folders_anew():
    """Let the folders of packages be found in the test, and again after it."""
    fingerprint._installed_folders.cache_clear()
    yield
    fingerprint._installed_folders.cache_clear()


@pytest.mark.usefixtures("installed_folders_anew")
def test_packages_that_pip_has_installed_for_the_user_are_no_files_of_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(site, "USER_SITE", str(tmp_path / "user"))
    (tmp_path / "user").mkdir()
    file = tmp_path / "user" / "nets_of_pip.py"
    file.write_text("")
    module = ModuleType("nets_of_pip")
    module.__file__ = str(file)
    monkeypatch.setitem(sys.modules, "nets_of_pip", module)
    monkeypatch.syspath_prepend(file.parent)
    assert str(file) not in fingerprint.imported_files() and __file__ in fingerprint.imported_files()
    assert files_of("nets_of_pip:small") == []
