"""Operators that edgecore defines: attention, integer arithmetic, packed weights, forms of custom operators."""
