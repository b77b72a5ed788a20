"""Readers of checkpoints in several formats, which return tensors under Hugging Face's names for `model.load`."""
