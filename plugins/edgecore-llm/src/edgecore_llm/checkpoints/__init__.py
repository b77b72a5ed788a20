"""Readers of checkpoints, which present tensors under Hugging Face's names for `edgecore_llm.model.load`."""
