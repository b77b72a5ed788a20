"""Tokenize texts with tokenizers of all supported formats, behind one interface."""
