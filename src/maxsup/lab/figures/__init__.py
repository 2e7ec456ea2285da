"""Draw the figures of the laboratory from plain numbers, in one common style.

Nothing here depends on runs, studies or pages. Matplotlib is imported when something is drawn.
"""
