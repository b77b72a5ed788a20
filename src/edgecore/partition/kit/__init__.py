"""The kit from which backends make partitioners: operator tables, constraints, and views of partitions."""
