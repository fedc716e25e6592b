r"""Estimates without labels: tau', and the probability r that a pair is a hidden positive.

Two functions estimate :math:`\tau'`. They rest on different assumptions. Neither is a bound, and only labels can check
them:

- `bbe` finds the largest share of the unlabelled that can be distributed like the *known* positives. It is too low if
  known positives are more similar than hidden ones, as two views of one sample usually are. It is too high if true
  negatives are as similar as known positives. If an encoder does not separate the two, it is near 1 and says nothing.
- `mixture` fits two Gaussians to the unlabelled alone, and takes the upper one for the hidden positives. It is too high
  if the cosines have another peak or a long tail, and too low if hidden positives are as dissimilar as the others.

`ratio` estimates :math:`r(s)`, the probability that a pair of similarity s is a hidden positive. `calibration` compares
such probabilities with labels. `communities` finds groups of samples that both halves of the data agree on.
"""
