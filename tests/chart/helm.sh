#!/usr/bin/env bash
# Builds helm, once, and prints its path.
exec "$(dirname "$0")/tool.sh" helm
