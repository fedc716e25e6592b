"""Encoders of texts: hashed n-grams, and models of sentence-transformers."""
