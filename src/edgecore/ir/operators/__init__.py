"""Operators that edgecore defines: attention, integers, packed weights, functional forms of custom operators."""
