# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: MIT
#
# Replicas of the rig's Redis.  The servers are numbered as a quorum's masters
# are (quorum.sh): 1 is the rig's own, m I COMMAND... speaks to one, master_stop,
# master_cont and master_kill do that.
#
#	replica_up I		server I begins as a replica of the rig's Redis
#	follows I		it has all of its master

replica_up()
{
	master_up "$1" --replicaof 127.0.0.1 "$PORT" \
		--repl-diskless-sync-delay 0
	until_true 10 follows "$1" || rig_die "server $1 follows nobody"
}

info_of()
{
	m "$1" info | tr -d '\r' | sed -n "s/^$2://p"
}

follows()
{
	[ "$(info_of "$1" master_link_status)" = up ]
}
