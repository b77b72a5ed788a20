"""Models that the command line names: a `.pt2` file, a function of the user, or a network of a model library."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import typer

from edgecore.cli.common import complain, install_hint
from edgecore.cli.input_shapes import parse_shapes, reshaped
from edgecore.errors import CompileError, EdgecoreError

Loaded = tuple[Any, Any, Any]
"""A loaded model: (module or exported program, example inputs or None, dynamic shapes or None)."""


def load_model(model: str, input_shapes: Sequence[str] | None = None) -> Loaded:
    """Load a `.pt2` file, make a network of a library, or call a function `module:function`.

    Args:
        model: The model, as the user names it.
        input_shapes: Values of `--input-shape`: shapes of example inputs that replace the model's own.

    Raises:
        CompileError: The file, module or function does not exist, the function does not return a model, or the model
            does not accept the shapes.
    """
    if not input_shapes:
        return _load(model)
    parse_shapes(input_shapes)  # report a malformed shape before the model is loaded
    source, inputs, dynamic_shapes = _load(model)
    return source, reshaped(model, source, inputs, input_shapes), dynamic_shapes


def _load(model: str) -> Loaded:
    if model.endswith(".pt2"):
        if not Path(model).is_file():
            raise CompileError(f"{model} does not exist")
        try:
            import torch

            from edgecore.ir.torch_compat import quantized_operators
        except ImportError as error:
            raise CompileError("compiling needs torch; run: pip install 'edgecore[compile]'") from error
        quantized_operators()  # import the operators that quantized `.pt2` files call
        try:
            return torch.export.load(model), None, None
        except Exception as error:
            raise CompileError(f"{model} was not written by torch.export.save: {_reason(error)}") from error
    module_name, colon, function = model.partition(":")
    if function and module_name in _LIBRARIES:
        return _library_model(module_name, function)
    if not colon or not function:
        raise typer.BadParameter(
            f"{model!r} is neither a .pt2 file nor module:function nor one of torchvision:NAME, timm:NAME, "
            "transformers:NAME",
            param_hint="MODEL",
        )
    make = function_of(model)
    try:
        result = make()
    except EdgecoreError:
        raise
    except Exception as error:
        raise CompileError(f"{model} failed: {_reason(error)} (--debug shows where)") from error
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise CompileError(
            f"{model} must return (model, example_inputs[, dynamic_shapes]), not {type(result).__name__}"
        )
    return result if len(result) == 3 else (*result, None)


def function_of(text: str) -> Callable[..., Any]:
    """Import `module:function` from the current folder or an installed package.

    Raises:
        CompileError: The module or function does not exist, or the argument does not have this form.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name:
        raise CompileError(f"{text!r} is not module:function")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        remedy = install_hint(error)
        raise CompileError(
            f"cannot import {module_name!r} for {text!r}: {_reason(error)}{'; ' if remedy else ''}{remedy}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise CompileError(f"module {module_name!r} ({module.__file__}) has no function {name!r}")
    return function  # type: ignore[no-any-return]


def stem(model: str) -> str:
    """Return the default name of a model's files, without an extension."""
    if model.endswith(".pt2"):
        return Path(model).stem
    path = Path(model.rpartition(":")[2])
    return path.name or path.resolve().name


def _reason(error: Exception) -> str:
    return shorten(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}", 300)


# Model libraries ------------------------------------------------------------------------------------------------------

Made = tuple[Any, Any, bool]
"""A network of a model library: (network, example input, True if the weights are trained)."""


def _library_model(library: str, name: str) -> Loaded:
    """Make a network of a library, with trained weights if they are on this machine, and a random example input.

    Nothing is downloaded.
    """
    with _offline():
        try:
            import torch

            importlib.import_module(library)
        except ImportError as error:
            raise CompileError(
                f"{library}:{name} needs the package {error.name}; run: pip install {library}"
            ) from error
        except RuntimeError as error:  # importing fails like this if torchvision was built for another version of torch
            raise CompileError(f"{library} cannot be imported: {_reason(error)}") from error
        torch.manual_seed(0)
        try:
            model, example, trained = _LIBRARIES[library](name)
        except EdgecoreError:
            raise
        except Exception as error:
            raise CompileError(f"{library} cannot make {name!r}: {_reason(error)}") from error
    if not trained:
        complain(f"{library}:{name} has random weights, because trained ones are not on this machine")
    return model.eval(), (example,), None


@contextmanager
def _offline() -> Iterator[None]:
    """Restrict the Hugging Face hub client to its cache, because timm and transformers download through it."""
    try:
        from huggingface_hub import constants
    except ImportError:
        yield
        return
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _torchvision(name: str) -> Made:
    import torch

    models = importlib.import_module("torchvision.models")
    weights = models.get_model_weights(name).DEFAULT
    transforms = weights.transforms()
    size: Sequence[int] = getattr(transforms, "crop_size", None) or getattr(transforms, "resize_size", None) or ()
    if len(size) != 1:  # reject models whose input is not one image, but a video, a pair of images or a list of images
        raise CompileError(f"torchvision:{name} takes no single image; name a function of yours as module:function")
    trained = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name).is_file()
    settings = {"weights": weights if trained else None}
    if not trained and "weights_backbone" in inspect.signature(models.get_model_builder(name)).parameters:
        settings["weights_backbone"] = None  # None: torchvision must not download the backbone's weights
    return models.get_model(name, **settings), torch.randn(1, 3, size[0], size[0]), trained


def _timm(name: str) -> Made:
    import torch

    timm = importlib.import_module("timm")
    model = timm.create_model(name, pretrained=False)
    repository = model.pretrained_cfg.get("hf_hub_id") or ""
    trained = bool(repository) and _is_cached(repository, "model.safetensors")
    if trained:
        model = timm.create_model(name, pretrained=True)
    return model, torch.randn(1, *model.pretrained_cfg["input_size"]), trained


def _transformers(name: str) -> Made:
    import torch

    transformers = importlib.import_module("transformers")

    def is_here(file: str) -> bool:
        return Path(name, file).is_file() or _is_cached(name, file)

    trained = is_here("config.json") and any(map(is_here, _WEIGHTS))
    if is_here("config.json"):  # trust_remote_code=False: neither run code of the repository, nor ask the user about it
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=True, trust_remote_code=False)
    elif name in transformers.CONFIG_MAPPING:  # the user named an architecture, such as `bert`
        config = transformers.AutoConfig.for_model(name)
    else:
        raise CompileError(
            f"transformers:{name} is no architecture, such as bert, no folder with config.json, and no repository that "
            "was downloaded before"
        )
    config.use_cache, config.return_dict = False, True
    if trained:
        model = transformers.AutoModel.from_pretrained(
            name, config=config, local_files_only=True, trust_remote_code=False
        )
    else:
        model = transformers.AutoModel.from_config(config, trust_remote_code=False)
    if model.main_input_name == "input_ids":
        return model, torch.randint(config.vocab_size, (1, 16)), trained
    if model.main_input_name == "pixel_values" and isinstance(config.image_size, int):
        return model, torch.randn(1, config.num_channels, config.image_size, config.image_size), trained
    raise CompileError(
        f"transformers:{name} takes {model.main_input_name}, neither tokens nor one square image; name a function of "
        "yours as module:function"
    )


_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Files of trained weights, or of the list of such files, in a folder or repository of transformers."""


def _is_cached(repository: str, file: str) -> bool:
    """Return True if a file of a repository of the Hugging Face hub has been downloaded before."""
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(repository, file), str)
    except ValueError:  # not a valid repository name
        return False


_LIBRARIES: dict[str, Callable[[str], Made]] = {
    "torchvision": _torchvision,
    "timm": _timm,
    "transformers": _transformers,
}
"""Reserved prefixes of models, and the functions that make a network of the library by its name."""
