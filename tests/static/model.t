#!/bin/bash
# SPDX-License-Identifier: MIT
# timeout: 120
#
# The protocol's models, within bounds that are searched in seconds (`make
# model` has them all): the clean ones keep their properties, the seeded bugs
# are found.
cd "${0%/*}/../.." || exit 1
. tests/lib/tap.sh

table=$(bash tests/model/run.sh --quick)
is "$?" 0 'every search ends as it must'
note "$table"
for model in lease queue stop; do
	like "$table" "(^|"$'\n'")$model +exclusion +- .* ok " \
		"$model.pml: never two owners inside their deadlines"
done
for bug in 'lease BUG_REPLY' 'lease BUG_DELAY' 'queue BUG_COUNT' \
	'queue BUG_WAKE' 'stop BUG_NO_TIMER'; do
	like "$table" "(^|"$'\n'")${bug% *} +exclusion +${bug#* } .* found " \
		"${bug% *}.pml: ${bug#* } is found"
done
done_testing
