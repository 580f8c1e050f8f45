/* SPDX-License-Identifier: MIT */
/*
 * Who loses a lease is stopped before another has it: DESIGN L6.
 *
 * A process has asked for a lock and holds it; its thread renews, and so does a
 * keeper (KEEPERS).  Either may be stopped, for as long as it likes, and the
 * server may not be reached.  With SHARERS the holder is one that shares the
 * lock, or was executed with it: it has no thread and no timer, and a keeper that
 * runs stops it.  Another host wants the lock all the time.
 *
 * Time is counted down, as in lease.pml: of a request, of what is known of a
 * lease, and at the server, which acts after the request has left.  Two ticks
 * before the deadline is the stop, at which who runs acts; one before it the
 * backstop, at which the kernel does, whoever runs: no tick passes over it.
 *
 *	ASK	 at first; the time counts from the sending
 *	LATE	 the grant comes after the stop mark: it was never held
 *	RENEW	 the same, by the thread or the keeper
 *	ARM	 whoever writes a deadline sets the timer by it, at once
 *	HELD	 the keeper tells the thread of what it has renewed, and when it
 *		 had asked
 *	KILL	 by the thread, or the keeper: at the stop mark, unrenewed
 *	FIRE	 by the kernel, at the backstop
 *	STOP	 a process runs no more, for a while
 */
#include "model.h"

#ifndef TTL
#define TTL 4
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef SHARERS
#define SHARERS 0
#endif

#define STOP_AT 2
#define FIRE_AT 1
#define NEVER   15

#define NOBODY 0
#define HIS    1
#define OTHERS 2

/* The server: whose it is, and for how long. */
byte key, left;

/* The process: what it knows, its timer, and whether it runs. */
bit granted, holding, dead, stopped;
byte asked, known;
byte timer = NEVER;

/* The keeper: what it knows; what it has told and nobody has heard. */
bit k_stopped, k_has;
byte k_asked, k_known, told;

byte stops = STOPS, losses = LOSSES, renewals = RENEWALS, k_renewals = RENEWALS;

#define runs (!stopped && !dead)
#define k_runs (k_has && !k_stopped)

/* It acts as one that has the lock; or is stopped, and will once it goes on. */
#define one_owner !(holding && !dead && key == OTHERS)

inline die()
{
	SAY(DIES, 1);
	dead = 1; holding = 0; timer = NEVER; asked = 0; known = 0; told = 0
}

/* A deadline is known, that of a request sent so long ago. */
inline extend(by)
{
	if
	:: by > known -> known = by
	:: else
	fi;
#if SHARERS
	timer = NEVER
#elif defined(BUG_NO_TIMER)
	timer = NEVER
#elif defined(BUG_COUNT)
	/* From the answer on. */
	timer = TTL - FIRE_AT
#else
	timer = (known > FIRE_AT -> known - FIRE_AT : 0)
#endif
}

/* It gets there, or not; it is answered, or not. */
inline call(answer)
{
	if
	:: losses > 0 -> losses--; answer = UNSURE
	:: atomic { key == HIS -> left = TTL; answer = OK }
	:: atomic { key != HIS -> answer = GONE }
	:: atomic { losses > 0 && key == HIS -> losses--; left = TTL;
		answer = UNSURE }
	fi
}

proctype Process()
{
	byte answer;

	{
		atomic { key == NOBODY -> asked = TTL };	/* ASK */
		atomic { key == NOBODY -> granted = 1; key = HIS; left = TTL };
		atomic { runs ->
			if
#ifndef BUG_LATE
			:: asked <= STOP_AT ->			/* LATE */
				asked = 0; key = NOBODY; left = 0; goto over
			:: else ->
#else
			:: true ->
#endif
				holding = 1; extend(asked);	/* ARM */
				asked = 0; k_has = KEEPERS; k_known = known;
				SAY(OWN, 1);
				CHECK(one_owner)
			fi
		};
		do
		:: atomic { runs && holding && renewals > 0 && !SHARERS ->
			renewals--; asked = TTL };		/* RENEW */
			call(answer);
			atomic { runs ->
				if
				:: answer == OK && asked > 0 -> extend(asked)
				:: answer == GONE -> die()
				:: else
				fi;
				asked = 0; answer = 0
			}
		:: atomic { runs && holding && told > 0 && !SHARERS ->
#ifdef BUG_HELD
			extend(TTL);				/* HELD */
#else
			extend(told);
#endif
			told = 0 }
		:: atomic { runs && holding && known <= STOP_AT && told <= STOP_AT &&
			!SHARERS -> die(); break }		/* KILL */
		:: atomic { runs && holding ->			/* unlocked */
			holding = 0; timer = NEVER; known = 0; k_has = 0;
			if
			:: key == HIS -> key = NOBODY; left = 0
			:: else
			fi;
			break }
		od
	} unless { dead };
over:	skip
}

proctype Keeper()
{
	byte answer;

end:	do
	:: atomic { k_runs && holding && k_renewals > 0 ->
		k_renewals--; k_asked = TTL };
		call(answer);
		atomic { !k_stopped ->
			if
			:: answer == OK && k_asked > k_known ->
				k_known = k_asked; told = k_asked
			:: else
			fi;
			k_asked = 0; answer = 0
		}
	/* Who shares it, and has nobody else. */
	:: atomic { k_runs && holding && SHARERS && k_known <= STOP_AT ->
#ifdef BUG_SHARER
		k_has = 0		/* its process alone was looked for */
#else
		die(); k_has = 0
#endif
		}
	:: !holding && k_has -> k_has = 0
	od
}

/* Another host, that is granted what is free. */
proctype Other()
{
end:	do
	:: atomic { key == NOBODY && left == 0 && granted ->
		key = OTHERS; CHECK(one_owner) }
	od
}

/* SIGSTOP, a debugger, a cgroup; of the sharers' keeper not. */
proctype Stops()
{
end:	do
	:: atomic { stops > 0 && !stopped && !dead -> stops--; stopped = 1 }
	:: atomic { stopped -> stopped = 0 }
	:: atomic { stops > 0 && k_runs && !SHARERS -> stops--; k_stopped = 1 }
	:: atomic { k_stopped -> k_stopped = 0 }
	od
}

#define count(t)                       \
	if                             \
	:: t > 0 -> t = t - 1          \
	:: else                        \
	fi

/*
 * The kernel's timer comes in its tick.  So does a keeper that runs: it is an
 * eighth of the ttl from the stop to the deadline.
 */
#define in_time (timer != 0 && !(SHARERS && k_runs && holding && \
				 k_known <= STOP_AT))

proctype Clock()
{
end:	do
	:: atomic { timer == 0 -> die() }			/* FIRE */
	:: atomic { in_time && left > 0 ->
		SAY(TICK, 0);
		count(asked); count(known); count(told);
		count(k_asked); count(k_known);
		if
		:: timer != NEVER && timer > 0 -> timer--
		:: else
		fi;
		left--;
		if
		:: left == 0 -> key = NOBODY
		:: else
		fi
	}
	od
}

init
{
	atomic {
		run Process(); run Other(); run Stops(); run Clock();
		if
		:: KEEPERS -> run Keeper()
		:: else
		fi
	}
}
