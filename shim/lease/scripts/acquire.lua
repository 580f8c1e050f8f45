#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [ASK] Ask for a lease on a whole file; if it is refused, queue (DESIGN 4).
--
-- An exclusive lease is one string, SET NX PX (DESIGN L9).
--
-- KEYS    1 the lease  2 its queue  3 the gate (gate.inc), or none
-- ARGV    1 token  2 ttl (ms)  3 " HOST FILE " of the request
--         4 since (20 digits) as proof of death (DESIGN L3), or "" for none
--         5 EX or SH
--         6 a token that is given up for it (a conversion), or ""; who is
--         refused gives it up by himself, if it is his to give
--         7 "fair" and "interop", "junior" or "senior" (senior.inc), or ""
--      and of who queues:
--         8 the claim  9 its ticket, or "" if it has none yet
--         10 its channel  11 its life (ms)
--      and of a lease that lingers: 12 for how long (linger.inc)
--
-- {1, 0, '', 0, 0}        granted (also: it was ours already; the ttl is new)
-- {1, 1, '', 0, 0}        granted; a dead lease of the same host and file is
--                         gone
-- {0, ttl left, token, ticket, ahead}
--                         somebody holds it, or (his claim) is to have it
--                         first; ttl -1:
--                         without a ttl; token '' if it is longer than any of
--                         ours; ticket 0: not queued; ahead less than 0:
--                         -1 - ahead, and it had another ticket, of no use;
--                         of a senior (his claim) what is left of his mark
-- {2, 0, type, 0, 0}      the key is no lease
local gate = KEYS[3]
--include gate.inc
--include senior.inc
if ARGV[5] == 'EX' and (ARGV[9] or '') == '' and not ARGV[12]
   and redis.call('EXISTS', KEYS[2]) == 0 and not senior(ARGV[7])
   and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	drop_mark(ARGV[7], 'EX')
	return { 1, 0, '', 0, 0 }
end
--include place.inc
-- [JOIN] Somebody else holds it, and there is nothing to be said against that:
-- as below, without all that it takes.
if ARGV[5] == 'EX' and ARGV[4] == '' and ARGV[6] == '' and ARGV[9] == ''
   and ARGV[10] ~= '' then
	local of = redis.pcall('GETRANGE', key, 0, 767)
	local name = type(of) == 'string' and string.sub(of, 1, 39) or ''
	local ticket = name ~= '' and name ~= string.sub(ARGV[1], 1, 39)
		       and name ~= string.sub(ARGV[8], 1, 39)
		       and redis.pcall('HINCRBY', queue, 'tail', 1)
	if type(ticket) == 'number' then
		local first = redis.call('HSETNX', queue, 'head', ticket) == 1
			      and ticket or redis.call('HGET', queue, 'head')
		put(ticket, ARGV[10], 'EX', ARGV[8], tonumber(ARGV[11]))
		return { 0, redis.call('PTTL', key), #of < 768 and of or '',
			 ticket, ticket - first }
	end
end
--include flock.inc
local token, ttl, identity = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local since = ARGV[4]
local mode, superseded, options = ARGV[5], ARGV[6], ARGV[7]
local claim, linger = ARGV[8] or '', ARGV[12]

--include dead.inc

local waits = redis.call('EXISTS', queue) == 1

-- Another thread may read by it, so it is back whenever we are refused (and not
-- taken where another's key in place of the queue ends this by an error).
local function aside(of)
	of_queue(redis.pcall('HLEN', queue))
	local left, text = redis.call('PTTL', key), redis.call('HGET', key, of)
	redis.call('HDEL', key, of)
	return function()
		redis.call('HSET', key, 'dlock', '1', of, text)
		if redis.call('PTTL', key) < left then
			redis.call('PEXPIRE', key, left)
		end
	end
end

local state, replaced, ours = held(), 0, false
local put_back
if state == 'odd' then
	return { 2, 0, redis.call('TYPE', key).ok, 0, 0 }
elseif state == 'EX' then
	local left, of = holder(identity)
	-- A downgrade keeps its token, so that it may come twice, or late.
	ours = same(of, token) or same(of, superseded)
	       or of == claim and of ~= ''
	if not ours and dead(of) then
		replaced = 1
	end
	if ours or replaced == 1 then
		-- (Where its slot moves the queue is there, or this would not
		-- have been called.)
		if waits then
			wait_where_it_moves()
		end
		redis.call('DEL', key)
		state = 'none'
		-- A shared kernel lock proves only that nobody has an exclusive
		-- one: the old owner may have downgraded, and be alive.
		if replaced == 1 and mode == 'SH' and left > 0 then
			add_reader(state, of, left)
			state = 'SH'
		end
	end
elseif state == 'SH' then
	for _, of in ipairs(redis.call('HKEYS', key)) do
		if of == 'dlock' then
			-- the mark
		elseif same(of, token) or of == claim
		       or mode == 'SH' and same(of, superseded) then
			ours = true
			redis.call('HDEL', key, of)
		elseif same(of, superseded) then
			put_back = aside(of)
		elseif mode == 'EX' and dead(of) then
			redis.call('HDEL', key, of)
			replaced = 1
		end
	end
	state = held()
end

-- Who waits goes first: nobody is overtaken but a writer by readers.
local first
local function first_is_ours()
	first = nil
	local all = each(function(e)
		first = e
		return false, true
	end)
	return all and (not first or first.claim == claim)
end
local function writer_waits()
	local found = false
	each(function(e)
		found = e.what == 'EX' and e.claim ~= claim and e.claim
		return false, found or e.claim == claim
	end)
	return found
end
local writer
if not ours and waits then
	if state == 'none' and not first_is_ours() then
		state = put_back and 'SH' or grant_next(state, options)
		if state == 'none' and not first_is_ours() then
			state = 'EX' -- it was notified (interop)
		end
	end
	if state == 'SH' and string.find(options, 'fair', 1, true) then
		writer = writer_waits()
		state = writer and 'EX' or state
	end
end

if state == 'none' or (state == 'SH' and mode == 'SH') then
	local wanted, his, left
	if state == 'none' and not ours and replaced == 0 then
		wanted, his, left = senior(options)
	end
	if wanted and (wanted == 'EX' or mode == 'EX') then
		if put_back then
			put_back()
		end
		return { 0, left, claim_of(his), 0, 0 }
	end
	drop_mark(options, mode)
	cancel(ARGV[9] or '', claim)
	if mode == 'EX' then
		put_lease(token, ttl, mode, linger)
	else
		add_reader(state, token, ttl, linger)
		-- It is granted, whatever is at the queue.
		pcall(grant_next, 'SH', options)
	end
	return { 1, replaced, '', 0, 0 }
end
leave_mark(options, mode, token)
local ticket, ahead = 0, 0
if (ARGV[10] or '') ~= '' then
	ticket, ahead = join(ARGV[9], ARGV[10], mode, claim,
			     tonumber(ARGV[11]))
end
-- It is the writer that a reader waits for, and not those who read.
local left, of = holder(identity)
if put_back then
	put_back()
	of = of == '' and first and first.claim or of
end
return { 0, left, mode == 'SH' and writer or of, ticket, ahead }
