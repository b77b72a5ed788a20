"""The network of `quantized_network.py`, compiled once for all tests of recipes and calibration."""

import pytest
from quantized_network import SAMPLES, quantized


@pytest.fixture(scope="session")
def program():
    return quantized(SAMPLES)
