"""The flatbuffer in a blob: its tables as dataclasses."""
