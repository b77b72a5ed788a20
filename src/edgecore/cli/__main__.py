"""`python -m edgecore.cli`: the same as the `edgecore` command."""

from edgecore.cli import main

main()
