"""Cross-entropy, label smoothing and MaxSup on scikit-learn's embedded digits: one line differs between the runs.

Run it with `make demo`. Under one seed the three losses see the same split, the same initial weights and the same
batches, so their differences are paired.
"""

import statistics
import time

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import maxsup

LOSSES = {
    "CE": ("ce", {}),
    "LS 0.1": ("ls", {"alpha": 0.1}),
    "MaxSup 0.1": ("maxsup", {"alpha": 0.1}),
}
SEEDS = range(6)
NUM_TRAIN, NUM_EPOCHS, BATCH_SIZE, NUM_BINS = 400, 80, 100, 15
COLUMNS = {"accuracy %": 2, "NLL": 3, "ECE": 3, "conf. on errors": 3}  # title: number of decimals


def digits_split(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training images and labels, then test images and labels: few for training, so that errors are left to look at."""
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=torch.Generator().manual_seed(seed))
    images = torch.tensor(digits.data, dtype=torch.float32)[order] / 16
    labels = torch.tensor(digits.target)[order]
    return images[:NUM_TRAIN], labels[:NUM_TRAIN], images[NUM_TRAIN:], labels[NUM_TRAIN:]


def trained_network(images: Tensor, labels: Tensor, criterion: nn.Module, seed: int) -> tuple[nn.Module, float]:
    """The network, and the share of its predictions that were wrong during training."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, NUM_EPOCHS)
    num_wrong = 0
    for _ in range(NUM_EPOCHS):
        for batch in torch.randperm(len(images)).split(BATCH_SIZE):
            logits = network(images[batch])
            optimizer.zero_grad()
            criterion(logits, labels[batch]).backward()
            optimizer.step()
            num_wrong += (logits.argmax(dim=1) != labels[batch]).sum().item()
        scheduler.step()
    return network.eval(), num_wrong / (NUM_EPOCHS * len(images))


def calibration_error(confidence: Tensor, correct: Tensor) -> float:
    """Gap between confidence and accuracy, averaged over equally wide bins by the share of samples in each."""
    bins = (confidence * NUM_BINS).long().clamp(max=NUM_BINS - 1)
    gaps = torch.zeros(NUM_BINS).index_add(0, bins, confidence - correct.float())
    return gaps.abs().sum().item() / len(confidence)


def held_out_scores(network: nn.Module, images: Tensor, labels: Tensor) -> tuple[float, ...]:
    """One number a column; NLL is plain cross-entropy, whatever the network was trained with."""
    with torch.no_grad():
        logits = network(images)
    confidence, prediction = logits.softmax(dim=1).max(dim=1)
    correct = prediction == labels
    return (
        100 * correct.float().mean().item(),
        F.cross_entropy(logits, labels).item(),
        calibration_error(confidence, correct),
        confidence[~correct].mean().item(),
    )


def table_row(title: str, rows: list[tuple[float, ...]]) -> str:
    """Mean and standard deviation over seeds of every column, lined up."""
    cells = [
        f"{statistics.mean(values):.{decimals}f} ± {statistics.stdev(values):.{decimals}f}"
        for values, decimals in zip(zip(*rows, strict=True), COLUMNS.values(), strict=True)
    ]
    return f"{title:<12}" + "".join(f"{cell:>17}" for cell in cells)


def main() -> None:
    start = time.perf_counter()
    scores: dict[str, list[tuple[float, ...]]] = {title: [] for title in LOSSES}
    wrong_shares: dict[str, list[float]] = {title: [] for title in LOSSES}
    for seed in SEEDS:
        train_images, train_labels, test_images, test_labels = digits_split(seed)
        for title, (name, options) in LOSSES.items():
            criterion = maxsup.create_loss(name, **options)  # the one line that differs
            network, wrong_share = trained_network(train_images, train_labels, criterion, seed)
            scores[title].append(held_out_scores(network, test_images, test_labels))
            wrong_shares[title].append(wrong_share)
        accuracies = ", ".join(f"{title} {rows[-1][0]:.2f} %" for title, rows in scores.items())
        print(f"seed {seed}: {accuracies}", flush=True)

    print(f"\n{'loss':<12}" + "".join(f"{column:>17}" for column in COLUMNS))
    for title, rows in scores.items():
        print(table_row(title, rows))
    pairs = zip(scores["MaxSup 0.1"], scores["LS 0.1"], strict=True)
    print(table_row("MaxSup - LS", [tuple(a - b for a, b in zip(*pair, strict=True)) for pair in pairs]))

    ece, sure = (
        ", ".join(f"{statistics.mean(row[i] for row in rows):.2f}" for rows in scores.values()) for i in (2, 3)
    )
    wrong = statistics.mean(wrong_shares["MaxSup 0.1"])
    print(
        f"\n{NUM_TRAIN} training and {len(test_labels)} test images, mean ± std over {len(SEEDS)} paired seeds, "
        f"torch {torch.__version__}, {time.perf_counter() - start:.0f} s.\n\n"
        f"Shown: the mean confidence in wrong answers is {sure} with CE, LS and MaxSup;\n"
        f"the two regularisers pay for it by being too modest about right ones (ECE {ece}).\n"
        "Not shown: which of LS and MaxSup is better; they differ only on samples that are wrong\n"
        f"while training, and those were {100 * wrong:.0f} % here."
    )


if __name__ == "__main__":
    main()
