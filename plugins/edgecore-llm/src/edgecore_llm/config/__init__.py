"""The configuration of an export, with the same sections and keys as `executorch.extension.llm.export`."""
