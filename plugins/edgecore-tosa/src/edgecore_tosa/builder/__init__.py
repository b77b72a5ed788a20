"""The kit of the rows in `operators`: the table, the builder that writes a graph, and integer functions by lookup."""
