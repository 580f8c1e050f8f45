# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT

# free_port [N]: a port that nobody has, and the N - 1 after it, into $FREE.  They are
# below those that connect() takes: a socket of one in TIME_WAIT keeps a server from
# its port for a minute.
free_port()
{
	local i

	for ((;;)); do
		FREE=$((20000 + RANDOM % 12000))
		for ((i = 0; i < ${1:-1}; i++)); do
			! grep -q ":$(printf %04X $((FREE + i))) " \
				/proc/net/tcp /proc/net/tcp6 2>/dev/null || continue 2
		done
		return
	done
}
