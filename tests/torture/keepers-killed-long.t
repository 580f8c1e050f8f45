#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 600
#
# tests/hosts/survival/keepers-killed.t with 200 deaths.
KILLS=200 exec bash "${0%/*}/../hosts/survival/keepers-killed.t"
