"""The display of a sweep on the terminal: the time left, and nothing live without a terminal."""

from __future__ import annotations

from rich.console import Console

from edgecore.sweeps.results.display import Display


def shown(display: Display) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(display._lines())
    return captured.get()


def test_the_time_left_follows_from_earlier_results_and_then_from_the_steps_done(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 110.0)
    display = Display()
    display.since, display.seconds, display.left = 100.0, 0.0, 4
    assert "0 done, 0 not ok, 4 left\n" in shown(display), "nothing is known"
    display.seconds = 60.0
    assert "0 done, 0 not ok, 4 left, about 50 s\n" in shown(display)
    display.done, display.left = 2, 30
    assert "2 done, 0 not ok, 30 left, about 2 min 30 s\n" in shown(display)


def test_a_display_without_a_terminal_prints_nothing_live(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Display() as display:
        display.done, display.left = 1, 1
    assert capsys.readouterr() == ("", "")
