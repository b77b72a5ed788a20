"""Tokenizers of all formats behind one interface."""
