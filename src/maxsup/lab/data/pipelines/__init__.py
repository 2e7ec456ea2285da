"""From a split to batches: decoding, transforms, augmentation, order."""
