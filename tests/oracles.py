"""The formulas as loops over Python floats. They import nothing of pucl, so that they can be trusted against it."""

import math
from collections.abc import Callable, Sequence

Vector = Sequence[float]


def cosine(a: Vector, b: Vector) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def softplus(x: float) -> float:
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def uniform(unlabelled: Vector) -> list[float]:
    return [1 / len(unlabelled)] * len(unlabelled)


def tilted(beta: float) -> Callable[[Vector], list[float]]:
    def weights(unlabelled: Vector) -> list[float]:
        terms = [math.exp(beta * u) for u in unlabelled]
        return [term / sum(terms) for term in terms]

    return weights


def band(lower: float, upper: float) -> Callable[[Vector], list[float]]:
    def weights(unlabelled: Vector) -> list[float]:
        begin, end = int(lower * len(unlabelled)), int(upper * len(unlabelled))
        hardest_first = sorted(range(len(unlabelled)), key=lambda i: -unlabelled[i])
        kept = set(hardest_first[begin:end])
        return [1 / len(kept) if i in kept else 0.0 for i in range(len(unlabelled))]

    return weights


def pointwise(table: Vector, temperature: float, most: float = 0.5) -> Callable[[Vector], list[float]]:
    """Weights 1 - r(s), with r from a table over -1 to 1, scaled so that at most half of sum exp(u) is removed."""

    def weights(unlabelled: Vector) -> list[float]:
        bins = [int((u * temperature + 1) / 2 * len(table)) for u in unlabelled]
        r = [table[min(max(b, 0), len(table) - 1)] for b in bins]
        share = sum(a * math.exp(u) for a, u in zip(r, unlabelled, strict=True)) / sum(math.exp(u) for u in unlabelled)
        kept = [1 - a * min(1.0, most / share if share else 1.0) for a in r]
        return [each / sum(kept) for each in kept]

    return weights


def bayesian(tau_plus: float, auc: float, hardness: float) -> Callable[[Vector], list[float]]:
    """BCL's weights. They do not sum to one."""

    def weights(unlabelled: Vector) -> list[float]:
        alpha, beta, tau_minus = auc, hardness, 1 - tau_plus
        a = (1 - 2 * alpha) * (tau_minus - tau_plus) + 1e-3
        b = 2 * (alpha * tau_minus + (1 - alpha) * tau_plus)
        found = []
        for u in unlabelled:
            share = sum(other <= u for other in unlabelled) / len(unlabelled)
            f = (-b + math.sqrt(b * b + 4 * a * share)) / (2 * a)
            phi1, phi2 = 2 * (1 - f), 2 * f
            scale = alpha * (1 - beta) + (1 - alpha) * beta + 1e-3
            hard = (alpha * (1 - beta) * phi1 + (1 - alpha) * beta * phi2) / scale
            density = tau_minus * (alpha * phi1 + (1 - alpha) * phi2) + tau_plus * ((1 - alpha) * phi1 + alpha * phi2)
            found.append(hard / density)
        return found

    return weights


def expectation(
    g: Callable[[float], float], positives: Vector, unlabelled: Vector, weights: Vector, odds: float
) -> float:
    """E-[g] = (1 + odds) * sum_i w_i g(u_i) - odds * mean_j g(p_j)."""
    over_unlabelled = sum(w * g(u) for w, u in zip(weights, unlabelled, strict=True))
    over_positives = sum(g(p) for p in positives) / len(positives)
    return (1 + odds) * over_unlabelled - odds * over_positives


def infonce(
    positives: Vector, unlabelled: Vector, weights: Vector, odds: float, floor: float, count: float
) -> tuple[float, bool]:
    """-log(e^p / (e^p + N mu)), averaged over the positives, and whether mu is at its floor."""
    mean = expectation(math.exp, positives, unlabelled, weights, odds)
    floored = odds > 0 and mean <= floor
    mu = floor if floored else mean
    losses = [-math.log(math.exp(p) / (math.exp(p) + count * mu)) for p in positives]
    return sum(losses) / len(losses), floored


def jensen_shannon(
    positives: Vector, unlabelled: Vector, weights: Vector, odds: float, floor: float
) -> tuple[float, bool]:
    """mean softplus(-p) + max(E-[softplus], floor)."""
    mean = expectation(softplus, positives, unlabelled, weights, odds)
    floored = odds > 0 and mean <= floor
    return sum(softplus(-p) for p in positives) / len(positives) + (floor if floored else mean), floored


def views_as_logits(
    views: Sequence[Sequence[Vector]], temperature: float, groups: Sequence[int] | None = None
) -> list[tuple[list[float], list[float]]]:
    """For each view of each sample: logits of its other views, and of all views of all other samples.

    Samples of one group are positives of each other; -1 is no group.
    """
    comparisons = []
    for v, view in enumerate(views):
        for i, anchor in enumerate(view):
            positives, unlabelled = [], []
            for w, other in enumerate(views):
                for j, vector in enumerate(other):
                    mates = groups is not None and i != j and groups[i] == groups[j] != -1
                    if i != j and not mates:
                        unlabelled.append(cosine(anchor, vector) / temperature)
                    elif v != w or mates:
                        positives.append(cosine(anchor, vector) / temperature)
            comparisons.append((positives, unlabelled))
    return comparisons


def towers_as_logits(
    anchors: Sequence[Vector],
    candidates: Sequence[Vector],
    scale: float,
    ids: Sequence[int],
    groups: Sequence[int],
    shift: Sequence[float],
) -> list[tuple[list[float], list[float]]]:
    """For each anchor: logits of its partner and of its group, and of all other candidates.

    Candidate i is the partner of anchor i; there may be more candidates. Candidates of the partner's id are left out.
    """
    comparisons = []
    for i, anchor in enumerate(anchors):
        positives, unlabelled = [], []
        for j, candidate in enumerate(candidates):
            logit = scale * cosine(anchor, candidate) + shift[j]
            if i == j or (ids[i] != ids[j] and groups[i] == groups[j] != -1):
                positives.append(logit)
            elif ids[i] != ids[j]:
                unlabelled.append(logit)
        comparisons.append((positives, unlabelled))
    return comparisons


def clip(images: Sequence[Vector], texts: Sequence[Vector], scale: float, bias: float = 0.0) -> float:
    """open_clip's ClipLoss: cross-entropy of rows and of columns of scale * cosine + bias, averaged."""
    logits = [[scale * cosine(image, text) + bias for text in texts] for image in images]
    columns = [list(column) for column in zip(*logits, strict=True)]
    losses = []
    for matrix in (logits, columns):
        rows = [-math.log(math.exp(row[i]) / sum(map(math.exp, row))) for i, row in enumerate(matrix)]
        losses.append(sum(rows) / len(rows))
    return sum(losses) / 2


def siglip_terms(
    images: Sequence[Vector], texts: Sequence[Vector], scale: float, bias: float
) -> tuple[list[float], list[float]]:
    """open_clip's SigLipLoss before it is summed: -log sigmoid(z) of pairs, and -log sigmoid(-z) of all others."""
    pairs, others = [], []
    for i, image in enumerate(images):
        for j, text in enumerate(texts):
            logit = scale * cosine(image, text) + bias
            if i == j:
                pairs.append(-math.log(1 / (1 + math.exp(-logit))))
            else:
                others.append(-math.log(1 / (1 + math.exp(logit))))
    return pairs, others
