"""Encoders of images: residual networks, and any module of the user."""
