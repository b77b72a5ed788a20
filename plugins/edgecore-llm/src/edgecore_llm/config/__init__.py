"""The configuration of an export, with the sections and keys of `executorch.extension.llm.export`."""
