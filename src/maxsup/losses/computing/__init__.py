"""How a loss is computed: formula, one pass in blocks, and what chooses between them."""
