"""Plain-loop references written from the formulas; nothing here imports torch or maxsup."""
