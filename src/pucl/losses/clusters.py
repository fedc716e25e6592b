"""The losses that find hidden positives by themselves."""

from pucl.contrast.loss import ObjectiveName, Reduction
from pucl.contrast.objective import Floor
from pucl.corrections import Auto, Clusters
from pucl.losses.contrastive import ContrastiveLoss, MemoryBankSize


class ClustersLoss(ContrastiveLoss):
    r"""Contrastive loss that finds hidden positives by itself: pairs that are in one community weigh less.

    It needs no prior and no number of classes. Call ``loss.end_epoch()`` after each epoch: communities are found then.
    It returns a report, with a sentence that says what was found, or why nothing is corrected. Until something is
    found, the loss is `NTXentLoss`, bit by bit. See `pucl.corrections.Clusters`.

    Args:
        samples: Number of samples in the data. Then pass ``ids`` from 0 to samples - 1 in each call: every sample is
            remembered over the epochs, which sees better. None (default): the samples since the epoch began are
            remembered, 16,384 at most.
        attraction: Weight of all sure mates of an anchor, >= 0. They become positives; a given positive weighs 1. 0
            (default): none.
        shuffled: A control: the same communities, of other samples.
        k: A control: k-means with this many clusters in place of communities. None (default): communities.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`. A memory bank needs `samples`.

    Example:
        >>> import torch
        >>> loss = ClustersLoss()
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
        >>> loss.end_epoch().sentence
        'plain so far: communities are looked for when epoch 2 ends'
    """

    def __init__(
        self,
        samples: int | None = None,
        *,
        attraction: float = 0.0,
        shuffled: bool = False,
        k: int | None = None,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Clusters(attraction=attraction, shuffled=shuffled, k=k),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
            samples=samples,
        )


class AutoLoss(ContrastiveLoss):
    """The loss without settings. It finds hidden positives by itself. Until it does, it is `NTXentLoss`, bit by bit.

    Call ``loss.end_epoch()`` after each epoch. It returns a report, with a sentence that says what was found, or why
    nothing is corrected. At most half of plain's sum is removed for any anchor. Its sure mates become positives that
    weigh as much as the given one. See `pucl.corrections.Auto`.

    Args:
        samples: Number of samples in the data. Then pass ``ids`` from 0 to samples - 1 in each call; every sample is
            remembered, which sees better. None (default): recent samples are remembered; see `ClustersLoss`.
        temperature, ..., streaming: The keywords of all losses; see `ContrastiveLoss`. A memory bank needs `samples`.

    Example:
        >>> import torch
        >>> loss = AutoLoss()
        >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
        >>> loss.end_epoch().sentence
        'plain so far: communities are looked for when epoch 2 ends'
    """

    def __init__(
        self,
        samples: int | None = None,
        *,
        temperature: float = 0.5,
        memory_bank_size: MemoryBankSize = 0,
        gather_distributed: bool = False,
        reduction: Reduction = "mean",
        floor: Floor = "auto",
        objective: ObjectiveName = "infonce",
        streaming: bool | None = None,
    ) -> None:
        super().__init__(
            Auto(),
            temperature=temperature,
            memory_bank_size=memory_bank_size,
            gather_distributed=gather_distributed,
            reduction=reduction,
            floor=floor,
            objective=objective,
            streaming=streaming,
            samples=samples,
        )
