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
--         7 " HOST FILE " of the holder  8 another's that expires by then (ms;
--           or 0) was not renewed since the server's memory began
--         9 how it lingers (linger.inc), or none
--
-- Two of one host and file may claim the same bytes, for a process that has
-- become another program (execve(2)) has one kernel lock and two leases:
-- the younger one's kernel grant came later, and the bytes are its.  A claim of
-- that host and file is of no kernel lock, whoever's it is, and so is put over:
-- its owner asks by it, and is refused like anybody.
--
-- 1 they are there; 0 another's are, or all are a younger one's
--include records.inc
local token, ttl, seq = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local lo, hi = string.sub(ARGV[5], 1, 19), string.sub(ARGV[5], 20)
local id, list, since = id_of(token), ranges(ARGV[6]), ARGV[3]

local function older(o)
	return here(o.token, ARGV[7])
	       and (o.since < since or o.since == NEVER)
	       or o.expiry <= tonumber(ARGV[8])
end

if seq == FIRST and ARGV[6] == 'W' .. ZERO .. LAST and not ARGV[9]
   and redis.call('SET', key, token, 'NX', 'PX', ttl) then
	return 1
end
local kind, me = kind_of(id)
if kind == 'string' and me == token then
	if seq == FIRST then
		redis.call('PEXPIRE', key, ttl)
		return 1
	end
	me = unfold(token)
elseif kind == 'string' then
	local left = redis.call('PTTL', key)
	local began = string.match(me, '^dlock1 %x+ %S+ %S+ (%d+) ')
	if left < 0 or not began
	   or not older({ token = me, since = began, expiry = now + left }) then
		return 0
	end
	unfold(me)
	me = nil
elseif kind == 'none' then
	redis.call('DEL', ranges_key)
elseif kind ~= 'hash' then
	return 0
end

if me and seq < me.seq then
	return 1
end
local had = mine(id, below(lo), above(hi))
local has = {}

-- What of it is no younger one's; false if it is in another's way.
local function place(want)
	while want[1] <= want[2] do
		local hit, o = obstacle(id, had, want, older)
		if not hit then
			has[#has + 1] = want
			return true
		elseif not o or not here(o.token, ARGV[7])
		       or o.since == since then
			return false
		elseif hit[1] > want[1]
		       and not place({ want[1], below(hit[1]), want[3] }) then
			return false
		elseif hit[2] >= want[2] then
			return true
		end
		want = { above(hit[2]), want[2], want[3] }
	end
	return true
end
for _, want in ipairs(list) do
	if not place(want) then
		return 0
	end
end
for _, want in ipairs(has) do
	take(id, want)
end
assign(id, had, lo, hi, has)
set_owner({ id = id, seq = seq, expiry = now + ttl, token = token,
	    since = since, lingering = lingers(ARGV[9]) })
live_until(now + ttl, lingers(ARGV[9]))
retire(id)
return (#has > 0 or owner(id)) and 1 or 0
