"""The flatbuffer tables of a blob as dataclasses."""
