"""Facts and words of runs, answers, scores and comparisons, which every face draws and none words anew."""
