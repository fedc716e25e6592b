r"""The same averages without ever holding the anchors x unlabelled matrix.

Uniform and tilted averages of exponentials need two numbers per anchor at the most,

.. math:: \log A = \mathrm{LSE}_i\big((1 + \beta)\, u_i\big) - \mathrm{LSE}_i\big(\beta\, u_i\big),
          \qquad \mathrm{LSE}_i(0\, u_i) = \log N,

so the logits are made a tile at a time, in cache, summed and forgotten; the backward pass makes them again.
Memory is linear in the number of anchors. In the matrix of all views against all views a tile is also its own
mirror image's, so only those on and above the diagonal are made.

Jensen-Shannon's averages of softplus are two such sums as well, one of them weighted:

.. math:: A = \frac{\sum_i e^{\beta u_i}\, \mathrm{softplus}(u_i)}{\sum_i e^{\beta u_i}}, \qquad
          \frac{dA}{du_i} = w_i\, \bigl(\mathrm{sigmoid}(u_i) + \beta\, (\mathrm{softplus}(u_i) - A)\bigr).

Of nodes against graphs there are many rows, each short, and a node's positive is among its logits: there whole rows are
made at a time, and their slopes kept for the backward pass as long as they are not too many.

What is no such average (Ring's ranks, a set of samples for each anchor) goes a block of rows at a time.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from pucl.contrast.correction import Correction
from pucl.contrast.objectives import InfoNCE, JensenShannon, Objective, Summary, summarise
from pucl.contrast.pairs import Pairs
from pucl.shapes import Float, Tensor

TILE = 512  # At most; a tile of 512 x 512 float32 numbers, 1 MiB, stays in cache.
BLOCK = 1 << 21  # Logits in a block of rows: 8 MiB of float32.
PAYS_FROM = 1 << 17  # Logits from which streaming is faster than holding them; `pucl bench loss` shows it.
ROWS_PAY_FROM = 1 << 26  # The same for what is streamed by rows: slower, but 256 MiB a matrix is enough.
WHOLE_ROWS = 1 << 17  # Logits in a tile of whole rows: two buffers of 512 KiB of float32 stay in cache.
KEPT = 1 << 26  # Bytes of slopes that may wait for the backward pass; 131,000 nodes with 128 graphs.
FEW_DIAGONALS = 16  # Up to so many in a tile, filling them is quicker than comparing ids.
SAFE_EXPONENT = 40.0  # exp(-40) to exp(40), their sums and their quotients are all ordinary float32 numbers.


def stream(pairs: Pairs, correction: Correction, objective: Objective) -> Summary:
    """What `summarise` gives of ``pairs.comparison()``, in memory linear in the number of anchors."""
    if correction.tilt is None or not _by_tiles(pairs, correction, objective):
        return _stream_rows(pairs, correction, objective)
    if isinstance(objective, JensenShannon):
        return _stream_softplus(pairs, correction, correction.tilt)
    return _stream_tiles(pairs, correction, correction.tilt)


def streaming_pays(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    """Whether the matrix of logits is so large that it is better made in parts."""
    anchors, unlabelled = pairs.shape
    return anchors * unlabelled >= (PAYS_FROM if _by_tiles(pairs, correction, objective) else ROWS_PAY_FROM)


def _by_tiles(pairs: Pairs, correction: Correction, objective: Objective) -> bool:
    tilted = correction.tilt is not None and type(correction).log_weights is Correction.log_weights
    return tilted and isinstance(objective, InfoNCE | JensenShannon) and pairs.shared


def _stream_rows(pairs: Pairs, correction: Correction, objective: Objective) -> Summary:
    """A block of rows at a time, each made again in the backward pass."""
    # The averages of any correction are too varied to be one operator: a compiled step is interrupted here.
    apply = torch.compiler.disable(_RowAverages.apply)
    average, count, similarity = apply(pairs.query, pairs.key, pairs, correction, objective)
    return _summary(pairs, average, count, similarity)


class _RowAverages(torch.autograd.Function):
    """Averages over the unlabelled, by blocks of rows.

    Nothing allocated for a block outlives it, apart from what was set aside before the first: otherwise the
    allocator of the C library would find no room between the remains and ask for ever more.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, pairs: Pairs, correction: Correction, objective: Objective
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(query, key)
        ctx.settings = pairs, correction, objective
        average, count, met = query.new_empty(len(query)), query.new_empty(len(query)), query.new_zeros(2)
        for rows in _row_blocks(pairs):
            comparison = pairs.rows(rows).comparison()
            summary = summarise(comparison, correction, objective)
            average[rows], count[rows] = summary.unlabelled, summary.count
            samples = comparison.count.sum()
            met += torch.stack([samples, summary.unlabelled_similarity * samples])
        similarity = met[1] / met[0].clamp_min(1)
        ctx.mark_non_differentiable(count, similarity)
        return average, count, similarity

    @staticmethod
    @once_differentiable  # A second derivative would miss what happens inside: better none.
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (query, key), (pairs, correction, objective) = ctx.saved_tensors, ctx.settings
        of_query, of_key = ctx.needs_input_grad[:2]
        query_gradient, key_gradient = torch.zeros_like(query), torch.zeros_like(key)
        for rows in _row_blocks(pairs):
            block = pairs.rows(rows)
            leaves = block.query.detach().requires_grad_(), block.key.detach().requires_grad_()
            with torch.enable_grad(), torch.autocast(query.device.type, enabled=False):
                comparison = replace(block, query=leaves[0], key=leaves[1]).comparison()
                average = summarise(comparison, correction, objective).unlabelled
            of_block = torch.autograd.grad(average, leaves, gradients[0][rows])
            query_gradient[rows] = of_block[0]
            (key_gradient if pairs.shared else key_gradient[rows]).add_(of_block[1])
        return query_gradient if of_query else None, key_gradient if of_key else None, None, None, None


def _row_blocks(pairs: Pairs) -> list[slice]:
    anchors, unlabelled = pairs.shape
    height = max(1, BLOCK // unlabelled)
    return [slice(start, min(start + height, anchors)) for start in range(0, anchors, height)]


def _stream_tiles(pairs: Pairs, correction: Correction, tilt: float) -> Summary:
    """A tile at a time: the two sums of exponentials that a tilted average is made of."""
    query, key = pairs.query, pairs.key
    query_ids, key_ids, mask = _left_out(pairs)
    count, logit_sum = _pair_totals(query.detach(), key.detach(), pairs.period, query_ids, key_ids, mask)
    scales = [1.0 + tilt, tilt] if tilt else [1.0]
    bounded = pairs.bound * scales[0] <= SAFE_EXPONENT
    # Without a bound every row is shifted by its own maximum, and a mirror image has another one.
    symmetric = pairs.symmetric and bounded and mask is None
    sums = _log_sums(query, key, scales, symmetric, bounded, pairs.period, query_ids, key_ids, mask)
    highest = sums[-1].detach()  # Its share of the sums cancels, and so do its gradients.
    average = highest + sums[0] - (sums[1] if tilt else count.clamp_min(1).log())
    return _summary(pairs, average, correction.count(count, pairs.drawn), _mean_similarity(pairs, logit_sum, count))


def _stream_softplus(pairs: Pairs, correction: Correction, tilt: float) -> Summary:
    """A tile at a time: the weighted sum of softplus, and that of the weights."""
    query, key = pairs.query, pairs.key
    query_ids, key_ids, mask = _left_out(pairs)
    if pairs.own is not None and len(key) <= TILE:
        wanted = torch.is_grad_enabled() and (query.requires_grad or key.requires_grad)
        keep = wanted and len(query) * len(key) * query.element_size() <= KEPT
        rows = _softplus_rows_operator if torch.compiler.is_compiling() else _SoftplusRows.apply
        average, positive, count, logit_sum, _ = rows(  # type: ignore[no-untyped-call]
            query, key, pairs.own, tilt, query_ids, key_ids, mask, keep
        )
        similarity = _mean_similarity(pairs, logit_sum, count)
        return _summary(pairs, average, correction.count(count, pairs.drawn), similarity, positive[:, None])
    count, logit_sum = _pair_totals(query.detach(), key.detach(), pairs.period, query_ids, key_ids, mask)
    bounded = pairs.bound * tilt <= SAFE_EXPONENT
    average = _softplus_averages(query, key, count, tilt, bounded, pairs.period, query_ids, key_ids, mask)[0]
    return _summary(pairs, average, correction.count(count, pairs.drawn), _mean_similarity(pairs, logit_sum, count))


def _mean_similarity(pairs: Pairs, logit_sum: Float[Tensor, ""], count: Float[Tensor, " anchor"]) -> Float[Tensor, ""]:
    """Of the pairs that count; 0 where there are none, and of the sum nothing is left but its rounding."""
    pairs_met = count.sum()
    return torch.where(pairs_met > 0, logit_sum / pairs_met.clamp_min(1), 0.0) * pairs.temperature


def _left_out(pairs: Pairs) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Ids of both sides or a mask, not both."""
    if pairs.mask is None or pairs.query_ids is None or pairs.key_ids is None:
        return pairs.query_ids, pairs.key_ids, pairs.mask
    return None, None, pairs.counting()


def pair_counts(pairs: Pairs) -> Float[Tensor, " anchor"]:
    """How many unlabelled samples each anchor meets."""
    if pairs.mask is None and pairs.shared:
        count: Tensor
        query, key = pairs.query.detach()[:, :0], pairs.key.detach()[:, :0]  # Of the logits nothing is asked.
        count, _ = _pair_totals(query, key, pairs.period, pairs.query_ids, pairs.key_ids, None)
        return count
    counting = pairs.counting()
    if counting is None:
        return pairs.query.new_full((len(pairs.query),), pairs.shape[1])
    return counting.sum(dim=1).to(pairs.query.dtype)


def _summary(
    pairs: Pairs,
    average: Float[Tensor, " anchor"],
    count: Float[Tensor, " anchor"],
    similarity: Float[Tensor, ""],
    positive: Float[Tensor, "anchor positive"] | None = None,
) -> Summary:
    return Summary(
        positive=pairs.positives() if positive is None else positive,
        positive_mask=pairs.positive_mask,
        unlabelled=average,
        count=count,
        lowest=pairs.lowest,
        temperature=pairs.temperature,
        unlabelled_similarity=similarity,
    )


# The passes over the tiles are operators of their own, so that torch.compile leaves them whole.


@torch.library.custom_op("pucl::log_sums", mutates_args=())
def _log_sums(
    query: torch.Tensor,
    key: torch.Tensor,
    scales: list[float],
    symmetric: bool,
    bounded: bool,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """Log sum_j exp(scale * (<query_i, key_j> - highest_i)) as [scale, anchor], and below them highest_i.

    The highest logit of a row is not added to its sums: where they are subtracted from each other, all digits would be
    lost to it. With `bounded` it is not looked for, and 0 stands in its place. The sums of an anchor that meets nobody
    are given as 0.
    """
    sums = query.new_zeros(len(scales), len(query))
    highest = query.new_zeros(len(query)) if bounded else query.new_full((len(query),), -math.inf)
    buffer, ones = _tile_buffer(query, key, needed=len(scales) > 1), query.new_ones(TILE)
    for rows, columns, logits in _tiles(query, key, symmetric, period, query_ids, key_ids, mask):
        if not bounded:  # Keep what was summed so far relative to the highest logit so far.
            before = highest[rows].clone()
            highest[rows] = torch.maximum(before, logits.amax(dim=1))
            shift = highest[rows].masked_fill(highest[rows] == -math.inf, 0.0)
            logits.sub_(shift[:, None])
        for s, scale in enumerate(scales):
            last = s == len(scales) - 1  # Its exponentials may take the place of the logits.
            terms = _exponentials(logits, scale, out=logits if last else _view(buffer, logits.shape))
            if not bounded:
                sums[s, rows] *= torch.exp(scale * (before - shift))
            # Products with ones: the sums along rows and down columns at the same pace.
            sums[s, rows].addmv_(terms, ones[: terms.shape[1]])
            if symmetric and rows != columns:
                sums[s, columns].addmv_(terms.T, ones[: terms.shape[0]])
    highest.masked_fill_(highest == -math.inf, 0.0)
    return torch.cat([sums.log().masked_fill_(sums == 0, 0.0), highest[None]])


@torch.library.custom_op("pucl::log_sums_backward", mutates_args=())
def _log_sums_backward(
    gradient: torch.Tensor,
    log_sums: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    scales: list[float],
    symmetric: bool,
    bounded: bool,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
    of_query: bool,
    of_key: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of the queries and keys; with `symmetric` the first holds both."""
    query_gradient = torch.zeros_like(query) if of_query else query.new_empty(0)
    key_gradient = torch.zeros_like(key) if of_key and not symmetric else key.new_empty(0)
    log_sums, highest = log_sums[:-1], log_sums[-1]
    # d log_sum_i / d logit_ij = scale * exp(scale * (logit_ij - highest_i) - log_sum_i): `outer` is the first factor.
    outer = gradient[:-1] * gradient.new_tensor(scales)[:, None]
    if bounded:
        outer = outer * torch.exp(-log_sums)
    terms_buffer = _tile_buffer(query, key, needed=len(scales) > 1)
    outer_buffer = _tile_buffer(query, key, needed=symmetric)
    for rows, columns, logits in _tiles(query, key, symmetric, period, query_ids, key_ids, mask):
        slopes = logits
        if not bounded:
            logits.sub_(highest[rows, None])
        for s, scale in enumerate(scales):
            last = s == len(scales) - 1
            terms = logits if last else _view(terms_buffer, logits.shape)
            if bounded:
                terms = _exponentials(logits, scale, out=terms)
            else:
                terms = torch.sub(torch.mul(logits, scale, out=terms), log_sums[s, rows, None], out=terms).exp_()
            if symmetric:
                terms.mul_(
                    torch.add(outer[s, rows, None], outer[s, None, columns], out=_view(outer_buffer, terms.shape))
                )
            else:
                terms.mul_(outer[s, rows, None])
            slopes = terms if s == 0 else slopes.add_(terms)
        if of_query:
            query_gradient[rows].addmm_(slopes, key[columns])
        if symmetric and rows != columns:
            query_gradient[columns].addmm_(slopes.T, query[rows])
        if of_key and not symmetric:
            key_gradient[columns].addmm_(slopes.T, query[rows])
    return query_gradient, key_gradient


@torch.library.custom_op("pucl::softplus_averages", mutates_args=())
def _softplus_averages(
    query: torch.Tensor,
    key: torch.Tensor,
    count: torch.Tensor,
    tilt: float,
    bounded: bool,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> torch.Tensor:
    """The average of softplus(<query_i, key_j>) with weights of exp(tilt * logit), 0 for an anchor that meets nobody.

    Below the averages, as [3, anchor], log sum_j exp(tilt * (logit_ij - highest_i)) and highest_i, as in `_log_sums`;
    both are 0 without a tilt.
    """
    sums = query.new_zeros(2, len(query))
    highest = query.new_zeros(len(query)) if bounded else query.new_full((len(query),), -math.inf)
    buffers, ones = [_tile_buffer(query, key) for _ in range(2)], query.new_ones(TILE)
    for rows, _, logits in _tiles(query, key, False, period, query_ids, key_ids, mask):
        out, spare = (_view(buffer, logits.shape) for buffer in buffers)
        values, weigh = _softplus(logits, out=out, spare=spare), ones[: logits.shape[1]]
        if tilt:
            if not bounded:  # Keep what was summed so far relative to the highest logit so far.
                before = highest[rows].clone()
                highest[rows] = torch.maximum(before, logits.amax(dim=1))
                shift = highest[rows].masked_fill(highest[rows] == -math.inf, 0.0)
                logits.sub_(shift[:, None])
                sums[:, rows] *= torch.exp(tilt * (before - shift))
            weights = logits.mul_(tilt).exp_() if bounded else _weights(logits.mul_(tilt))
            sums[1, rows].addmv_(weights, weigh)
            values.mul_(weights)
        sums[0, rows].addmv_(values, weigh)
    if not tilt:
        return torch.stack([sums[0] / count.clamp_min(1), sums[1], sums[1]])
    highest.masked_fill_(highest == -math.inf, 0.0)
    total = torch.where(sums[1] == 0, 1.0, sums[1])
    return torch.stack([sums[0] / total, total.log(), highest])


@torch.library.custom_op("pucl::softplus_averages_backward", mutates_args=())
def _softplus_averages_backward(
    gradient: torch.Tensor,
    averages: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    count: torch.Tensor,
    tilt: float,
    bounded: bool,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
    of_query: bool,
    of_key: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of the queries and keys."""
    query_gradient = torch.empty_like(query) if of_query else query.new_empty(0)
    key_gradient = torch.zeros_like(key) if of_key else key.new_empty(0)
    average, log_sum, highest = averages
    outer = gradient[0] if tilt else gradient[0] / count.clamp_min(1)
    buffers = [_tile_buffer(query, key, needed=bool(tilt)) for _ in range(2)]
    for rows, columns, logits in _tiles(query, key, False, period, query_ids, key_ids, mask):
        if tilt:
            values, steps = (_view(buffer, logits.shape) for buffer in buffers)
            _softplus(logits, out=values, spare=steps).sub_(average[rows, None])
            _sigmoid(logits, out=steps).add_(values, alpha=tilt)
            if not bounded:
                logits.sub_(highest[rows, None])
            exponents = logits.mul_(tilt).sub_(log_sum[rows, None])
            slopes = (exponents.exp_() if bounded else _weights(exponents)).mul_(steps)
        else:
            slopes = _sigmoid(logits, out=logits)
        slopes.mul_(outer[rows, None])
        if of_query:  # Tiles of the same rows follow each other: the first finds nothing to add to.
            query_gradient[rows].addmm_(slopes, key[columns], beta=0 if columns.start == 0 else 1)
        if of_key:
            key_gradient[columns].addmm_(slopes.T, query[rows])
    return query_gradient, key_gradient


def _softplus_rows(
    query: torch.Tensor,
    key: torch.Tensor,
    own: torch.Tensor,
    tilt: float,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
    keep: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What `_softplus_averages` and `_pair_totals` give, and <query_i, key_own(i)>, of whole rows at a time.

    Returns the averages, the logits of the positives, how many keys each query meets, and the sum of all their logits;
    with `keep` also the slopes of the averages (without a tilt, of the sums), tile after tile, as [key, anchor].
    """
    average, positive = query.new_empty(len(query)), query.new_empty(len(query))
    count, total = query.new_full((len(query),), len(key)), query.new_zeros(())
    slopes = query.new_empty(len(query) * len(key) if keep else 0)
    spare = _rows_buffer(query, key, 3 if tilt else 1)
    place = _one_place(query_ids, key_ids, mask)
    for rows, logits in _row_tiles(query, key, slopes):
        torch.gather(logits, 0, own[None, rows], out=positive[None, rows])
        left = place[None, rows] if place is not None else _left_of(rows, query_ids, key_ids, mask)
        if left is not None:
            count[rows] -= 1 if place is not None else left.sum(dim=0)
        _leave_out(logits, left, 0.0)
        total += logits.sum()
        _leave_out(logits, left, -math.inf)
        average[rows] = _slopes(logits, tilt, spare)
    if not tilt:
        average /= count.clamp_min(1)
    return average, positive, count, total, slopes


def _softplus_rows_backward(
    of_average: torch.Tensor | None,
    of_positive: torch.Tensor | None,
    count: torch.Tensor,
    slopes: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    own: torch.Tensor,
    tilt: float,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
    of_query: bool,
    of_key: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients of the queries and keys: those of averages and positives go through the same two products."""
    query_gradient = torch.empty_like(query) if of_query else query.new_empty(0)
    key_gradient = torch.zeros_like(key) if of_key else key.new_empty(0)
    outer = torch.zeros_like(count) if of_average is None else of_average
    outer = outer if tilt else outer / count.clamp_min(1)
    spare = _rows_buffer(query, key, 3 if tilt else 1)
    kept = len(slopes) > 0
    place = None if kept else _one_place(query_ids, key_ids, mask)
    for rows, tile in _row_tiles(query, key, slopes, made=kept):
        if kept:
            steps = torch.mul(tile, outer[None, rows], out=_view(spare[0], tile.shape))
        else:
            left = place[None, rows] if place is not None else _left_of(rows, query_ids, key_ids, mask)
            _leave_out(tile, left, -math.inf)
            _slopes(tile, tilt, spare)
            steps = tile.mul_(outer[None, rows])
        if of_positive is not None:
            steps.scatter_add_(0, own[None, rows], of_positive[None, rows])
        if of_query:
            torch.mm(steps.T, key, out=query_gradient[rows])
        if of_key:
            key_gradient.addmm_(steps, query[rows])
    return query_gradient, key_gradient


_softplus_rows_operator = torch.library.custom_op("pucl::softplus_rows", _softplus_rows, mutates_args=())
_softplus_rows_backward_operator = torch.library.custom_op(
    "pucl::softplus_rows_backward", _softplus_rows_backward, mutates_args=()
)


def _row_tiles(
    query: torch.Tensor, key: torch.Tensor, kept: torch.Tensor, *, made: bool = False
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Rows and their logits as [key, anchor], each in its place in `kept`, or all in one buffer if that is empty.

    So turned, half the keys are one half of the tile, and a number for each anchor is a row. With `made` the tiles are
    there already.
    """
    buffer, height = _rows_buffer(query, key, 0 if len(kept) else 1), max(1, WHOLE_ROWS // len(key))
    height -= height % 64 if height > 64 else 0  # Rows of a tile then begin where vector registers like it.
    for start in range(0, len(query), height):
        rows = slice(start, min(start + height, len(query)))
        tile = _view(kept[start * len(key) :] if len(kept) else buffer[0], (len(key), rows.stop - start))
        yield rows, tile if made else torch.mm(key, query[rows].T, out=tile)


def _rows_buffer(query: torch.Tensor, key: torch.Tensor, count: int) -> torch.Tensor:
    return query.new_empty(count, min(max(WHOLE_ROWS, len(key)), len(query) * len(key)))


def _one_place(
    query_ids: torch.Tensor | None, key_ids: torch.Tensor | None, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """The one key that each query is not to meet, if there is one for each and no more."""
    if mask is not None or query_ids is None or key_ids is None or key_ids.device.type != "cpu":
        return None
    if torch.equal(key_ids, torch.arange(len(key_ids))):  # Graphs by their numbers.
        return query_ids if int(query_ids.min()) >= 0 and int(query_ids.max()) < len(key_ids) else None
    place = _place(query_ids, key_ids)
    return None if place is None or int(place.min()) < 0 else place


def _left_of(
    rows: slice, query_ids: torch.Tensor | None, key_ids: torch.Tensor | None, mask: torch.Tensor | None
) -> torch.Tensor | None:
    """True where a pair does not count, as [key, anchor]; None if all do."""
    if mask is not None:
        return ~mask[rows].T
    if query_ids is not None and key_ids is not None:
        return query_ids[None, rows] == key_ids[:, None]
    return None


def _leave_out(logits: torch.Tensor, left: torch.Tensor | None, value: float) -> None:
    """Put this value where a pair does not count: at the places, or where it is true."""
    if left is None:
        return
    if left.dtype == torch.bool:
        logits.masked_fill_(left, value)
    else:
        logits.scatter_(0, left, value)


def _slopes(logits: torch.Tensor, tilt: float, spare: torch.Tensor) -> torch.Tensor:
    r"""The average for each column, or without a tilt the sum; in the place of the logits its slopes.

    Without a tilt a logarithm is taken of four terms at once, and from what the slopes need anyway: with
    v = sigmoid(-\|u\|), the smaller of sigmoid(u) and 1 - sigmoid(u),

    .. math:: \mathrm{softplus}(u) = \max(u, 0) - \log(1 - v), \qquad (1 - v)(1 - v') = 1 - (v + v' - v v').

    No digits are lost to this: where sigmoid(u) is so near to 1 that few of v are right, max(u, 0) is much larger.
    """
    first = _view(spare[0], logits.shape)
    if not tilt:
        total = torch.clamp(logits, min=0.0, out=first).sum(dim=0)
        limit = _limit(logits, 0.8)
        torch.threshold_(logits.clamp_(-limit, limit).sigmoid_(), 2 * math.exp(-limit), 0.0)
        one = logits.new_ones(())
        torch.minimum(torch.sub(one, logits, out=first), logits, out=first)
        left = len(first)
        for _ in range(2):
            half = (left + 1) // 2
            low, high = first[: left - half], first[half:left]
            low.addcmul_(low, high, value=-1.0).add_(high)
            left = half
        small, rest = first[:left], torch.sub(one, first[:left], out=first[left : 2 * left])
        small.add_(rest - 1.0)  # What was rounded off in 1 - v.
        return total.sub_(rest.log_().sub_(small).sum(dim=0))
    highest = logits.amax(dim=0)
    highest.masked_fill_(highest == -math.inf, 0.0)
    second, third = (_view(buffer, logits.shape) for buffer in spare[1:])
    values, steps = _softplus(logits, out=first, spare=second), _sigmoid(logits, out=second)
    weights = _weights(logits.sub_(highest).mul_(tilt))
    total = weights.sum(dim=0)
    weights.mul_(torch.where(total == 0, 1.0, total).reciprocal_())
    average = torch.mul(weights, values, out=third).sum(dim=0)
    # The difference first: of a tilt times two large values no digits would be left for it.
    weights.mul_(steps.add_(values.sub_(average), alpha=tilt))
    return average


@torch.library.custom_op("pucl::pair_totals", mutates_args=())
def _pair_totals(
    query: torch.Tensor,
    key: torch.Tensor,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """How many keys each query meets, and the sum of all their logits, without a pass over the tiles."""
    if mask is not None:
        blocks = range(0, len(query), TILE)
        weight = [
            (mask[start : start + TILE].to(key.dtype) @ key * query[start : start + TILE]).sum() for start in blocks
        ]
        return mask.sum(dim=1).to(query.dtype), torch.stack(weight).sum()
    count = query.new_full((len(query),), len(key))
    total = query.sum(dim=0) @ key.sum(dim=0)
    if query_ids is None or key_ids is None:
        return count, total
    if period:
        views = [side.view(len(side) // period, period, side.shape[1]).sum(dim=0) for side in (query, key)]
        return count - len(key) // period, total - (views[0] * views[1]).sum()
    ids, group = torch.unique(key_ids, return_inverse=True)
    keys_of = torch.bincount(group, minlength=len(ids)).to(query.dtype)
    sum_of = key.new_zeros(len(ids), key.shape[1]).index_add_(0, group, key)
    place = torch.searchsorted(ids, query_ids).clamp_max(len(ids) - 1)
    known = ids[place] == query_ids
    # Queries are summed by id too, and those that no key has the id of, into a place of their own.
    queries_of = query.new_zeros(len(ids) + 1, query.shape[1])
    queries_of.index_add_(0, torch.where(known, place, len(ids)), query)
    return count - known.to(query.dtype) * keys_of[place], total - (queries_of[:-1] * sum_of).sum()


def _tiles(
    query: torch.Tensor,
    key: torch.Tensor,
    symmetric: bool,
    period: int,
    query_ids: torch.Tensor | None,
    key_ids: torch.Tensor | None,
    mask: torch.Tensor | None,
) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """Rows, columns and logits of every tile, pairs that do not count at -inf. The logits share one buffer."""
    # Where keys are few, a tile is the taller for it.
    row_blocks, column_blocks = _blocks(len(query), TILE * max(1, TILE // len(key))), _blocks(len(key), TILE)
    row_ranges, column_ranges = _id_ranges(query_ids, row_blocks), _id_ranges(key_ids, column_blocks)
    place = None if period else _place(query_ids, key_ids)
    buffer = _tile_buffer(query, key)
    for r, rows in enumerate(row_blocks):
        for c in range(r if symmetric else 0, len(column_blocks)):
            columns = column_blocks[c]
            logits = _view(buffer, (rows.stop - rows.start, columns.stop - columns.start))
            torch.mm(query[rows], key[columns].T, out=logits)
            if mask is not None:
                logits.masked_fill_(~mask[rows, columns], -math.inf)
            elif period and sum(logits.shape) <= FEW_DIAGONALS * period:
                first = (rows.start - columns.start + len(logits) - 1) % period - len(logits) + 1
                for diagonal in range(first, logits.shape[1], period):
                    logits.diagonal(diagonal).fill_(-math.inf)
            elif query_ids is not None and key_ids is not None:
                (row_low, row_high), (low, high) = row_ranges[r], column_ranges[c]
                if row_low > high or low > row_high:  # No pair here can have equal ids.
                    pass
                elif place is None:
                    logits.masked_fill_(query_ids[rows, None] == key_ids[None, columns], -math.inf)
                else:
                    here = (place[rows] - columns.start)[:, None]
                    elsewhere = (here < 0) | (here >= logits.shape[1])
                    taken = logits.new_full(here.shape, -math.inf).masked_fill_(elsewhere, 0.0)
                    logits.scatter_add_(1, here.masked_fill_(elsewhere, 0), taken)
            yield rows, columns, logits


def _blocks(length: int, most: int) -> list[slice]:
    """Parts of at most so many, of nearly the same length: a small rest would be slow for its size."""
    size = math.ceil(length / math.ceil(length / most))
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def _place(query_ids: torch.Tensor | None, key_ids: torch.Tensor | None) -> torch.Tensor | None:
    """The one key that each query is not to meet, -1 for none; None where there may be several.

    Comparing every id of one side with every id of the other takes as long as making the logits does.
    """
    if query_ids is None or key_ids is None or key_ids.device.type != "cpu":
        return None
    ids, order = key_ids.sort()
    if not bool((ids[1:] > ids[:-1]).all()):
        return None
    place = torch.searchsorted(ids, query_ids).clamp_max_(len(ids) - 1)
    return torch.where(ids[place] == query_ids, order[place], -1)


def _id_ranges(ids: torch.Tensor | None, blocks: list[slice]) -> list[tuple[float, float]]:
    """Least and greatest id of each block, where they can be read without waiting for a device."""
    if ids is None or ids.device.type != "cpu":
        return [(-math.inf, math.inf)] * len(blocks)
    return [(int(ids[block].min()), int(ids[block].max())) for block in blocks]


def _tile_buffer(query: torch.Tensor, key: torch.Tensor, *, needed: bool = True) -> torch.Tensor:
    return query.new_empty(min(TILE * TILE, len(query) * len(key)) if needed else 0)


def _view(buffer: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    return buffer[: shape[0] * shape[1]].view(shape[0], shape[1])


def _exponentials(logits: torch.Tensor, scale: float, *, out: torch.Tensor) -> torch.Tensor:
    return torch.exp(logits if scale == 1 else torch.mul(logits, scale, out=out), out=out)


# Logits without bound lead to numbers that processors and their libraries are slow with: what is too small to be an
# ordinary number, and what is made from it, takes up to 200 times as long. So exponents are cut off before, and what is
# left then is 0, as it is of pairs that do not count. (torch's own softplus is slow from -29 on, when the third power
# of an exponential is no ordinary number: it goes through log1p.)


def _softplus(logits: torch.Tensor, *, out: torch.Tensor, spare: torch.Tensor) -> torch.Tensor:
    r"""`objectives.softplus`, cut off at -85 in float32.

    max(x, 0) + log u + (e - (u - 1)), with e = exp(-\|x\|) and u = 1 + e; the last term is what was rounded off in u.
    """
    limit = _limit(logits, 0.98)
    torch.clamp(logits, -limit, limit, out=spare).abs_().neg_().exp_()
    torch.add(spare, 1.0, out=out)
    spare.sub_(out - 1.0)
    out.log_().add_(spare)
    torch.threshold_(out, 2 * math.exp(-limit), 0.0)
    return out.add_(torch.clamp(logits, min=0.0, out=spare))


def _sigmoid(logits: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """The slope of softplus, cut off at -57 in float32: it is multiplied with other small numbers."""
    limit = _limit(logits, 0.65)
    torch.sigmoid(torch.clamp(logits, -limit, limit, out=out), out=out)
    return torch.threshold_(out, 2 * math.exp(-limit), 0.0)


def _weights(exponents: torch.Tensor) -> torch.Tensor:
    """The exponentials of numbers of which the largest is about 0, in their place, cut off at -28 in float32."""
    limit = _limit(exponents, 0.32)
    return torch.threshold_(exponents.clamp_min_(-limit).exp_(), 2 * math.exp(-limit), 0.0)


def _limit(logits: torch.Tensor, share: float) -> float:
    """The size of an exponent that uses up this share of all there are below 0."""
    return -share * math.log(torch.finfo(logits.dtype).tiny)


@_log_sums.register_fake
def _(query: torch.Tensor, _key: torch.Tensor, scales: list[float], *_: Any) -> torch.Tensor:
    return query.new_empty(len(scales) + 1, len(query))


@_log_sums_backward.register_fake
def _(
    _gradient: torch.Tensor,
    _log_sums: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    _scales: list[float],
    symmetric: bool,
    _bounded: bool,
    _period: int,
    _query_ids: torch.Tensor | None,
    _key_ids: torch.Tensor | None,
    _mask: torch.Tensor | None,
    of_query: bool,
    of_key: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.empty_like(query) if of_query else query.new_empty(0),
        torch.empty_like(key) if of_key and not symmetric else key.new_empty(0),
    )


@_softplus_averages.register_fake
def _(query: torch.Tensor, *_: Any) -> torch.Tensor:
    return query.new_empty(3, len(query))


@_softplus_averages_backward.register_fake
def _(
    _gradient: torch.Tensor,
    _averages: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    *settings: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    of_query, of_key = settings[-2:]
    return (
        torch.empty_like(query) if of_query else query.new_empty(0),
        torch.empty_like(key) if of_key else key.new_empty(0),
    )


@_softplus_rows_operator.register_fake
def _(
    query: torch.Tensor, key: torch.Tensor, *settings: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    average, positive, count = (query.new_empty(len(query)) for _ in range(3))
    return average, positive, count, query.new_empty(()), query.new_empty(len(query) * len(key) if settings[-1] else 0)


@_softplus_rows_backward_operator.register_fake
def _(
    _of_average: torch.Tensor | None,
    _of_positive: torch.Tensor | None,
    _count: torch.Tensor,
    _slopes: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    *settings: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    of_query, of_key = settings[-2:]
    return (
        torch.empty_like(query) if of_query else query.new_empty(0),
        torch.empty_like(key) if of_key else key.new_empty(0),
    )


@_pair_totals.register_fake
def _(query: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return query.new_empty(len(query)), query.new_empty(())


def _remember(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    query, key, ctx.scales, ctx.symmetric, ctx.bounded, ctx.period, query_ids, key_ids, mask = inputs
    ctx.save_for_backward(output, query, key, query_ids, key_ids, mask)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    output, query, key, query_ids, key_ids, mask = ctx.saved_tensors
    of_query, of_key = ctx.needs_input_grad[:2]
    settings = ctx.scales, ctx.symmetric, ctx.bounded, ctx.period, query_ids, key_ids, mask
    query_gradient, key_gradient = _log_sums_backward(gradient, output, query, key, *settings, of_query, of_key)
    return (
        query_gradient if of_query else None,
        key_gradient if of_key and not ctx.symmetric else None,
        *[None] * len(settings),
    )


_log_sums.register_autograd(_backward, setup_context=_remember)


def _remember_softplus(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    query, key, count, ctx.tilt, ctx.bounded, ctx.period, query_ids, key_ids, mask = inputs
    ctx.save_for_backward(output, query, key, count, query_ids, key_ids, mask)


def _softplus_backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    output, query, key, count, query_ids, key_ids, mask = ctx.saved_tensors
    of_query, of_key = ctx.needs_input_grad[:2]
    settings = count, ctx.tilt, ctx.bounded, ctx.period, query_ids, key_ids, mask
    query_gradient, key_gradient = _softplus_averages_backward(
        gradient, output, query, key, *settings, of_query, of_key
    )
    return query_gradient if of_query else None, key_gradient if of_key else None, *[None] * len(settings)


_softplus_averages.register_autograd(_softplus_backward, setup_context=_remember_softplus)


def _remember_rows(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    query, key, own, ctx.tilt, query_ids, key_ids, mask, _ = inputs
    _, _, count, total, slopes = output
    ctx.mark_non_differentiable(count, total, slopes)
    ctx.set_materialize_grads(False)  # Of the slopes that would be another matrix.
    ctx.save_for_backward(count, slopes, query, key, own, query_ids, key_ids, mask)


def _rows_backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    return _back_from_rows(ctx, _softplus_rows_backward_operator, gradients)


def _back_from_rows(
    ctx: Any, backward: Callable[..., tuple[torch.Tensor, torch.Tensor]], gradients: tuple[torch.Tensor | None, ...]
) -> tuple[torch.Tensor | None, ...]:
    count, slopes, query, key, own, query_ids, key_ids, mask = ctx.saved_tensors
    of_query, of_key = ctx.needs_input_grad[:2]
    query_gradient, key_gradient = backward(
        *gradients[:2], count, slopes, query, key, own, ctx.tilt, query_ids, key_ids, mask, of_query, of_key
    )
    return query_gradient if of_query else None, key_gradient if of_key else None, *[None] * 6


_softplus_rows_operator.register_autograd(_rows_backward, setup_context=_remember_rows)


class _SoftplusRows(torch.autograd.Function):
    """The same without an operator, whose way through the dispatcher is a tenth of the loss of a small batch."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _softplus_rows(*inputs)
        _remember_rows(ctx, inputs, output)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return _back_from_rows(ctx, _softplus_rows_backward, gradients)
