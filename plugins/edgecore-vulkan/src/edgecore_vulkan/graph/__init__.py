"""The graph of operator calls between edge dialect and blob, and the lowering that creates it."""
