"""All figures of the laboratory: functions that turn plain numbers into pictures, and the style they share.

Nothing here knows about runs, studies or pages; matplotlib is imported when something is drawn.
"""
