/* SPDX-License-Identifier: MIT */
/* The errors that a server answers with; see fault.h. */
#include "redis/fault.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define CLUSTER "it is of a Redis Cluster, which mode = \"cluster\" is for"

static const struct dlk_fault faults[] = {
	{ "LOADING ", DLK_RETRY, false,
	  "it reads its data in, and answers when it has them" },
	{ "BUSY ", DLK_RETRY, false,
	  "somebody's script runs for long: SCRIPT KILL ends it" },
	{ "MISCONF ", DLK_RETRY, false,
	  "it cannot save its data: see its log, and its disk" },
	{ "OOM ", DLK_RETRY, false,
	  "its memory is full: raise maxmemory, or delete what fills it" },
	{ "READONLY ", DLK_RETRY, false,
	  "it is a replica: url must name the master" },
	{ "MASTERDOWN ", DLK_RETRY, false,
	  "it is a replica that has lost its master: url must name the "
	  "master" },
	{ "NOREPLICAS ", DLK_RETRY, false,
	  "too few replicas follow it: see its min-replicas-to-write" },
	{ "UNBLOCKED ", DLK_RETRY, false, "its role has just changed" },
	{ "CLUSTERDOWN ", DLK_RETRY, false,
	  "of its Redis Cluster no master has it, or most are away: see "
	  "CLUSTER INFO" },
	{ "TRYAGAIN ", DLK_RETRY, false,
	  "its slot is being moved to another node" },
	/* (A script that deleted a key of such a slot, and looks at it again.) */
	{ "ERR Script attempted to access a non local key", DLK_RETRY, false,
	  "its slot is being moved to another node" },
	{ "ERR max number of clients", DLK_RETRY, true,
	  "raise its maxclients" },
	{ "MOVED ", DLK_ELSEWHERE, false, CLUSTER },
	{ "ASK ", DLK_ELSEWHERE, false, CLUSTER },
	{ "CROSSSLOT ", DLK_FATAL, false, CLUSTER },
	{ "NOAUTH ", DLK_FATAL, true,
	  "it wants a password: password_file (and username)" },
	{ "WRONGPASS ", DLK_FATAL, false, "see username and password_file" },
	{ "NOPERM ", DLK_FATAL, false, "see PERMISSIONS in dlock.conf(5)" },
	{ "DENIED ", DLK_FATAL, true,
	  "it is in protected mode: give it a password, or let it listen "
	  "where only its clients are" },
	{ "ERR DB index is out of range", DLK_FATAL, false,
	  "it has no such database: see the number at the end of url" },
	{ "WRONGTYPE ", DLK_NO_LEASE, false, NULL },
	{ NULL, DLK_FATAL, false, NULL },
};

const struct dlk_fault *dlk_fault_of(const char *error)
{
	const struct dlk_fault *f = faults;

	while (f->error && strncmp(error, f->error, strlen(f->error)) != 0)
		f++;
	return f;
}

int dlk_fault_errno(const char *error)
{
	return dlk_fault_of(error)->outcome == DLK_RETRY ? -EAGAIN : -EREMOTEIO;
}
