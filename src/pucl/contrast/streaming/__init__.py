"""The same averages without ever holding the anchors x unlabelled matrix.

`choice` picks the way, and each has a file: `exponentials` and `softplus` are summed a tile at a time, `rows` makes
whole rows of nodes against graphs, and `blocks` takes any correction. They share `tiles`, `left_out` (which pairs do
not count), `totals` (what is known without a pass over the tiles), `cutoff` and `gradients`.
"""

from pucl.contrast.streaming.choice import NODES_PAY_FROM, PAYS_FROM, stream, streaming_pays
from pucl.contrast.streaming.tiles import TILE
from pucl.contrast.streaming.totals import pair_counts

__all__ = ["NODES_PAY_FROM", "PAYS_FROM", "TILE", "pair_counts", "stream", "streaming_pays"]
