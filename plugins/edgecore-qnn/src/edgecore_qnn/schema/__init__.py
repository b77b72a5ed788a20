"""The header of blobs: its flatbuffer schema and dataclasses of its tables."""
