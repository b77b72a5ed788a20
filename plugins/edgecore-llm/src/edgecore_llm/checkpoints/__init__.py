"""Readers of checkpoints. Each presents its tensors under the names of Hugging Face, as `edgecore_llm.model.load` wants."""
