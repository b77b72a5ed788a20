"""Passes over a subgraph, between lowering and writing the blob; each file is named after its pass."""
