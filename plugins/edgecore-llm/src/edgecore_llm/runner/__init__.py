"""Run exported language models: sessions, streamed text, statistics. Importing this package does not import torch."""
