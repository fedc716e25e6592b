"""Known groups of samples, known single pairs, and the labels that the oracles use."""

from dataclasses import replace

import torch

from pucl.contrast.objectives import OBJECTIVES
from pucl.contrast.pairs import AttractingForm, Classes, Groups, Pairs
from pucl.contrast.streaming import pair_counts
from pucl.shapes import Int, Tensor

UNKNOWN = -1  # The group of a sample that is in none, and the id of a sample that is not known.


def with_groups(pairs: Pairs, query_groups: Int[Tensor, " anchor"], key_groups: Int[Tensor, " unlabelled"]) -> Pairs:
    r"""Make positives of the keys of an anchor's known group, and compare it with no key of its group.

    Let M be the logits of an anchor's given positives and of its *mates*, the keys of its group that show another
    sample. :math:`u_i` are the keys that are left, N of them. Every correction then has

    .. math:: E^-[g] = (1 + \omega) \sum_i w_i\, g(u_i) - \omega\, \mathrm{mean}_{p \in M}\, g(p), \qquad
              \mathrm{loss} = \mathrm{mean}_{p \in M} -\log \frac{e^p}{e^p + N \max(E^-[\exp], \text{floor})}.

    Pairs are excluded by one number for each row, which rows of one group share. So a sample must be in one group. If
    no anchor has a mate, the pairs are returned unchanged: groups that all differ change no bit of the loss.

    Args:
        pairs: Pairs whose ids, if there are any, name the samples.
        query_groups: Group of each anchor, >= 0; negative for an anchor without a known group.
        key_groups: Group of each key.
    """
    if not pairs.shared:
        raise ValueError("groups belong to samples shared by all anchors: expected one set, got a set for each anchor")
    query_groups, key_groups = query_groups.to(torch.int64), key_groups.to(torch.int64)
    if pairs.query_ids is None or pairs.key_ids is None:  # Each key then shows another sample than the anchor.
        query_rows, key_rows = torch.full_like(query_groups, UNKNOWN - 1), torch.full_like(key_groups, UNKNOWN)
    else:
        query_rows, key_rows = pairs.query_ids.to(torch.int64), pairs.key_ids.to(torch.int64)
    _check_one_group_each(torch.cat([query_rows, key_rows]), torch.cat([query_groups, key_groups]))
    query, key = group_or_row(query_groups, query_rows), group_or_row(key_groups, key_rows)
    groups = Groups(query, key, query_rows, key_rows)
    if not groups.counts().any():
        return pairs
    return replace(pairs, query_ids=query, key_ids=key, groups=groups, period=0)


def group_or_row(groups: Int[Tensor, " row"], rows: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
    """One number for each row: even for its group, odd for its sample if it is in no group."""
    return torch.where(groups >= 0, 2 * groups, 2 * rows + 1)


def _check_one_group_each(rows: Int[Tensor, " row"], groups: Int[Tensor, " row"]) -> None:
    """Raise on the CPU if rows of one sample are in different groups."""
    if torch.compiler.is_compiling() or rows.device.type != "cpu":
        return
    order = rows.argsort(stable=True)
    rows, groups = rows[order], groups[order].clamp_min(UNKNOWN)
    wrong = ((rows[1:] == rows[:-1]) & (groups[1:] != groups[:-1]) & (rows[1:] >= 0)).nonzero()[:, 0]
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"a sample is in one group: expected the same group wherever an id occurs, got the groups "
            f"{int(groups[first])} and {int(groups[first + 1])} for the id {int(rows[first])}; groups that share a "
            f"sample are one group, and pucl.pairs.groups joins them"
        )


def check_some_differ(groups: Int[Tensor, " row"]) -> None:
    """Raise on the CPU if all samples that are compared are of one group, so that nothing is left to compare with."""
    if torch.compiler.is_compiling() or groups.device.type != "cpu" or len(groups) == 0:
        return
    if int(groups[0]) >= 0 and bool((groups == groups[0]).all()):
        raise ValueError(
            f"samples of one group are no negatives of each other: expected two groups or more, or samples without a "
            f"group (-1), got {len(groups)} embeddings of the group {int(groups[0])} alone. Shuffle the data or take "
            f"larger batches; if most of the data is one group, leave out the samples that join everything "
            f"(pucl.pairs.groups has most=)"
        )


class KnownPairs:
    """Pairs of samples that are never each other's negatives.

    Unlike groups, pairs are no equivalence: if a and b belong together, and b and c, a and c may still be compared.

    Args:
        pairs: Indices of two samples of the data each.
        samples: Number of samples in the data.
    """

    def __init__(self, pairs: Int[Tensor, "pair 2"], samples: int) -> None:
        both = torch.cat([pairs, pairs.flip(1)]).to(torch.int64)
        self.samples = samples
        self.codes = (both[:, 0] * samples + both[:, 1]).unique()
        self.named = torch.zeros(samples + 1, dtype=torch.bool, device=pairs.device)  # The last is for unknown samples.
        self.named[both[:, 0]] = True

    def leave_out(self, pairs: Pairs) -> Pairs:
        """Leave these pairs out of a comparison. The samples that are left represent as many as were drawn.

        So N stays, as for the oracle: with all pairs of one class this is `without_false_negatives`. If none of them is
        compared here, the pairs are returned as they are.
        """
        if not pairs.shared:
            raise ValueError("known pairs are those of samples shared by all anchors: expected one set of samples")
        queries, keys = pairs.sample_ids()
        rows, columns = self.named[queries].nonzero()[:, 0], self.named[keys].nonzero()[:, 0]
        codes = queries[rows, None] * self.samples + keys[columns]
        found = torch.isin(codes, self.codes)
        if not found.any():
            return pairs
        left = torch.ones(pairs.shape, dtype=torch.bool, device=codes.device)
        left[rows[:, None], columns] = ~found
        if pairs.query_ids is not None and pairs.key_ids is not None:
            left |= pairs.query_ids[:, None] == pairs.key_ids  # Ids leave these out already, or make positives of them.
        return replace(
            pairs,
            mask=left if pairs.mask is None else left & pairs.mask,
            drawn=pair_counts(pairs) if pairs.drawn is None else pairs.drawn,
        )


def without_false_negatives(
    pairs: Pairs, query_labels: Int[Tensor, " anchor"], key_labels: Int[Tensor, " unlabelled"]
) -> Pairs:
    r"""Exclude the pairs of one class, so that only true negatives remain: the oracle.

    The remaining samples represent as many samples as were drawn. N is unchanged, and :math:`N\, E^-[g]` is exact
    instead of estimated. A correction with odds 0 then gives the loss that the others estimate; `Hard` may keep its
    tilt.

    An anchor whose unlabelled samples are all of its own class has no negatives, and its negative term is 0.
    """
    drawn = pair_counts(pairs)
    if pairs.groups is not None:
        _check_one_label_each(torch.cat([pairs.groups.query, pairs.groups.key]), torch.cat([query_labels, key_labels]))
    return replace(pairs, query_ids=query_labels, key_ids=key_labels, period=0, drawn=drawn)


def _check_one_label_each(groups: Int[Tensor, " row"], labels: Int[Tensor, " row"]) -> None:
    """Raise on the CPU if a group has several labels: its pairs would be positives and negatives at once."""
    if torch.compiler.is_compiling() or groups.device.type != "cpu":
        return
    order = groups.argsort(stable=True)
    groups, labels = groups[order], labels[order]
    wrong = ((groups[1:] == groups[:-1]) & (labels[1:] != labels[:-1])).nonzero()[:, 0]
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"samples of one group are of one class: expected one label for each group, got the labels "
            f"{int(labels[first])} and {int(labels[first + 1])} in one group"
        )


def check_form(form: object, objective: str = "infonce") -> None:
    """Raise for a form of attraction that does not exist, or not for this objective."""
    meaning = "form is how an anchor's positives of one class are compared"
    if form not in ("sincere", "supcon"):
        raise ValueError(f"{meaning}: expected 'sincere' or 'supcon', got {form!r}")
    if form not in OBJECTIVES[objective].forms:
        raise ValueError(f"{meaning}: expected 'sincere' with the objective {objective!r}, got {form!r}")


def with_false_negatives_attracted(
    pairs: Pairs,
    query_labels: Int[Tensor, " anchor"],
    key_labels: Int[Tensor, " unlabelled"],
    form: AttractingForm = "sincere",
) -> Pairs:
    """Make positives of the pairs of one class: the oracle that attracts, where the other one leaves out.

    See `pucl.contrast.attraction` for the two forms. The samples of other classes are summed as they are: N is their
    number.
    """
    check_form(form)
    if not pairs.shared:
        raise ValueError("classes belong to samples shared by all anchors: expected one set, got a set for each anchor")
    if pairs.groups is not None:
        raise ValueError("samples of one class are positives of each other here: expected no groups beside the classes")
    return replace(pairs, classes=Classes(query_labels, key_labels, form))
