r"""Check Lemma 1 and Theorem 1 by numbers, on data whose distributions are known.

Classes are von Mises-Fisher distributions on the sphere in three dimensions. Their density, exact sampling, and the
expectation of :math:`h(x, x') = e^{\langle x, x' \rangle / t}` have closed forms. So all losses of the theorem can be
computed:

- *ideal*: with N true negatives, drawn from :math:`p^-`. Every correction aims at this loss.
- *standard*: with N unlabelled samples, drawn from :math:`p^u`, all treated as negatives.
- *exact*: the paper's :math:`L_{DeCL}`, with the true mean over negatives, :math:`\mu_x = E^-[h(x, x')]`. Theorem 1
  bounds the distance of this loss from the ideal one.
- *corrected*: the estimator of training, from N unlabelled samples and one or several positives.

The functions of a training loop compute the ideal, the standard and the corrected loss.

All anchors have the same class. Its share :math:`\alpha` of the data is a setting. The theorem holds for each anchor,
and therefore for any mixture of anchors.
"""
