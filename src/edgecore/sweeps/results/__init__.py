"""The results of a sweep: its rows, the display on the terminal, the page, and the difference from another sweep."""
