"""Plan a sweep: its cells (files to compile and run), each with a digest of everything on which its result depends."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from edgecore.errors import BackendError, EdgecoreError
from edgecore.format import EDGECORE
from edgecore.sweeps.fingerprint import digest, file_digest, is_installed, versions
from edgecore.sweeps.options import Limits, ModelOptions, Selection, SweepOptions, read_options

if TYPE_CHECKING:
    from edgecore.sweeps.results.result import CellResult

FLOAT = "float"
"""The name of the recipe that does not quantize."""
KERNELS = "kernels"
"""The name that stands for edgecore's own kernels in place of a backend."""


@dataclass(frozen=True)
class Build:
    """The inputs from which a sweep compiles one file: a model, a backend, a recipe and a target runtime.

    Attributes:
        model: Name of the model.
        backend: Name of the backend in the sweep, which may have the same backend several times with other options.
        recipe: Name of the recipe in the sweep.
        runtime: The target runtime.
        source: The model, as `edgecore compile` takes it.
        calibration: Folder or function of samples.
        accuracy: Function that judges a program.
        backend_name: Name of the backend's package; `kernels` for none.
        backend_options: Options of the backend.
        recipe_name: Name of the recipe; `float` for none.
        recipe_options: Parameters of the recipe.
        max_loss: The largest acceptable loss of accuracy; if the recipe loses more, modules stay in floating point.
            None: apply the recipe as it is.
        key: Digest of the other fields and of the installed packages.
    """

    model: str
    backend: str
    recipe: str
    runtime: str
    source: str
    calibration: str | None
    accuracy: str | None
    backend_name: str
    backend_options: Mapping[str, Any] = field(hash=False)
    recipe_name: str
    recipe_options: Mapping[str, Any] = field(hash=False)
    max_loss: float | None = None
    key: str = ""


@dataclass(frozen=True)
class Cell:
    """One cell of a sweep's table: a file to compile, and the number of threads to run it with.

    Attributes:
        build: The inputs of the file; cells that differ in threads share it.
        threads: Number of threads; 0 for edgecore's default.
        runs: Number of measured runs; 0 measures no time.
        needs: Resources that a Ray node must offer to run the cell.
    """

    build: Build
    threads: int
    runs: int
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the cell, which is the same in each sweep: `model/backend/recipe/runtime/threads`."""
        build = self.build
        return f"{build.model}/{build.backend}/{build.recipe}/{build.runtime}/{self.threads or 'default'}"


@dataclass(frozen=True)
class SweepPlan:
    """The cells of a sweep, in the order of its file, and the limits of their processes."""

    cells: tuple[Cell, ...]
    limits: Limits = field(default_factory=Limits)

    def estimate(self, history: Iterable[CellResult], jobs: int = 1) -> tuple[float, int]:
        """Return the estimated seconds that the cells will take, and the number of cells without an estimate.

        A cell's estimate is its time in an earlier sweep; without one, the median of its model's cells, or else of all
        cells.

        Args:
            history: Results of earlier sweeps.
            jobs: Number of cells that are compiled at the same time.
        """
        known = [result for result in history if result.seconds]
        by_name = {result.cell: result.seconds for result in known}
        by_model: dict[str, list[float]] = {}
        for result in known:
            by_model.setdefault(result.model, []).append(result.seconds)
        everything = [result.seconds for result in known]
        total, unknown = 0.0, 0
        for cell in self.cells:
            if cell.name in by_name:
                total += by_name[cell.name]
            elif everything:
                total += median(by_model.get(cell.build.model, everything))
            else:
                unknown += 1
        return total / jobs, unknown


def make_plan(source: str | Path | Mapping[str, Any] | SweepOptions) -> SweepPlan:
    """Make the plan of a sweep.

    Args:
        source: Path of a `sweep.toml`, its content, or its options.

    Raises:
        EdgecoreError: A table or key is wrong, a backend is not installed, or no cell is left.
    """
    options = source if isinstance(source, SweepOptions) else read_options(source)
    backends = _backends(options)
    cells = []
    contents = {name: _content(model) for name, model in options.models.items()}
    sources = [model.source for model in options.models.values()]
    packages = {name: versions(backend, sources) for name, (backend, *_) in backends.items()}
    for name, model in options.models.items():
        for backend, (backend_name, backend_options, needs) in backends.items():
            for runtime in options.runtimes:
                for recipe, (recipe_name, parameters) in _recipes(options, backend_name, runtime):
                    inputs = (model.source, model.calibration, model.accuracy)
                    build = Build(
                        name, backend, recipe, runtime, *inputs, backend_name, backend_options, recipe_name, parameters
                    )
                    facts = [asdict(build), contents[name], packages[backend]]
                    keyed = replace(build, key=digest(json.dumps(facts, sort_keys=True)))
                    cells += [Cell(keyed, threads, options.runs, needs) for threads in options.threads]
    chosen = tuple(cell for cell in cells if _is_chosen(cell, options))
    if not chosen:
        raise EdgecoreError("the sweep has no cells; the rules of include and exclude leave out all")
    return SweepPlan(chosen, options.limits)


def _content(model: ModelOptions) -> list[str]:
    """Return the digests of the files that a model names: a `.pt2`, or the modules of its functions.

    The imports of these modules are unknown before a step runs; `StepResult.inputs` lists them.
    """
    named = [text for text in (model.source, model.calibration, model.accuracy) if text is not None]
    return [file_digest(path) for path in map(_file_of, named)]


def named_files(build: Build) -> dict[str, Path]:
    """Return the files that a compilation (`Build`) names, and the Python files that its functions may import.

    Returns:
        A map from each path, as the build names it (absolute or relative to the current folder), to the `Path`. Files
        of installed packages are left out.
    """
    files: list[Path] = []
    for text in (build.source, build.calibration, build.accuracy):
        file = _file_of(text or "")
        if text is None or is_installed(str(file.absolute())):
            continue
        if file.is_dir():
            files += [path for path in file.iterdir() if path.is_file()]
        elif ":" in text and file.is_file():
            files += _python_files(text.partition(":")[0], file)
        elif file.is_file():
            files.append(file)
    return {str(path): path for path in sorted(set(files))}


def _python_files(module: str, file: Path) -> Iterator[Path]:
    """Yield the Python files that a user's module may import.

    For a single module (`m`), these are the files of its folder. For a module in a package (`p.m`), they are all files
    of the package `p`, and the files of the folder that contains `p`.
    """
    names = module.split(".")
    place = file.parents[len(names) - (file.name != "__init__.py")]
    yield from place.glob("*.py")
    package = place / names[0]
    if package in file.parents:
        yield from package.rglob("*.py")


def _file_of(text: str) -> Path:
    """Return the file of `module:function`, which is searched on `sys.path`; treat any other text as a path."""
    name, colon, _ = text.partition(":")
    if not colon:
        return Path(text)
    relative = Path(*name.split("."))
    places = [Path(folder) / relative for folder in ("", *sys.path)]
    files = (file for place in places for file in (place / "__init__.py", place.with_suffix(".py")))
    return next((file for file in files if file.is_file()), relative)


def _backends(options: SweepOptions) -> dict[str, tuple[str, dict[str, Any], tuple[str, ...]]]:
    """Return the backends of a sweep: name in the sweep -> (name of the backend, options, resources of Ray nodes)."""
    from edgecore.plugin import registry

    if options.backends == "installed":
        import edgecore

        return {row.name: (row.name, {}, ()) for row in edgecore.backends() if row.state == "ok"}
    backends = {}
    for name, table in options.backends.items():
        extra = dict(table.model_extra or {})
        if table.backend != KERNELS:
            try:
                registry.find_by_name(table.backend)
            except BackendError as error:
                raise EdgecoreError(f"[backends.{name}]: {error}") from error
        elif extra:
            raise EdgecoreError(f"[backends.{name}]: {KERNELS} has no options; got {', '.join(extra)}")
        backends[name] = (table.backend, extra, table.needs)
    return backends


def _recipes(options: SweepOptions, backend: str, runtime: str) -> Iterator[tuple[str, tuple[str, dict[str, Any]]]]:
    """Yield a backend's recipes in a sweep: (name in the sweep, (name of the `edgecore.Recipe`, its parameters))."""
    from edgecore.recipe import NAMES, Recipe

    if options.recipes == "all":
        yield FLOAT, (FLOAT, {})
        for name in _names_of_recipes(backend, runtime):
            yield name, (name, {})
        return
    for name, table in options.recipes.items():
        parameters = dict(table.model_extra or {})
        if table.recipe == FLOAT:
            if parameters:
                raise EdgecoreError(f"[recipes.{name}]: {FLOAT} has no parameters; got {', '.join(parameters)}")
        elif table.recipe not in NAMES:
            raise EdgecoreError(f"[recipes.{name}]: no recipe {table.recipe!r}; there are {FLOAT}, {', '.join(NAMES)}")
        else:
            try:
                Recipe(table.recipe, **parameters)
            except EdgecoreError as error:
                raise EdgecoreError(f"[recipes.{name}]: {error}") from error
        yield name, (table.recipe, parameters)


def _names_of_recipes(backend: str, runtime: str) -> list[str]:
    from edgecore.plugin import registry

    if backend == KERNELS:
        from edgecore.quantize import kernels

        return list(kernels.RECIPES) if runtime == EDGECORE else []
    compiler = registry.load_compiler(registry.find_by_name(backend))
    return list(compiler.recipes()) if hasattr(compiler, "recipes") else []


def _is_chosen(cell: Cell, options: SweepOptions) -> bool:
    included = not options.include or any(_matches(cell, rule) for rule in options.include)
    return included and not any(_matches(cell, rule) for rule in options.exclude)


def _matches(cell: Cell, rule: Selection) -> bool:
    build = cell.build
    names = ("model", "backend", "recipe", "runtime")
    matches = all(fnmatchcase(getattr(build, name), getattr(rule, name)) for name in names)
    return matches and rule.threads in (None, cell.threads)
