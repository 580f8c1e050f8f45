/* SPDX-License-Identifier: MIT */
/*
 * The grant queue for exclusive leases: DESIGN section 4, L1, L3, L5.
 *
 * Three clients; 0 and 1 are of one host with one file, 2 is of another (or
 * each of its own, -DSPREAD=1).  A lease is asked for, waited for, held, given
 * back.  What lease.pml looks at (renewals, keepers) is not here, so that the
 * states can be counted.
 *
 * The transitions, as the C and the Lua name them (those of lease.pml apart:
 * KLOCK, SINCE, GRANT, LATE, PROOF, RECLAIM, KILL, EXPIRE, RESTART, CRASH):
 *
 *	ASK	 acquire.lua: the key if it is free and nobody lives in the
 *		 queue before us; a free key goes to the head; else JOIN
 *	JOIN	 a place at the tail, and who waits there: (digits, number)
 *	SERVE	 the free key becomes the claim of the first who lives
 *	WAKE	 PUBLISH to the waiter: the digits and the number of its wait
 *	SKIP	 an entry that is stale, or whose channel nobody hears
 *	HEARTBEAT queue.lua heartbeat: refresh, or JOIN again; SERVE a free key
 *	CLAIMED	 the answer of HEARTBEAT "the claim is yours"
 *	OWN	 woken, kernel's lock in hand, by the count of the wait that
 *		 the wake names: no word with the server
 *	CONFIRM	 a renewal that finds the claim: the lease, with the full ttl
 *	HINT	 a wake that names another wait, or too late: CONFIRM first
 *	STRANGE	 a local program that is not preloaded is in the way
 *	YIELD	 the claim is given back, the place at the front kept, under
 *		 new digits
 *	CANCEL	 cancel: the entry, or the claim, is deleted; SERVE
 *	RELEASE	 compare and delete, claim or lease; SERVE
 *	STALE	 the life of an entry ends
 *	FORGET	 the life of the whole queue ends
 *	DEAF	 a live waiter's subscription is lost
 *	LOST	 a wake is lost
 *
 * Every waiting request (ASK, HEARTBEAT, YIELD) has a number of its own, a resend
 * too.  The model keeps one bit of it, "this is the latest that was sent".
 * The entry keeps the number of the last wait, and the wake names it:
 *
 *	waiter				server
 *	ASK, number 1 ->		JOIN
 *	(stopped)			SERVE: the claim, WAKE with digits, 1
 *					EXPIRE: the claim is gone; another owns
 *	HEARTBEAT, number 2 ->		JOIN again, the same digits
 *	reads WAKE: with the digits
 *	alone, the claim would count
 *	from number 2, and is nobody's
 *
 * By the number it counts from 1, whose time is over: a HINT.  A claim that
 * follows wait n was set after n was executed, so it lasts longer than the
 * count from the sending of n.  (BUG_WAKE)
 *
 * YIELD changes the digits, for what is sent may be late (the C does where it
 * cannot know that there is no copy):
 *
 *	waiter				server
 *	WAKE; STRANGE; YIELD ->		(late)
 *	kernel's lock, ASK ->		BUSY: stays in the queue
 *					SERVE: the claim, once more
 *	WAKE, OWN
 *					YIELD: a claim of those digits is there,
 *					SERVE: two own it  (BUG_PASS)
 *
 * HEARTBEAT leaves the key with at least a claim's life, never with less than it
 * had.  What it finds may be a lease (an ASK of ours that was late, a CONFIRM)
 * with more (BUG_STAY: shortened) or less (BUG_EXTEND: the waiter counts on a
 * claim's life from now) than that.
 *
 * CONFIRM compares, like any renewal:
 *
 *	waiter				server
 *	OWN; CONFIRM ->			(late)
 *	RELEASE ->			SERVE: the next one's claim
 *	no answer			CONFIRM creates a lease nobody holds
 *	RELEASE ->			SERVE: two own it  (BUG_CONFIRM)
 *
 * Not here: shared and range waiters, LOCK_NB (an ASK without JOIN), interop,
 * foreign holders.
 */
#include "model.h"

#ifndef TTL
#define TTL 2
#endif
#ifndef C
#define C 1
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef FAR
#define FAR ROUNDS
#endif

#define N 3
#if SPREAD
#define HOST(p) (p)
#else
#define HOST(p) ((p) / 2)
#endif
#define WHO(t) ((t) % 4 - 1)
#define STRANGER 9

/* The server: the key, and the queue: who, how long, is it the latest wait? */
#define PLACES 4
byte key, left, key_since, window;
bit claim;
byte q[PLACES], life[PLACES], length, forget;
bit latest[PLACES], hears[N] = 1;

/* The hosts. */
byte klock[3];

/* The clients: the digits; times left, counted from the last sending, from
 * the last wait that came back empty, and as an owner. */
byte token[N], since[N], asked[N], waited[N], deadline[N];
bit alive[N] = 1, holding[N], finished[N];
byte wake[N];
bit wake_latest[N];

/* The network: one copy that is late, and what may still go wrong. */
byte late_what, late_token, late_new, late_since;
bit late_latest;
byte copies = COPIES, losses = LOSSES, crashes = CRASHES, deaf = DEAF;
byte restarts = RESTARTS, strangers = STRANGERS, cancels = CANCELS;

#define owns(p) (klock[HOST(p)] == (p) + 1 && alive[p] && holding[p] && \
		 deadline[p] > 0)
#define ended(p) (finished[p] || !alive[p])
#define one_owner (owns(0) + owns(1) + owns(2) <= 1)

/* Scratch of single steps, no state. */
hidden byte i, n, e, f;

inline drop(at)
{
	n = at;
	do
	:: n + 1 < length ->
		q[n] = q[n + 1]; life[n] = life[n + 1];
		latest[n] = latest[n + 1]; n++
	:: else -> break
	od;
	length--;
	q[length] = 0; life[length] = 0; latest[length] = 0;
	if
	:: length == 0 -> forget = 0
	:: else
	fi
}

inline find(t)
{
	i = 0;
	do
	:: i < length && q[i] != t -> i++
	:: else -> break
	od
}

inline remove(t)
{
	find(t);
	if
	:: i < length -> drop(i)
	:: else
	fi
}

inline join(t, is_latest)
{
	find(t);
	if
	:: i == length && length == PLACES ->
		assert(life[0] == 0); drop(0);
		i = length
	:: else
	fi;
	if
	:: i == length -> length++
	:: else
	fi;
	q[i] = t; life[i] = C; latest[i] = is_latest;
#ifdef EMPTY
	forget = 2 * C
#else
	skip
#endif
}

/* SERVE */
inline serve()
{
	do
	:: key != 0 || length == 0 || window > 0 -> break
	:: else ->
		e = q[0]; f = latest[0]; i = life[0];
		drop(0);
		if
		:: i > 0 && hears[WHO(e)] ->
			key = e; claim = 1; left = C; key_since = 0;
			SAY(SERVE, e);
			if		/* WAKE */
			:: ended(WHO(e))
			:: else -> wake[WHO(e)] = e;
				wake_latest[WHO(e)] = f
			fi
		:: else		/* SKIP */
		fi
	od
}

inline free_key()
{
	key = 0; left = 0; claim = 0; key_since = 0
}

inline take_key(t, s)
{
	key = t; left = TTL; claim = 0; key_since = s
}

/*
 * A claim is no proof's to take (DESIGN L3):
 *
 *	waiter (granted, wakes up)	asker of the same host
 *					lock, ASK: sees an older lease of
 *					its own host and file
 *	lock: it is ours		gives the lock back
 *					the claim is gone: the next is served
 */
#ifdef BUG_PROOF
#define is_claim 0
#else
#define is_claim claim
#endif

inline execute(what, t, new, s, is_latest, answer)
{
	d_step {
		SAY(what, t);
		if
		:: what <= HEARTBEAT && window > 0 -> answer = YOUNG
		:: what == ASK && window == 0 ->
			if
			:: key != 0 && key != t && !is_claim &&
			   HOST(WHO(key)) == HOST(WHO(t)) && key_since < s ->
				STRICT(!owns(WHO(key)) ||
				       key != token[WHO(key)]);
				free_key()	/* PROOF */
			:: else
			fi;
#ifndef BUG_NEWCOMER
			if
			:: key == 0 && length > 0 && q[0] != t -> serve()
			:: else
			fi;
#endif
			if
			:: key == 0 || key == t ->
				remove(t); take_key(t, s); answer = OK
			:: else -> join(t, is_latest); answer = BUSY
			fi
		:: what == HEARTBEAT && window == 0 ->
			if
			:: key == t
			:: else -> join(t, is_latest);
				if
				:: key == 0 -> serve()
				:: else
				fi
			fi;
			if
			:: key == t ->
				answer = OK;
				if
#ifdef BUG_STAY
				:: true -> left = C
#elif defined(BUG_EXTEND)
				:: claim -> left = C
				:: else
#else
				:: left < C -> left = C
				:: else
#endif
				fi
			:: else -> answer = BUSY
			fi
#ifdef BUG_CONFIRM
		:: what == RENEW -> take_key(t, s); answer = OK
#else
		:: what == RENEW && key == t ->
			take_key(t, s); answer = OK
		:: what == RENEW && key != t -> answer = GONE
#endif
		:: what == RECLAIM ->
			if
			:: key == 0 || key == t -> take_key(t, s); answer = OK
			:: else -> answer = GONE
			fi
		:: what == RELEASE ->
			if
			:: key == t ->
				free_key();
#ifdef BUG_NEWCOMER
				if
				:: length > 0 -> wake[WHO(q[0])] = q[0]
				:: else
				fi
#else
				serve()
#endif
			:: else
			fi;
			answer = OK
		:: what == CANCEL ->
			remove(t);
			if
			:: key == t -> free_key(); serve()
			:: else
			fi;
			answer = OK
		:: what == YIELD ->
			answer = GONE;
			if
			:: key == t && claim ->
				free_key(); serve();
				join(new, is_latest);
				/* from the tail to the front */
				i = length - 1;
				do
				:: i > 0 ->
					q[i] = q[i - 1];
					life[i] = life[i - 1];
					latest[i] = latest[i - 1];
					i--
				:: else -> break
				od;
				q[0] = new; life[0] = C;
				latest[0] = is_latest;
				answer = BUSY
			:: else
			fi
		fi;
		i = 0; n = 0; e = 0; f = 0
	}
}

/*
 * Sent: the time counts from here, and a copy may be on its way.  A wait has a
 * number of its own: what is about of earlier waits is no longer the latest.
 */
inline send(what, new)
{
	atomic {
		asked[p] = TTL;
		d_step {
			if
			:: what == ASK || what == HEARTBEAT || what == YIELD ->
				wake_latest[p] = 0;
				if
				:: late_what && WHO(late_token) == p ->
					late_latest = 0
				:: else
				fi;
				i = 0;
				do
				:: i < length ->
					if
					:: WHO(q[i]) == p -> latest[i] = 0
					:: else
					fi;
					i++
				:: else -> break
				od;
				i = 0
			:: else
			fi
		};
		if
		:: copies > 0 && late_what == 0 && (!COPY || what == COPY) ->
			copies--; late_what = what; late_token = token[p];
			late_new = new; late_since = since[p];
			late_latest = 1
		:: true
		fi
	}
}

/* The request is lost; or it is executed, and the answer is lost; or not. */
inline call(what, new)
{
	atomic {
		if
		:: fate = 0
		:: losses > 0 -> losses--; fate = 1
		:: losses > 0 -> losses--; fate = 2
		fi;
		if
		:: fate != 1 ->
			execute(what, token[p], new, since[p], 1, answer)
		:: else
		fi;
		if
		:: fate != 0 -> answer = UNSURE
		:: else
		fi;
		fate = 0
	}
}

inline unlock()
{
	d_step {
		since[p] = 0;
		if
		:: klock[HOST(p)] == p + 1 -> klock[HOST(p)] = 0
		:: else
		fi
	}
}

#define later(s, t)                                                    \
	if                                                             \
	:: t != 0 && HOST(WHO(t)) == HOST(p) && s > since[p] ->        \
		since[p] = s                                           \
	:: else                                                        \
	fi
inline lock()
{
	d_step {
		klock[HOST(p)] = p + 1;
		since[p] = 0;
		later(key_since, key); later(late_since, late_token);
		later(since[0], 1); later(since[1], 2); later(since[2], 3);
		since[p]++
	}
}

inline new_digits()
{
	token[p] = (token[p] == 0 -> p + 1 : (token[p] + 4) % 16)
}
#ifdef BUG_PASS
#define next_digits token[p]
#else
#define next_digits ((token[p] + 4) % 16)
#endif

/* A count of a request as that of a claim that was set after it was sent. */
#define claim_left (asked[p] > TTL - C -> asked[p] - (TTL - C) : 0)

#ifdef PROMPT
#define rest(s) resting[p] = s
#define SLEEP 1
#define BLOCKED 2
#define HOLD 3
byte resting[N];
bit due[N];
#define is_due due[p]
#define quiet(p)                                                        \
	(ended(p) || resting[p] == HOLD ||                              \
	 resting[p] == SLEEP && wake[p] != token[p] && !due[p] ||         \
	 resting[p] == BLOCKED && klock[HOST(p)] != 0)
#else
#define rest(s) skip
#define is_due true
#endif

inline grant(count)
{
	deadline[p] = count; holding[p] = 1;
	asked[p] = 0; waited[p] = 0; answer = 0;
	SAY(OWN, token[p]);
	CHECK(one_owner)
}

inline kernel_wait()
{
	rest(BLOCKED);
	atomic { klock[HOST(p)] == 0 -> lock(); rest(0) }
}

proctype Client(byte p)
{
	byte answer, fate;
	byte rounds = (p == 0 -> ROUNDS : (p == 1 -> NEIGHBOUR : FAR));
	bit counted, confirmed;

	{
		true;
again:		if
		:: rounds == 0 -> goto over
		:: rounds > 0 ->
			rest(BLOCKED);
			atomic { klock[HOST(p)] == 0 -> lock();	/* KLOCK */
				rest(0); new_digits();
				hears[p] = 1; send(ASK, 0) };
			goto sent
		fi;
ask:		atomic { hears[p] = 1; send(ASK, 0) };
sent:		call(ASK, 0);
		if
		:: answer == UNSURE -> goto ask
		:: answer == YOUNG ->
			atomic { asked[p] = 0; answer = 0; unlock() };
			rest(HOLD);
			atomic { window == 0; rest(0); goto again }
		:: atomic { answer == OK && asked[p] == 0 ->	/* LATE */
			goto release }
		:: atomic { answer == OK && asked[p] > 0 ->	/* GRANT */
			grant(asked[p]); confirmed = 1; goto hold }
		:: atomic { answer == BUSY ->			/* JOIN */
			waited[p] = claim_left; counted = 1;
			asked[p] = 0; answer = 0; unlock() }
		fi;
wait:		atomic {
#ifdef PROMPT
			due[p] = 0;
#endif
			rest(SLEEP) };
		if
		:: atomic { wake[p] != 0 && wake[p] != token[p] ->
			wake[p] = 0; wake_latest[p] = 0; goto wait }
		:: atomic { wake[p] != 0 && wake[p] == token[p] ->
			rest(0);
#if defined(BUG_COUNT) || defined(BUG_WAKE)
			SAY(WOKEN, token[p]);
#endif
#ifdef BUG_COUNT
			waited[p] = C;
#endif
#ifndef BUG_WAKE
			if
			:: wake_latest[p] && counted -> SAY(WOKEN, token[p])
			:: else -> waited[p] = 0	/* HINT */
			fi;
#endif
			wake[p] = 0; wake_latest[p] = 0 }
#ifndef BUG_REFRESH
		:: atomic { is_due -> rest(0) }
			atomic { hears[p] = 1;
				counted = 0; send(HEARTBEAT, 0) };
			call(HEARTBEAT, 0);
			if
			:: atomic { answer == BUSY ->
				waited[p] = claim_left; counted = 1;
				asked[p] = 0; answer = 0; goto wait }
			:: atomic { answer == OK ->		/* CLAIMED */
				waited[p] = claim_left; counted = 1;
				asked[p] = 0; answer = 0 }
			:: atomic { answer == UNSURE || answer == YOUNG ->
				asked[p] = 0; answer = 0; goto wait }
			fi
#endif
		:: atomic { cancels > 0 -> cancels--;		/* CANCEL */
			rest(0); send(CANCEL, 0) };
			call(CANCEL, 0);
			goto done
		fi;
		if
		:: atomic { klock[HOST(p)] == 0 -> lock() }
		:: atomic { klock[HOST(p)] == STRANGER ->	/* STRANGE */
			waited[p] = 0; counted = 0; send(YIELD, next_digits) };
			call(YIELD, next_digits);
			atomic { token[p] = next_digits; answer = 0;
				asked[p] = 0 };
			kernel_wait();
			goto ask
		fi;
		if
		:: atomic { waited[p] > 0 ->			/* OWN */
			grant(waited[p]); confirmed = 0; goto hold }
		:: atomic { waited[p] == 0 ->			/* HINT */
			send(RENEW, 0) };
			call(RENEW, 0);
			if
			:: atomic { answer == OK && asked[p] > 0 ->
				grant(asked[p]); confirmed = 1; goto hold }
			:: atomic { answer == OK && asked[p] == 0 ->
				goto release }
			:: atomic { answer == GONE || answer == UNSURE ->
				unlock(); asked[p] = 0; answer = 0;
				counted = 0; goto wait }
			fi
		fi;
hold:		rest(HOLD);
		do
		:: atomic { !confirmed ->			/* CONFIRM */
			confirmed = 1; send(RENEW, 0) };
			call(RENEW, 0);
			if
			:: answer == GONE && window > 0 ->
				send(RECLAIM, 0);
				call(RECLAIM, 0)
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
		:: break
		od;
release:	atomic { holding[p] = 0; deadline[p] = 0; answer = 0; rest(0);
			send(RELEASE, 0); asked[p] = 0; unlock() };
		do
		:: call(RELEASE, 0);
			if
			:: answer == OK -> break
			:: else
			fi
		od;
done:		atomic {
			answer = 0; waited[p] = 0; asked[p] = 0;
			counted = 0; confirmed = 0;
#if FOREVER
			if
			:: p < FOREVER
			:: else -> rounds--
			fi;
#else
			rounds--;
#endif
			goto again
		}
	} unless { !alive[p] };
over:	atomic { finished[p] = 1; answer = 0; rounds = 0; fate = 0;
		counted = 0; confirmed = 0; wake[p] = 0; wake_latest[p] = 0;
		token[p] = 0 }
}

inline die(p)
{
	SAY(DIES, p + 1);
	alive[p] = 0; deadline[p] = 0; asked[p] = 0; waited[p] = 0;
	since[p] = 0;
	if
	:: klock[HOST(p)] == p + 1 -> klock[HOST(p)] = 0
	:: else
	fi
}

#define count(t)                       \
	if                             \
	:: t > 0 -> t = t - 1          \
	:: else                        \
	fi
#define count_client(p)                                   \
	count(asked[p]);                                  \
	count(waited[p]);                                 \
	if                                                \
	:: deadline[p] > 0 ->                             \
		deadline[p] = deadline[p] - 1;            \
		if                                        \
		:: deadline[p] == 0 -> die(p) /* KILL */  \
		:: else                                   \
		fi                                        \
	:: else                                           \
	fi

#ifdef PROMPT
#define may_tick (quiet(0) && quiet(1) && quiet(2))
#else
#define may_tick true
#endif

proctype Clock()
{
	do
	:: d_step { may_tick -> SAY(TICK, 0);
		count_client(0); count_client(1); count_client(2);
#ifdef PROMPT
		due[0] = resting[0] == SLEEP;
		due[1] = resting[1] == SLEEP;
		due[2] = resting[2] == SLEEP;
#endif
		i = 0;
		do
		:: i < PLACES ->
			count(life[i]);		/* STALE */
			i++
		:: else -> break
		od;
		i = 0;
		count(window);
		count(left);
		if
		:: left == 0 -> free_key()	/* EXPIRE */
		:: else
		fi;
#if defined(EMPTY) && !defined(BUG_FORGET)
		count(forget);
		if
		:: forget == 0 && length > 0 ->	/* FORGET */
			do
			:: length > 0 -> drop(0)
			:: else -> break
			od;
			n = 0
		:: else
		fi
#endif
	}
	od
}

proctype Network()
{
	byte answer;

	do
	:: atomic { late_what != 0 ->
		execute(late_what, late_token, late_new, late_since,
			late_latest, answer);
		late_what = 0; late_token = 0; late_new = 0;
		late_since = 0; late_latest = 0; answer = 0 }
	od
}

/* LOST.  Where nobody must come to an end, a wake that is never read is lost. */
proctype Loss()
{
	do
	:: atomic { wake[0] != 0 -> wake[0] = 0; wake_latest[0] = 0 }
	:: atomic { wake[1] != 0 -> wake[1] = 0; wake_latest[1] = 0 }
	:: atomic { wake[2] != 0 -> wake[2] = 0; wake_latest[2] = 0 }
#if FAIR
	:: break
#endif
	od
}

/* CRASH, and the server knows or does not know that nobody hears. */
#define crash(p)                                                  \
	atomic { crashes > 0 && alive[p] ->                       \
		crashes--; die(p);                                \
		if                                                \
		:: hears[p] = 0                                   \
		:: true                                           \
		fi }

proctype Trouble()
{
	do
#if FAIR
	:: break	/* or a fair run would have it all */
#endif
#ifndef VICTIM
	:: crash(0)
	:: crash(1)
	:: crash(2)
#else
	:: crash(VICTIM)
#endif
	:: atomic { deaf > 0 -> deaf--;			/* DEAF */
		if
		:: hears[0] = 0
		:: hears[1] = 0
		:: hears[2] = 0
		fi }
	:: d_step { restarts > 0 ->			/* RESTART */
		restarts--; free_key();
		do
		:: length > 0 -> drop(0)
		:: else -> break
		od;
		n = 0;
		hears[0] = 0; hears[1] = 0; hears[2] = 0;
#ifndef BUG_DELAY
		window = TTL
#endif
		}
	:: atomic { strangers > 0 && klock[0] == 0 ->	/* STRANGE */
		strangers--; klock[0] = STRANGER }
	od
}

proctype Stranger()
{
	do
	:: atomic { klock[0] == STRANGER -> klock[0] = 0 }
	od
}

init {
	atomic {
		run Client(0); run Client(2);
#if NEIGHBOUR
		run Client(1);
#else
		finished[1] = 1;
#endif
		run Clock();
#if COPIES
		run Network();
#endif
#if FAIR
		run Loss();
#endif
#if STRANGERS
		run Stranger();
#endif
		run Trouble()
	}
}

#define all_ended (ended(0) && ended(1) && ended(2))
#ifdef FINISH
ltl served { <> (ended(2) && (FOREVER || all_ended)) }
#endif
#ifdef EMPTY
ltl forgotten { <> [] (key == 0 && length == 0) }
#endif
