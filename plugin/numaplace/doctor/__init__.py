"""``numaplace doctor``: looks at a node once (``look``), and says what is wrong with it (``checks``).

Looking and judging are apart: ``look`` reads files, sockets and pages and gives ``facts.Facts``; every
check is a pure function from these to findings.
"""
