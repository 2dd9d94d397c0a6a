"""The PodResources API (podresources/v1): client, decoding, polling."""
