"""One file per subject, each with functions from ``facts.Facts`` to findings; ``table`` lists them."""
