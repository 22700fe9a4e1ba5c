"""Who may go next, and how much. Knows nothing of jobs, and never imports ``scheduling``."""
