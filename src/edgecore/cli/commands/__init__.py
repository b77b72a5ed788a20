"""The commands of `edgecore`: one module for each command."""
