"""Read `LlmConfig`, the settings of an export, from a YAML file and from arguments `+section.key=value`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError, model_validator

from edgecore.sdk import problem_message
from edgecore_llm.config.backends import BackendConfig
from edgecore_llm.config.sections import (
    BaseConfig,
    DebugConfig,
    ExportConfig,
    ModelConfig,
    MultimethodConfig,
    QuantizationConfig,
    Section,
)
from edgecore_llm.errors import ConfigError

_STATIC_SHAPES_ONLY = {"coreml", "mps", "qnn"}


class LlmConfig(Section):
    """All settings of an export."""

    base: BaseConfig = BaseConfig()
    model: ModelConfig = ModelConfig()
    export: ExportConfig = ExportConfig()
    debug: DebugConfig = DebugConfig()
    multimethod: MultimethodConfig = MultimethodConfig()
    quantization: QuantizationConfig = QuantizationConfig()
    backend: BackendConfig = BackendConfig()

    @model_validator(mode="after")
    def _check(self) -> LlmConfig:
        enabled = set(self.backend.enabled)
        if self.model.enable_dynamic_shape and enabled & _STATIC_SHAPES_ONLY:
            name = min(enabled & _STATIC_SHAPES_ONLY)
            raise ValueError(f"backend.{name} needs model.enable_dynamic_shape=false")
        if self.multimethod.methods:
            if enabled - {"xnnpack"}:
                raise ValueError(f"multimethod.methods and backend.{min(enabled - {'xnnpack'})} exclude each other")
            if self.quantization.pt2e_quantize is not None:
                raise ValueError("multimethod.methods and quantization.pt2e_quantize exclude each other")
            if self.base.lora_config is not None:
                raise ValueError("multimethod.methods and base.lora_config exclude each other")
        return self


def load_config(path: str | Path | None = None, settings: Sequence[str] = ()) -> LlmConfig:
    """Read an optional YAML file, then apply settings `+section.key=value`; the last setting of a key wins.

    Raises:
        ConfigError: A key does not exist, or a value is not allowed. The message names the key.
    """
    values = {} if path is None else _read(Path(path))
    for setting in settings:
        _apply(values, setting)
    return validate(values)


def validate(values: dict[str, Any]) -> LlmConfig:
    """Validate a configuration; a section that is None gets its default values.

    Raises:
        ConfigError: A key does not exist, or a value is not allowed. The message names the key.
    """
    try:
        return LlmConfig.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(_sentence(error)) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is no YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict | None):
        raise ConfigError(f"{path} has no sections: its content is a {type(content).__name__}")
    return content or {}


def _apply(values: dict[str, Any], setting: str) -> None:
    key, equals, text = setting.removeprefix("+").partition("=")
    *sections, name = key.split(".")
    if not equals or not sections:
        raise ConfigError(f"{setting!r} has not the form +section.key=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"the value of {key} is not YAML: {text!r}") from error
    for section in sections:
        if values.get(section) is None:
            values[section] = {}
        values = values[section]
        if not isinstance(values, dict):
            raise ConfigError(f"{key} does not exist: {section} is no section")
    values[name] = value


def _sentence(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"{key} does not exist{_advice(key)}"
    if first["type"] == "model_type":
        return f"{key} is a section with keys, but it is {first['input']!r}"
    message = problem_message(first)
    message = message[0].lower() + message[1:]
    if not key:
        return message
    is_section = isinstance(first["input"], BaseModel | dict)
    return f"{key}: {message}" + ("" if is_section else f", but it is {first['input']!r}")


def _advice(key: str) -> str:
    keys = list(_keys(LlmConfig))
    elsewhere = [known for known in keys if known.rpartition(".")[2] == key.rpartition(".")[2]]
    close = elsewhere or difflib.get_close_matches(key, keys, 1)
    return f"; did you mean {close[0]}?" if close else ""


def _keys(section: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield the names of all settings and sections, such as "base" and "base.params"."""
    for name, field in section.model_fields.items():
        yield prefix + name
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _keys(kind, f"{prefix}{name}.")
