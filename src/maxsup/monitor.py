"""Live view of what label smoothing does to wrong predictions."""

from maxsup.losses.monitor import DecompositionMonitor

__all__ = ["DecompositionMonitor"]
