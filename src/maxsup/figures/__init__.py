"""Every picture of the laboratory: how it looks, and one function for each that turns plain numbers into a figure.

Nothing here knows a run, a study or a page; matplotlib is loaded when something is drawn.
"""
