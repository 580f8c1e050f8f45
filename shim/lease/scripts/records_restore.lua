#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Put an owner's ranges back that a restarted server has forgotten (DESIGN
-- L5), a window at a time.  Only their holder calls this, within its deadline
-- and the server's restart window.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 token  2 ttl (ms)  3 since (20 digits)
--         4 sequence number (20 digits)
--         5 start, end of the window (19 digits each)
--         6 type, start, end of each range in it, in order
--
-- 1 they are there; 0 another's are
--include records.inc
local token, ttl, seq = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local lo, hi = string.sub(ARGV[5], 1, 19), string.sub(ARGV[5], 20)
local id, list = id_of(token), ranges(ARGV[6])

if seq == FIRST and ARGV[6] == 'W' .. ZERO .. LAST
   and redis.call('SET', key, token, 'NX', 'PX', ttl) then
	return 1
end
local kind, me = kind_of(id)
if kind == 'string' and me == token then
	redis.call('PEXPIRE', key, ttl)
	return 1
elseif kind == 'none' then
	redis.call('DEL', places)
elseif kind ~= 'hash' then
	return 0
end

if me and seq < me.seq then
	return 1
end
local had = mine(id, below(lo), above(hi))
for _, want in ipairs(list) do
	if obstacle(id, had, want) then
		return 0
	end
end
assign(id, had, lo, hi, list)
set_owner({ id = id, seq = seq, expiry = now + ttl, token = token,
	    since = ARGV[3] })
live_until(now + ttl)
return 1
