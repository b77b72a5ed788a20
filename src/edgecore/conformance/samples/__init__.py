"""Calls of operators, small networks and models with state, on which the checks run a backend."""
