"""What judges an answer: one small class per evaluator, one registry, one record."""
