"""GPUs of several vendors, found in sysfs and procfs without the vendors' libraries."""
