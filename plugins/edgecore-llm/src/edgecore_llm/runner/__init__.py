"""Run exported files: sessions, streamed text, statistics. Importing this package does not import torch."""
