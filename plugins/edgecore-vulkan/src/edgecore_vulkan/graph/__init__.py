"""Lower a partition to a graph of operator calls, the representation between the edge dialect and the blob."""
