"""Facts and words about runs, answers, scores and comparisons, shared by all interfaces."""
