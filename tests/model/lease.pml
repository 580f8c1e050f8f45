/* SPDX-License-Identifier: MIT */
/*
 * The life of a lease without a queue: DESIGN L1, L3, L4, L5.
 *
 * Hosts: A with processes 0 and 1, B with process 2, each with a description
 * of its own of one file; one server with one key.  Process 0's description
 * may be shared: by a child, for which a keeper carries the lease on, and by
 * somebody who unlocks it at any moment.
 *
 * Time is counted down: each request and each deadline is a number of ticks
 * left, so there is no end of time and a message may be late by any number.
 * Of what dies in a tick, the deadline dies before the server's expiry: that
 * is the margin of timeline.h.
 *
 * The transitions, as the C and the Lua name them:
 *
 *	KLOCK	 the kernel's lock, on the program's own descriptor
 *	SINCE	 the token: `since` is read after the kernel's grant
 *	LOOK	 is the kernel's lock still there, after `since` was read?
 *	ASK	 acquire.lua; its deadline counts from the sending
 *	GRANT	 the answer "yours", while its deadline has not passed
 *	LATE	 the same after it: never held, released
 *	BUSY	 the answer "somebody's": the kernel's lock is given back
 *	PROOF	 ASK replaces an older lease of the same host and file
 *	UNSURE	 no answer: RESEND with the same token, or DISOWN it
 *	INFO	 is the server old enough?  Asked only after NOSCRIPT
 *	LOAD	 SCRIPT LOAD, on the connection that INFO was asked on; of
 *		 scripts that are those of one delay: what strangers load for
 *		 another has other names, and is not `loaded`
 *	YOUNG	 it is not: nobody is granted anything.  Of a promoted replica
 *		 the uptime says nothing: from when somebody asks first
 *	RENEW	 compare and expire; it never creates
 *	RECLAIM	 after RENEW found none, in the server's restart window; or
 *		 what was not renewed since that began, near its end
 *	SAVE	 the memory that the server restarts with
 *	KEEP	 another's is there, in that window: nobody is granted it, so the
 *		 deadline is the window's end
 *	HANDOVER the keeper gets the lease and its deadline
 *	RELEASE	 compare and delete: sent, UNLOCK, then sent until answered
 *	ENDED	 the keeper is granted the kernel's lock: it releases
 *	KILL	 a deadline passed: the holder is stopped
 *	EXPIRE	 the server's ttl passed
 *	RESTART	 the server forgets keys and scripts
 *	CRASH	 a process dies; its description too, but for a child's
 *	UNSHARE	 who shares the description unlocks it
 *
 * Any request may be lost, or its answer; one in flight may have a copy that
 * the server executes at any later time, whoever has died since.
 */
#include "model.h"

#ifndef TTL
#define TTL 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif

#define N 3
#define HOST(p) ((p) / 2)
#define TOKEN(p, s) ((s) * 4 + (p) + 1)
#define PROC(t) ((t) % 4 - 1)
#define SINCE(t) ((t) / 4)

#define NOSCRIPT YOUNG

/* The server. */
byte key, left, window;
bit loaded = !RESTARTS, epoch;
bit unseen; /* it is another one, and nobody has asked how old it is */

/* What the server has when it restarts. */
byte saved, saved_left;

/* The hosts: whose description is locked (+ 1). */
byte klock[2];

/* The processes, the child of 0 and its keeper. */
byte token[N], asked[N], deadline[N];
bit alive[N] = 1, holding[N], finished[N];
byte k_token, k_asked, k_deadline;
bit keeper, handed = !KEEPERS;

/* The network: one copy that is late, and what may still go wrong. */
byte late_what, late_token;
byte copies = COPIES, losses = LOSSES, crashes = CRASHES;
byte restarts = RESTARTS, unshares = UNSHARES, saves = OLD;

#define kept (keeper && k_deadline > 0 && k_token == token[0])
#define owns(p) (klock[HOST(p)] == (p) + 1 && \
		 ((alive[p] && holding[p] && deadline[p] > 0) || \
		  ((p) == 0 && kept)))
#define ended(p) (finished[p] || !alive[p])
#define all_ended (ended(0) && ended(1) && ended(2) && !keeper)

/* Property 1. */
#define one_owner !((owns(0) || owns(1)) && owns(2))

/*
 * Why `since` (DESIGN L3):
 *
 *	process 0			process 1 (same host)
 *	lock, ASK with proof -> (late)
 *	gives up: unlock
 *					lock, ASK: granted
 *	the late ASK arrives: process 1's lease is thrown out, alive
 */
#ifdef BUG_SINCE
#define older(t, than) 1
#else
#define older(t, than) (SINCE(t) < SINCE(than))
#endif
#define dead(t) (HOST(PROC(key)) == HOST(PROC(t)) && older(key, t))

#if OLD
#define outdated(t) (key != t && window == 1 && left <= window)
#else
#define outdated(t) 0
#endif

inline execute(what, t, answer)
{
	d_step {
		SAY(what, t);
		if
		:: what == ASK && !loaded -> answer = NOSCRIPT
		:: what == ASK && loaded && key == t ->
			answer = OK;
#ifndef BUG_RESEND
			left = TTL
#endif
		:: what == ASK && loaded && key == 0 ->
			key = t; left = TTL; answer = OK
		:: what == ASK && loaded && key != 0 && key != t ->
			if
			:: dead(t) ->	/* PROOF */
				STRICT(!owns(PROC(key)) ||
				       key != token[PROC(key)]);
				key = t; left = TTL; answer = OK
			:: else -> answer = BUSY
			fi
		:: what == RENEW && key == t -> left = TTL; answer = OK
		:: what == RENEW && key == 0 -> answer = GONE
		:: what == RENEW && key != 0 && key != t -> answer = BUSY
		:: what == RECLAIM && key == 0 ->
			key = t; left = TTL; answer = OK
		:: what == RECLAIM && key != 0 && outdated(t) ->
			/* (Its owner may live: he would have renewed.) */
			key = t; left = TTL; answer = OK
		:: what == RECLAIM && key != 0 && !outdated(t) -> answer = BUSY
		:: what == RELEASE ->
			if
			:: key == t -> key = 0; left = 0
			:: else
			fi;
			answer = OK
		fi
	}
}

/* Sent: the time counts from here, and a copy may be on its way. */
inline send(what, t, since_sent)
{
	atomic {
		since_sent = TTL;
		if
		:: copies > 0 && late_what == 0 && (!COPY || what == COPY) ->
			copies--; late_what = what; late_token = t
		:: true
		fi
	}
}

/* The request is lost; or it is executed, and the answer is lost; or not. */
inline call(what, t, answer)
{
	atomic {
		if
		:: losses > 0 -> losses--; answer = UNSURE
		:: losses > 0 -> losses--; execute(what, t, answer);
			answer = UNSURE
		:: execute(what, t, answer)
		fi
	}
}

/* A renewal's answer: it is to be put back, if the server is young. */
#define lacks(answer) (answer == GONE || (OLD && answer == BUSY))

/* How old it is (INFO, young.lua). */
inline look()
{
	d_step {
		if
		:: unseen -> unseen = 0; window = TTL
		:: else
		fi
	}
}

/* KEEP: as long as nobody is granted it, for who has it yet. */
#ifdef BUG_KEEP
#define kept_ticks TTL
#else
#define kept_ticks window
#endif
inline keep(its_deadline)
{
	d_step {
		if
		:: OLD && window > 0 && its_deadline > 0 &&
		   its_deadline < kept_ticks -> its_deadline = kept_ticks
		:: else
		fi
	}
}

inline unlock(p)
{
	d_step {
		if
		:: klock[HOST(p)] == p + 1 -> klock[HOST(p)] = 0
		:: else
		fi
	}
}

/* `since`: later than that of any token of the host that is still about. */
#define later(t)                                                      \
	if                                                            \
	:: t != 0 && HOST(PROC(t)) == HOST(p) && SINCE(t) > since ->  \
		since = SINCE(t)                                      \
	:: else                                                       \
	fi
inline new_token(p)
{
	d_step {
		since = 0;
		later(key); later(saved); later(late_token); later(k_token);
		later(token[0]); later(token[1]); later(token[2]);
		token[p] = TOKEN(p, since + 1);
		since = 0
	}
}

/* A process is gone: its description too, unless a keeper's child has it. */
inline die(p)
{
	SAY(DIES, p + 1);
	alive[p] = 0; deadline[p] = 0; asked[p] = 0;
	if
	:: klock[HOST(p)] == p + 1 && !(p == 0 && kept) -> klock[HOST(p)] = 0
	:: else
	fi
}

proctype Process(byte p)
{
	byte answer, rounds = ROUNDS, renewals, seen, since;
	bit at;

	{
		true;
again:		if
		:: rounds == 0 -> goto over
		:: atomic { rounds > 0 && klock[HOST(p)] == 0 ->
			klock[HOST(p)] = p + 1;		/* KLOCK */
#if !UNSHARES
			new_token(p); send(ASK, token[p], asked[p])
#endif
			}
		fi;
#if UNSHARES
		atomic { new_token(p) };		/* SINCE */
		atomic {
			if
#ifndef BUG_LOOK
			:: klock[HOST(p)] != p + 1 ->	/* LOOK */
				token[p] = 0;
				goto again
			:: else
#else
			:: true
#endif
			fi;
			send(ASK, token[p], asked[p])
		};
#endif
		goto sent;
ask:		send(ASK, token[p], asked[p]);
sent:		call(ASK, token[p], answer);
		if
		:: answer == UNSURE -> goto ask		/* RESEND */
		:: answer == UNSURE -> goto release	/* DISOWN */
		:: answer == NOSCRIPT ->
			atomic { look(); at = epoch; seen = window }; /* INFO */
			if
			:: seen > 0 ->			/* YOUNG */
				atomic { seen = 0; asked[p] = 0; unlock(p) };
				window == 0;
				goto again
			:: else ->			/* LOAD */
				d_step {
					if
#ifndef BUG_LOAD
					:: epoch == at -> loaded = 1
#else
					:: loaded = 1
#endif
					:: else
					fi
				};
				goto ask
			fi
		:: answer == BUSY ->
			atomic {
				seen = key; asked[p] = 0; answer = 0;
				unlock(p)
			};
			atomic {
				key != seen || key == 0;
				seen = 0;
				goto again
			}
		:: atomic { answer == OK ->
			if
#ifdef BUG_REPLY
			:: true -> asked[p] = TTL
#else
			:: asked[p] > 0
			:: else -> goto release		/* LATE */
#endif
			fi;
			deadline[p] = asked[p];		/* GRANT */
			asked[p] = 0; answer = 0;
			holding[p] = 1; renewals = (p == 0 -> RENEWALS : 0);
			SAY(OWN, token[p]);
			CHECK(one_owner) }
		fi;
		do
		:: renewals > 0 && klock[HOST(p)] == p + 1 ->
			renewals--;
			send(RENEW, token[p], asked[p]);
			call(RENEW, token[p], answer);
			if
			:: lacks(answer) -> look()
			:: else
			fi;
			if
			:: lacks(answer) && window > 0 && deadline[p] > 0 ->
				keep(deadline[p]);
				send(RECLAIM, token[p], asked[p]);
				call(RECLAIM, token[p], answer)
			:: else
			fi;
			d_step {
				if
				:: answer == OK && asked[p] > deadline[p] ->
					deadline[p] = asked[p]
				:: else
				fi;
				asked[p] = 0; answer = 0
			}
		:: atomic { p == 0 && !handed && klock[0] == 1 ->
			handed = 1; keeper = 1;		/* HANDOVER */
			k_token = token[0];
#ifdef BUG_HANDOVER
			k_deadline = TTL
#else
			k_deadline = deadline[0]
#endif
			}
		:: break
		od;
release:	atomic { holding[p] = 0; deadline[p] = 0; rounds--;
			renewals = 0; answer = 0;
			send(RELEASE, token[p], asked[p]); asked[p] = 0;
			unlock(p) };			/* UNLOCK */
		do
		:: call(RELEASE, token[p], answer);
			if
			:: answer == OK -> break
			:: else
			fi
		od;
		atomic { answer = 0; token[p] = 0; goto again }
	} unless { !alive[p] };
over:	atomic { finished[p] = 1; answer = 0; renewals = 0; seen = 0; at = 0;
		rounds = 0; token[p] = (p == 0 && keeper -> token[p] : 0) }
}

/* Sleeps in the kernel for the lock it guards; renews while that is there. */
proctype Keeper()
{
	byte answer;

	keeper;
	{
		do
#ifdef BUG_BLIND
		:: true ->
#else
		:: klock[0] == 1 ->
#endif
			send(RENEW, k_token, k_asked);
			call(RENEW, k_token, answer);
			if
			:: lacks(answer) -> look()
			:: else
			fi;
			if
			:: lacks(answer) && window > 0 && k_deadline > 0 ->
				keep(k_deadline);
				send(RECLAIM, k_token, k_asked);
				call(RECLAIM, k_token, answer)
			:: else
			fi;
			d_step {
				if
				:: answer == OK && k_asked > k_deadline ->
					k_deadline = k_asked
				:: else
				fi;
				k_asked = 0; answer = 0
			}
#ifndef BUG_BLIND
		:: atomic { klock[0] != 1 -> k_deadline = 0; break }	/* ENDED */
#endif
		od;
		do
		:: call(RELEASE, k_token, answer);
			if
			:: answer == OK -> break
			:: else
			fi
		od;
		atomic { keeper = 0; answer = 0 }
	} unless { !keeper };
	atomic { k_token = 0; k_asked = 0; k_deadline = 0; answer = 0 }
}

/* The child ends when it likes. */
proctype Child()
{
	do
	:: atomic { !alive[0] && klock[0] == 1 -> klock[0] = 0 }
	od
}

#define count(t)                       \
	if                             \
	:: t > 0 -> t = t - 1          \
	:: else                        \
	fi
#define count_process(p)                                  \
	count(asked[p]);                                  \
	if                                                \
	:: deadline[p] > 0 ->                             \
		deadline[p] = deadline[p] - 1;            \
		if                                        \
		:: deadline[p] == 0 -> die(p) /* KILL */  \
		:: else                                   \
		fi                                        \
	:: else                                           \
	fi

proctype Clock()
{
	do
	:: d_step {
		SAY(TICK, 0);
		count(k_asked);
		if
		:: k_deadline > 0 -> k_deadline--
		:: else
		fi;
		count_process(0);
		count_process(1);
		count_process(2);
		if
		:: keeper && k_deadline == 0 && klock[0] == 1 ->
			keeper = 0;	/* KILL, those who share */
			if
			:: !alive[0] || deadline[0] == 0 -> klock[0] = 0
			:: else
			fi
		:: else
		fi;
		count(window);
		count(left);
		if
		:: left == 0 -> key = 0		/* EXPIRE */
		:: else
		fi;
		count(saved_left);
		if
		:: saved_left == 0 -> saved = 0
		:: else
		fi
	}
	od
}

proctype Network()
{
	byte answer;

	do
	:: atomic { late_what != 0 ->
		execute(late_what, late_token, answer);
		late_what = 0; late_token = 0; answer = 0 }
	od
}

proctype Trouble()
{
	do
#if FAIR
	:: break	/* or a fair run would have it all */
#endif
	:: atomic { crashes > 0 && alive[0] ->		/* CRASH */
		crashes--; die(0) }
	:: atomic { crashes > 0 && alive[1] -> crashes--; die(1) }
	:: atomic { crashes > 0 && alive[2] -> crashes--; die(2) }
	:: atomic { restarts > 0 ->			/* RESTART */
		restarts--; key = saved; left = saved_left;
		saved = 0; saved_left = 0;
		loaded = 0; epoch = !epoch;
#if PROMOTED
#ifndef BUG_UPTIME
		unseen = 1;
#endif
		window = 0
#else
#ifdef BUG_DELAY
		window = 0
#else
		window = TTL
#endif
#endif
		}
	:: atomic { saves > 0 && restarts > 0 ->	/* SAVE */
		saves--; saved = key; saved_left = left }
#ifdef BUG_STRANGER
	:: atomic { !loaded -> loaded = 1 }	/* his delay is none */
#endif
	:: atomic { unshares > 0 && klock[0] == 1 ->	/* UNSHARE */
		unshares--; klock[0] = 0 }
	od
}

init {
	atomic {
		run Process(0); run Process(2);
#if NEIGHBOUR
		run Process(1);
#else
		finished[1] = 1;
#endif
#if KEEPERS
		run Keeper(); run Child();
#endif
		run Clock(); run Network(); run Trouble()
	}
}

#ifdef FINISH
ltl served { <> all_ended }
#endif
#ifdef EMPTY
ltl forgotten { <> [] (key == 0) }
#endif
