"""Clustering: k-means on the test samples, compared with their classes."""

import warnings
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pucl.evaluation.probe import LEADING, Measured, Number, Probe, ProbedSamples, need_sklearn

RESTARTS = 10
SEED = 0  # The same for every run, so that runs differ by their embeddings alone.
MOST = 10_000  # Samples that are clustered.

_need_k_means = partial(need_sklearn, "cluster", "k-means")


def clusters_of(features: NDArray[np.floating], count: int) -> NDArray[np.int32]:
    """Clusters of embeddings by k-means on unit vectors.

    Of several starts, the result with the smallest sum of squared distances is kept. On unit vectors these distances
    are 2 - 2 cosine, so that clusters are of similar directions.
    """
    k_means = _need_k_means().KMeans(count, n_init=RESTARTS, random_state=SEED)
    units = need_sklearn("preprocessing", "k-means").normalize(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Embeddings with fewer different points than clusters: fewer clusters result.
        found: NDArray[np.int32] = k_means.fit_predict(units)
    return found


def _measure(samples: ProbedSamples) -> Measured:
    """Normalised mutual information and adjusted Rand index of clusters and classes.

    There are as many clusters as classes. Of more than `MOST` test samples a random part is clustered, always the same.
    """
    chosen = np.random.default_rng(SEED).permutation(len(samples.tested.labels))[:MOST]
    features, labels = samples.tested.take(np.sort(chosen))
    classes = len(np.unique(labels))
    if classes < 2:
        return Measured(numbers={})
    clusters = clusters_of(features, classes)
    metrics = need_sklearn("metrics", "k-means")
    mutual_information = metrics.normalized_mutual_info_score(labels, clusters)
    return Measured(
        numbers={LEADING: float(mutual_information), "ari": float(metrics.adjusted_rand_score(labels, clusters))}
    )


CLUSTERING = Probe(
    about="k-means with as many clusters as classes: normalised mutual information (NMI), adjusted Rand index (ARI)",
    numbers={
        LEADING: Number(name="mutual information of clustering", short="NMI"),
        "ari": Number(name="adjusted Rand index of clustering", short="ARI"),
    },
    measure=_measure,
    monitored=True,
    need_packages=_need_k_means,
)
