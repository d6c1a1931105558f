"""Who was in the training set, whose sample is it: membership and owners."""
