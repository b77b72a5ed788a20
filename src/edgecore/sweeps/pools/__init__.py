"""Pools, which run the steps of a sweep in processes: on this machine, or on a Ray cluster."""
