#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [ASK] Ask for a range, with all that its owner has already: granted whole, or
-- nothing changes.  What the owner has there is replaced, up or down.  If it is
-- refused, queue (DESIGN 4).  [CONFIRM] What its claim holds becomes its own.
--
-- KEYS    1 the lease  2 its ranges  3 its queue  4 the gate (gate.inc), or none
-- ARGV    1 token  2 ttl (ms)  3 " HOST FILE " of the request
--         4 since (20 digits) of this kernel grant
--         5 "1": it is a proof of death (DESIGN L3), or ""; "own": the
--         process had it before an execve(2) ([ADOPT]); "rest": and what else
--         it has under older tokens ends; "share": others have some of it by
--         the same description, and are taken over, but alive; nothing of
--         it is free, so no waiter is granted it, nor if it is refused
--         6 sequence number (20 digits)
--         7 "1": the owner knows that it holds something, or ""
--         8 type, start, end (R or W, 19 digits each)
--         9 "fair" and "interop", "junior" or "senior" (senior.inc), or ""
--         10 the claim of the request's place in the queue, or "" for none
--         11 its ticket, or "" if it has none yet
--         12 its channel, or "": it does not wait
--         13 its life (ms)
--         14 '+' if the process holds some lock, of whatever file, or '-'
--         15 how it lingers (linger.inc), or none
--
-- {1, 0, '', '', 0, 0}         granted; the ttl is new
-- {1, 1, '', '', 0, 0}         granted; what a dead owner had there is gone
-- {0, ttl left, token, range, ticket, ahead}
--                              somebody's range is in the way, or is to be
--                              first; -1: without a ttl, or the index is
--                              damaged; 0: ask again at once, for no more than
--                              1,000 ranges of the dead are swept by a call;
--                              token '' if it is longer than any of ours, or
--                              unknown; ticket 0: not queued
-- {2, 0, type, '', 0, 0}       the key is no lease
-- {3, 0, number, '', 0, 0}     a later request was here first, of that number
-- {4, 0, '', '', 0, 0}         the owner holds nothing (any more)
local gate = KEYS[4]
--include gate.inc
--include senior.inc
if ARGV[6] == '00000000000000000001'
   and ARGV[8] == 'W00000000000000000009223372036854775807' and not ARGV[15]
   and redis.call('EXISTS', KEYS[3]) == 0 and not senior(ARGV[9])
   and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	drop_mark(ARGV[9], ARGV[8])
	return { 1, 0, '', '', 0, 0 }
end
--include records_queue.inc
--include moving.inc
local token, ttl, since, seq = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[6]
local id, want, known = id_of(token), range(ARGV[8], 1), ARGV[7] ~= ''
local options, claim, ticket = ARGV[9], ARGV[10], ARGV[11]
local holds, lingering = ARGV[14], lingers(ARGV[15])
local waits = redis.call('EXISTS', queue) == 1
local granted = { 1, 0, '', '', 0, 0 }

local function dead(o)
	-- A claim of our own process (POSIX: the first digits): no matter.
	return here(o.token, ARGV[3])
	       and (ARGV[5] ~= '' and o.since < since
		    or o.since == NEVER
		       and string.sub(o.id, 1, 16) == string.sub(id, 1, 16))
end

-- [ADOPT] Of a process (the first digits) that has become another program, what
-- the one before had: the kernel's locks are this one's.  Nothing of it was
-- free, so no waiter is granted it.
local function adopt()
	for _, other in ipairs(redis.call('HKEYS', key)) do
		local o = other ~= id
			  and string.sub(other, 1, 16) == string.sub(id, 1, 16)
			  and owner(other)
		if o and here(o.token, ARGV[3]) and o.since < since then
			while cut(other, ZERO, LAST) > 0 do
			end
			retire(other)
		end
	end
end

-- [GIVE WAY] To what, and to whom, if he can have all of it now, and nothing of
-- it is in the way of this one.
local function to_senior()
	local what, first, left = senior(options)
	if not what or not string.find(what, '^[RW]%d+$') or #what ~= 39 then
		return
	end
	local of, wanted = id_of(first), range(what, 1)
	if meet(wanted, want) and not conflict(id, {}, want)
	   and not conflict(of, mine(of, below(wanted[1]), above(wanted[2])),
			    wanted) then
		return wanted, { token = claim_of(first) }, left
	end
end

local function refuse(o, left, hit)
	leave_mark(options, ARGV[8], token)
	local n, ahead = 0, 0
	if ARGV[12] ~= '' then
		n, ahead = join(ticket, ARGV[12], ARGV[8] .. id .. holds,
				claim, tonumber(ARGV[13]))
	end
	grant_next(options)
	return { 0, left, o and o.token or '', hit[3] .. hit[1] .. hit[2], n,
		 ahead }
end

local kind, me = kind_of(id)
if kind == 'odd' then
	return { 2, 0, me, '', 0, 0 }
elseif kind == 'none' and waits and not is_interop(options) then
	-- It expired, and nobody was granted it.
	free(ZERO, LAST)
	grant_next(options)
	kind, me = kind_of(id)
end
-- (Where its slot moves the queue is there, or this would not have been called.)
local kept = ARGV[5] == 'share' and {} or nil
local confirms = kind == 'hash' and claim ~= '' and not (me and seq < me.seq)
		 and owner(id_of(claim))
if waits and (kept or confirms) then
	wait_where_it_moves()
end
local claimed = confirms and drop(claim)
if claimed then
	freed = nil
	kind, me = kind_of(id)
end

-- Of a string `me` is the token that is there.
if not me and not known then
	local wanted, first, left = to_senior()
	if wanted then
		return refuse(first, left, wanted)
	end
end

if kind == 'none' and not known then
	drop_mark(options, ARGV[8])
	cancel(ticket, claim)
	redis.call('DEL', ranges_key)
	if seq == FIRST and ARGV[8] == 'W' .. ZERO .. LAST
	   and not lingering then
		redis.call('SET', key, token, 'PX', ttl)
		return granted
	end
	set_owner({ id = id, seq = seq, expiry = now + ttl, since = since,
		    token = token, lingering = lingering })
	members('ZADD', id, { want }, 0)
	live_until(now + ttl, lingering)
	return granted
elseif kind == 'string' then
	local held, left = me, redis.call('PTTL', key)
	if held == token then
		if seq == FIRST and ARGV[8] == 'W' .. ZERO .. LAST
		   and not lingering then
			redis.call('PEXPIRE', key, ttl)
			return granted
		end
		me = unfold(token)
	elseif left > 0 and string.sub(held, 1, 7) == 'dlock1 '
	       and dead({ token = held, id = id_of(held), since = string.sub(
			held, 40 + #ARGV[3], 59 + #ARGV[3]) }) then
		unfold(held)
		me = nil
	else
		return refuse({ token = held }, left, { ZERO, LAST, 'W' })
	end
end

if me and seq < me.seq then
	return { 3, 0, me.seq, '', 0, 0 }
elseif me and me.expiry <= now
       and resumes(me.expiry, me.lingering, lingering) then
	-- It came late: its process is stopped by now, and is to go on.
	me.expiry = now + ttl
	set_owner(me)
	live_until(me.expiry, lingering)
elseif me and me.expiry <= now then
	while cut(id, ZERO, LAST) > 0 do
	end
	retire(id)
	me = nil
end
if not me and known then
	if claimed then
		free(claimed[1], claimed[2])
	end
	grant_next(options)
	return { 4, 0, '', '', 0, 0 }
end

local had = mine(id, below(want[1]), above(want[2]))
local hit, other, replaced = obstacle(id, had, want, dead, kept)
if not hit and freed and waits and not claimed and not is_interop(options)
   and ARGV[5] ~= 'own' and ARGV[5] ~= 'rest' and not kept then
	-- What the server sets free is not this request's, if others wait.
	grant_next(options)
	claimed = drop(claim)
	hit, other = obstacle(id, had, want, dead)
	freed = nil
end
if not hit and waits and not claimed and is_fair(options)
   and holds ~= '+' then
	other = waits_before(want, claim)
	if other then
		hit, other.token = waits_for(other), other.claim
	end
end
if hit then
	-- An older request, late, must not be granted what this one was not.
	if me and me.seq < seq then
		me.seq = seq
		set_owner(me)
	end
	if kept then
		-- What was swept is there again: asking at once would not help.
		hit.stuck = hit.stuck or #kept > 0
		put_back(kept)
	end
	if claimed then
		free(claimed[1], claimed[2])
	end
	return refuse(other, time_left(hit, other), hit)
end

drop_mark(options, ARGV[8])
cancel(ticket, claim)
assign(id, had, want[1], want[2], { want })
take(id, want)
set_owner({ id = id, seq = seq, expiry = now + ttl, token = token,
	    since = me and most(me.since, since) or since,
	    lingering = lingering })
live_until(now + ttl, lingering)
granted[2] = replaced
if ARGV[5] == 'rest' then
	adopt()
end

-- Of the owners that nobody meets, each new one looks at two.
if not me then
	for _, other in ipairs(redis.call('HRANDFIELD', key, 2)) do
		local o = other ~= 'dlock' and owner(other)
		if o and o.expiry <= now
		   and outlived(o.expiry, o.lingering) then
			cut(other, ZERO, LAST)
			retire(other)
		end
	end
end
-- A writer that reads from now on lets readers in.
for _, r in ipairs(had) do
	if want[3] == 'R' and r[3] == 'W' then
		free(want[1], want[2])
	end
end
pcall(grant_next, options) -- it is granted, whatever is at the queue
return granted
