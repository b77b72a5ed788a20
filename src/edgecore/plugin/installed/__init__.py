"""Installed packages: their entry points, files, kernel libraries and manifests."""
