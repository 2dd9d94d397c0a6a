"""SR-IOV virtual functions of network cards, found in sysfs."""
