"""Weights of few bits: recipes that rewrite weights, and the precision in which a model stores each weight."""
