"""``numaplace doctor``: examines a node once (``look``), and reports what is wrong with it (``checks``).

Reading and judging are separate: ``look`` reads files, sockets and pages and gives ``facts.Facts``; every
check is a pure function from these to findings.
"""
