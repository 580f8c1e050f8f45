#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Ask for a range, with all that its owner has already: granted whole, or
-- nothing changes.  What the owner has there is replaced, up or down.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 token  2 ttl (ms)  3 " HOST FILE " of the asker
--         4 since (20 digits) of this kernel grant
--         5 "1": it is a proof of death (DESIGN L3), or ""
--         6 sequence number (20 digits)
--         7 "1": the owner knows that it holds something, or ""
--         8 type, start, end (R or W, 19 digits each)
--
-- {1, 0, '', ''}               granted; the ttl is new
-- {1, 1, '', ''}               granted; what a dead owner had there is gone
-- {0, ttl left, token, range}  somebody's range is in the way; -1: without a
--                              ttl; 0: ask again at once; token '' if it is
--                              longer than any of ours, or unknown
-- {2, 0, type, ''}             the key is no lease
-- {3, 0, sequence number, ''}  a later request was here first
-- {4, 0, '', ''}               the owner holds nothing (any more)
if ARGV[6] == '00000000000000000001'
   and ARGV[8] == 'W00000000000000000009223372036854775807'
   and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	return { 1, 0, '', '' }
end
--include records.inc
local token, ttl, since, seq = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[6]
local id, want = id_of(token), range(ARGV[8], 1)

local function dead(o)
	return ARGV[5] ~= ''
	       and string.sub(o.token, 40, 39 + #ARGV[3]) == ARGV[3]
	       and o.since < since
end

local kind, me = kind_of(id)
if kind == 'odd' then
	return { 2, 0, me, '' }
elseif kind == 'none' and ARGV[7] == '' then
	redis.call('DEL', places)
	set_owner({ id = id, seq = seq, expiry = now + ttl, since = since,
		    token = token })
	tell('ZADD', id, { want }, 0)
	live_until(now + ttl)
	return { 1, 0, '', '' }
elseif kind == 'string' then
	local held, left = me, redis.call('PTTL', key)
	if held == token then
		if seq == FIRST and ARGV[8] == 'W' .. ZERO .. LAST then
			redis.call('PEXPIRE', key, ttl)
			return { 1, 0, '', '' }
		end
		me = unfold(token)
	elseif left > 0 and string.sub(held, 1, 7) == 'dlock1 '
	       and dead({ token = held, since = string.sub(
			held, 40 + #ARGV[3], 59 + #ARGV[3]) }) then
		unfold(held)
		me = nil
	else
		return { 0, left, held, 'W' .. ZERO .. LAST }
	end
end

if me and me.expiry <= now then
	while cut(id, ZERO, LAST) > 0 do
	end
	retire(id)
	me = nil
end
if me and seq < me.seq then
	return { 3, 0, me.seq, '' }
elseif not me and ARGV[7] ~= '' then
	return { 4, 0, '', '' }
end

local had = mine(id, below(want[1]), above(want[2]))
local hit, other, replaced = obstacle(id, had, want, dead)
if hit then
	-- An older request, late, must not be granted what this one was not.
	if me and me.seq < seq then
		me.seq = seq
		set_owner(me)
	end
	return { 0, other and other.expiry - now or 0,
		 other and other.token or '', hit[3] .. hit[1] .. hit[2] }
end

assign(id, had, want[1], want[2], { want })
set_owner({ id = id, seq = seq, expiry = now + ttl, token = token,
	    since = me and most(me.since, since) or since })
live_until(now + ttl)

-- Of the owners that nobody meets, each new one looks at two.
if not me then
	for _, other in ipairs(redis.call('HRANDFIELD', key, 2)) do
		local o = other ~= 'dlock' and owner(other)
		if o and o.expiry <= now then
			cut(other, ZERO, LAST)
			retire(other)
		end
	end
end
return { 1, replaced, '', '' }
