"""Cut the streamed text of an answer before a stop string."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from edgecore_llm.tokenizer.stream import TextStream


class StopText:
    """Cuts a streamed text before its first stop string.

    If the text so far ends with the beginning of a stop string, that part is held back until later pieces decide.

    Args:
        stops: The text ends before the first stop string to be complete, or before the longest if several are complete
            at once. So the result does not depend on how the text is divided into pieces.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.is_stopped = False

    def push(self, text: str) -> str:
        """Add a piece of text, and return the text that cannot be part of a stop string."""
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
        """Return the text that was held back, because the stream ends without a stop string."""
        return "" if self.is_stopped else self._take(len(self._held))

    def _take(self, count: int) -> str:
        text, self._held = self._held[:count], self._held[count:]
        return text


def answer_text(tokens: Iterable[int], stream: TextStream, stops: Sequence[str] = ()) -> Iterator[str]:
    """Yield the text of tokens in pieces of whole characters, up to the first stop string.

    After a stop string, no further token is requested.
    """
    stop = StopText(stops)
    for token in tokens:
        if text := stop.push(stream.push(token)):
            yield text
        if stop.is_stopped:
            return
    if text := stop.push(stream.finish()) + stop.finish():
        yield text
