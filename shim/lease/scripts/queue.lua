#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- A waiter in the queue (DESIGN 4).
--
-- KEYS    1 the lease  2 its queue  3 the gate (gate.inc), or none
-- ARGV    1 what it does:
--		heartbeat  it waits, for the first time or still
--		cancel     it does not wait any more, nor want what it was
--			   granted
--		suspend    it may never come back: nothing is to be granted to
--			   it, but it has its place if a heartbeat comes within
--			   its life
--		yield      what it was granted is another's first: it is the
--			   first one again if it asks, or says heartbeat, within
--			   its life
--		look       it only looks who holds the lease
--         2 EX or SH  3 claim  4 ticket, or "" if it has none yet
--         5 channel  6 life (ms)  7 " HOST FILE " of the waiter
--         8 "fair" and "interop", or ""
--
-- {1, 0, '', 0, 0}                     it is granted: the claim is there, for
--                                      another life
-- {0, ttl left, token, ticket, ahead}  it waits; as acquire.lua says it
-- {0, ttl left, token, 0, shared}      look: shared is 1 if readers hold it
-- {2, 0, type, 0, 0}                   the key is no lease
local gate = KEYS[3]
--include gate.inc
--include flock.inc
local verb, mode, claim, ticket = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local life, options = tonumber(ARGV[6]), ARGV[8]

local function granted()
	if mode == 'SH' and redis.pcall('HEXISTS', key, claim) == 1 then
		redis.call('HDEL', key, claim)
		add_reader('SH', claim, life)
		return true
	end
	return mode == 'EX' and redis.pcall('STRLEN', key) == #claim
	       and redis.call('GET', key) == claim
	       and redis.call('PEXPIRE', key, life) == 1
end

local state = held()
if state == 'odd' then
	return { 2, 0, redis.call('TYPE', key).ok, 0, 0 }
elseif verb == 'look' then
	local left, of = holder(ARGV[7])
	return { 0, left, of, 0, state == 'SH' and 1 or 0 }
elseif verb == 'heartbeat' and granted() then
	cancel(ticket, claim)
	return { 1, 0, '', 0, 0 }
end

local ahead = 0
if verb == 'heartbeat' then
	ticket, ahead = join(ticket, ARGV[5], mode, claim, life)
else
	if verb ~= 'suspend' or not suspend(ticket, claim) then
		cancel(ticket, claim)
	end
	if drop(claim) then
		state = held()
	end
	ticket = 0
end
if verb == 'yield' then
	ticket = tonumber(redis.call('HGET', queue, 'head') or 1) - 1
	redis.call('HSETNX', queue, 'tail', ticket)
	redis.call('HSET', queue, 'head', ticket)
	put(ticket, ARGV[5], 'away', claim, life)
end
if state ~= 'EX' then
	state = grant_next(state, options)
end
-- A reader may join others, and the search for whom to grant to has perhaps not
-- come so far: 1,000 are before it.
if verb == 'heartbeat' and mode == 'SH' and state == 'SH' and entry(ticket)
   and not string.find(options, 'interop', 1, true)
   and not string.find(options, 'fair', 1, true) then
	add_reader(state, claim, life)
end
if verb == 'heartbeat' and granted() then
	cancel(ticket, claim)
	return { 1, 0, '', 0, 0 }
end
local left, of = holder(ARGV[7])
return { 0, left, of, ticket, ahead }
