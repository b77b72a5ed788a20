"""The kit from which backends make partitioners: capability tables, constraints of operators, views of partitions."""
