#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 400
#
# By shadows, on disks (where the end of a description is polled for) and on a
# FUSE share (where it is told): what odd programs do, how leases live, shared
# locks, hold and exclusion, each test as a whole.
. "${0%/*}/../lib/tap.sh"

hosts=${0%/*}/../hosts
for kind in disks share; do
	for name in flock/nightly-job-runs-once flock/lease-lives-as-its-lock \
		flock/stale-release-removes-nothing flock/shared-and-conversions \
		flock/readers-and-writers server/restart-delay \
		keeper/lease-follows-the-description guest/hidden-locks \
		guest/moved-descriptions guest/locks-under-signals; do
		out=$(RIG_LOCAL=shadow RIG_KIND=$kind bash "$hosts/$name.t" \
			2>&1) && [[ $out != *'not ok '* ]]
		ok "$name on $kind" [ $? = 0 ]
		grep -E '^not ok|^# ' <<<"$out" | sed 's/^not ok/# &/'
	done
done
done_testing
