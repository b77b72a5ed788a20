"""The text of an answer in pieces, which ends before a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from edgecore_llm.tokenizer.stream import TextStream


class StopText:
    """Text in pieces up to the first of some stop strings.

    The end of the text so far that may be the begin of a stop string is held back.

    Args:
        stops: The strings; the text ends before the one that is complete first, and of several before the longest. So
            the result is the same however a text is divided into pieces.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.is_stopped = False

    def push(self, text: str) -> str:
        """Take a piece, and return the text that is known to come before any stop string."""
        if self.is_stopped:
            return ""
        self._held += text
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.is_stopped = True
            _, start = min(ends)
            return self._take(start)
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for size in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-size:]) for stop in self._stops):
                return self._take(len(self._held) - size)
        return self._take(len(self._held))

    def finish(self) -> str:
        """Return what was held back."""
        return "" if self.is_stopped else self._take(len(self._held))

    def _take(self, count: int) -> str:
        taken, self._held = self._held[:count], self._held[count:]
        return taken


def answer_text(tokens: Iterable[int], stream: TextStream, stops: Sequence[str] = ()) -> Iterator[str]:
    """Yield the text of tokens in pieces of whole characters, and end before a stop string.

    No further token is taken after a stop string.
    """
    stop = StopText(stops)
    for token in tokens:
        if text := stop.push(stream.push(token)):
            yield text
        if stop.is_stopped:
            return
    if text := stop.push(stream.finish()) + stop.finish():
        yield text
