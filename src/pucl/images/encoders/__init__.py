"""Images to vectors: residual networks, modules of users, and the heads between them and a loss."""
