"""Weights with few bits: the rewrites of recipes, and the precision in which a model stores each weight."""
