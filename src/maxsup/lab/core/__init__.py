"""The ground of the laboratory: recipes, run folders, and what one process of it needs."""
