"""Mathematical functions as plain arithmetic, so that they run in vector registers."""
