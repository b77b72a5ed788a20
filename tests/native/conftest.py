from __future__ import annotations

import pytest
from embedding import Digits, make_digits, shared_folder


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Digits:
    folder = shared_folder(tmp_path_factory, "digits", make_digits)
    return Digits(folder / "digits.pte", (folder / "image.bin").read_bytes(), (folder / "output.bin").read_bytes())
