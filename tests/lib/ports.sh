# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT

# free_port [N]: a port that nobody has, and the N - 1 after it, into $FREE.  They are
# below those that connect() takes: a socket of one in TIME_WAIT keeps a server from
# its port for a minute.  In a run of many tests (check.sh) each is given once: one whose
# server is killed, and comes back there, would meet another one's.
free_port()
{
	local i names

	for ((;;)); do
		FREE=$((20000 + RANDOM % 12000))
		names=()
		for ((i = 0; i < ${1:-1}; i++)); do
			! grep -q ":$(printf %04X $((FREE + i))) " \
				/proc/net/tcp /proc/net/tcp6 2>/dev/null || continue 2
			names+=("${GIVEN_PORTS-}/$((FREE + i))")
		done
		[ -z "${GIVEN_PORTS-}" ] || mkdir "${names[@]}" 2>/dev/null ||
			continue
		return
	done
}
