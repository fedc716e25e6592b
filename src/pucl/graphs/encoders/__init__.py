"""Encoders of graphs: GIN, its batch norm for folded graphs, and the heads of InfoGraph."""
