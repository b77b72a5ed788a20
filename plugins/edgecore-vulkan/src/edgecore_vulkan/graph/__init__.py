"""The graph of operator calls, the form of a partition between edge dialect and blob, and the lowering to it."""
