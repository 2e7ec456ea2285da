"""Losses on a device: all samples at once, in Triton kernels or in few operators."""
