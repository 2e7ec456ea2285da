"""Dense prediction: images with masks, networks that label every pixel, and their evaluation.

Data sets and segmenters of this folder are found by their registries. UperNet needs the extra ``dense``.
"""

from maxsup.lab.segmentation.segmenters import SEGMENTERS, Segmenter, create_segmenter

__all__ = ["SEGMENTERS", "Segmenter", "create_segmenter"]
