"""`python -m edgecore`: the same as the `edgecore` command."""

from edgecore.cli import main

main()
