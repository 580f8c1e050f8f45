#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- A waiter for a range, in the queue (DESIGN 4).
--
-- KEYS    1 the lease  2 its ranges  3 its queue  4 the gate (gate.inc), or none
-- ARGV    1 what it does: heartbeat, cancel, suspend or yield, as in queue.lua
--         2 type, start, end; its owner's digits, or as many '-'; '+' if it
--           holds some lock, or '-'
--         3 claim  4 ticket, or "" if it has none yet  5 channel  6 life (ms)
--         7 "fair" and "interop", or ""
--
-- {1, 0, '', '', 0, 0}         it is granted: the claim is there, for another
--                              life
-- {0, ttl left, token, range, ticket, ahead}
--                              it waits; as records_acquire.lua says it
-- {2, 0, type, '', 0, 0}       the key is no lease
local gate = KEYS[4]
--include gate.inc
--include records_queue.inc
local verb, claim, ticket, life = ARGV[1], ARGV[3], ARGV[4], tonumber(ARGV[6])
local options, want = ARGV[7], range(ARGV[2], 1)
local of = string.sub(ARGV[2], 40, 71)

local function granted()
	local o = is_hash() and owner(id_of(claim))
	if not o or o.expiry <= now then
		return false
	end
	o.expiry = now + life
	set_owner(o)
	live_until(o.expiry)
	return true
end

-- Who is in its way, but for those that have expired: token, ttl left, range.
local function holder()
	local kind, held = kind_of(of)
	if kind == 'none' then
		return
	elseif kind == 'string' and id_of(held) ~= of then
		return held, redis.call('PTTL', key), { ZERO, LAST, 'W' }
	elseif kind == 'string' then
		unfold(held)
	end
	local hit, o = obstacle(of, mine(of, below(want[1]), above(want[2])),
				want)
	if hit then
		return o and o.token or '', time_left(hit, o), hit
	end
end

local kind, name = kind_of('')
if kind == 'odd' then
	return { 2, 0, name, '', 0, 0 }
elseif verb == 'heartbeat' and granted() then
	cancel(ticket, claim)
	return { 1, 0, '', '', 0, 0 }
end

local token, left, hit, ahead, by = '', life, want, 0, nil
if verb == 'heartbeat' then
	-- [HEARTBEAT] It also sees what nobody reported: an expired lease, a
	-- release by one whose server was new.
	ticket, ahead = join(ticket, ARGV[5], ARGV[2], claim, life)
	local ends, where
	by, ends, where = holder()
	if by then
		token, left, hit = by, ends, where
	else
		free(want[1], want[2])
	end
else
	if verb ~= 'suspend' or not suspend(ticket, claim) then
		cancel(ticket, claim)
	end
	drop(claim)
	ticket = 0
end
if verb == 'yield' then
	-- [YIELD] In front of all the others, but not now.
	ticket = tonumber(redis.call('HGET', queue, 'head') or 1) - 1
	redis.call('HSETNX', queue, 'tail', ticket)
	redis.call('HSET', queue, 'head', ticket)
	put(ticket, ARGV[5], 'away', claim, life)
end
grant_next(options)
-- [OWN FIRST] It may be free, and the search for whom to grant to has not come
-- so far: 1,000 others are before.
if verb == 'heartbeat' and not by and entry(ticket) and not is_interop(options)
   and not holder()
   and (string.sub(ARGV[2], 72) == '+' or not is_fair(options)
	or not waits_before(want, claim)) then
	claim_range({ claim = claim, life = life }, want, of)
end
if verb == 'heartbeat' and granted() then
	cancel(ticket, claim)
	return { 1, 0, '', '', 0, 0 }
end
return { 0, left, token, hit[3] .. hit[1] .. hit[2], ticket, ahead }
