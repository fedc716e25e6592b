"""Pictures and graphs, each small enough that thousands fit into a page."""
