"""The page of special values lists every difference from PyTorch; with EDGECORE_WRITE_PAGES=1 this test writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgecore.conformance.special_values import measure as special_values
from edgecore_vulkan import native_library
from edgecore_vulkan.devices import NoDevice, list_devices

PAGE = Path(__file__).parents[1] / "docs" / "special-values.md"


def test_the_page_lists_every_difference_from_pytorch():
    try:
        devices = list_devices(native_library())
    except NoDevice as error:
        pytest.skip(str(error))
    name = next(device.name for device in devices if device.is_default)
    if not name.startswith("llvmpipe"):
        pytest.skip(f"the page is about lavapipe, not {name}")
    special_values.check_page(PAGE, special_values.measure("vulkan"))
