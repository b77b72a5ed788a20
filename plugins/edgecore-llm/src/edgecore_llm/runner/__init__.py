"""Run exported files: sessions, text in pieces, statistics. Importing it imports no torch."""
