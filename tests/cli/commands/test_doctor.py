"""`edgecore doctor` of a backend that is not installed; `tests/plugin/diagnosis/test_doctor.py` has its findings."""

from __future__ import annotations

from command_line import one_sentence


def test_doctor_of_a_backend_that_is_not_installed_says_so_in_one_sentence(edgecore):
    one_sentence(edgecore("doctor", "foo"), "no package is known for it")
