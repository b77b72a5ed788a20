"""Lower a partition to a graph of operator calls, its form between the edge dialect and the blob."""
