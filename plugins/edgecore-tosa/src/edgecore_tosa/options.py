"""The options that all backends for TOSA devices share, as the shared compiler and partitioner read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from edgecore.plugin import CompileSpec
from edgecore_tosa.spec import TosaSpec

if TYPE_CHECKING:
    from typing import Self


class TosaOptions(Protocol):
    """The interface of a backend's options, a pydantic model that has these members and further options."""

    @property
    def dump_intermediate_artifacts_to(self) -> str | None:
        """Parent folder of the folders for intermediate files; None to keep no files."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators to delegate, such as `add` or `aten.add.Tensor`, and no others; empty: all supported operators."""

    @property
    def min_operators(self) -> int:
        """The minimum number of operators of a partition; a smaller partition is not delegated."""

    @property
    def spec(self) -> TosaSpec:
        """The TOSA specification (profile and extensions) of the target."""

    @classmethod
    def model_validate(cls, obj: Any) -> Self:
        """Return the options that a dict contains, after validating their values.

        Raises:
            pydantic.ValidationError: A value is not allowed.
        """

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """Return a copy of the options with changed values, which are not validated."""

    def to_specs(self) -> list[CompileSpec]:
        """Return the compile specs (key, bytes) with the options, which `preprocess` receives and the `.pte` stores."""

    @classmethod
    def from_specs(cls, specs: Sequence[CompileSpec]) -> Self:
        """Return the options that `to_specs` wrote into compile specs."""
