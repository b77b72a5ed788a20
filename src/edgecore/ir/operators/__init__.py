"""Operators that edgecore defines: attention, integer arithmetic, packed weights, functional forms of custom operators."""
