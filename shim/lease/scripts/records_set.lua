#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Give ranges back, or make readers of writers: within a window, the owner
-- has what the list says, and never more than it had.  So it may come twice.
-- The whole list of an owner is that of the window from 0 to the end.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 token  2 sequence number (20 digits)
--         3 start, end of the window (19 digits each)
--         4 type, start, end of each range in it, in order
--
-- {1, ''}               done
-- {0, ''}               the owner holds nothing (any more)
-- {2, sequence number}  a later request was here first, and nothing changed;
--                       or this was too much for one call, and not all is
--                       done: in both cases again, with a greater number
if ARGV[4] == '' and ARGV[3] == '00000000000000000009223372036854775807' then
	local len = redis.pcall('STRLEN', KEYS[1])
	if len == #ARGV[1] and redis.call('GET', KEYS[1]) == ARGV[1] then
		redis.call('DEL', KEYS[1])
		return { 1, '' }
	elseif type(len) == 'number' then
		return { 0, '' }
	end
end
--include records.inc
local token, seq = ARGV[1], ARGV[2]
local lo, hi = string.sub(ARGV[3], 1, 19), string.sub(ARGV[3], 20)
local id = id_of(token)

local kind, me = kind_of(id)
if kind == 'string' and me == token then
	if ARGV[4] == 'W' .. lo .. hi then
		return { 1, '' }
	end
	me = unfold(token)
elseif kind ~= 'hash' or not me then
	return { 0, '' }
end
if seq < me.seq then
	return { 2, me.seq }
end
if lo == ZERO and hi == LAST and ARGV[4] == ''
   and redis.call('HLEN', key) == 2 then
	redis.call('UNLINK', key, places)
	return { 1, '' }
end
-- A list has 500 ranges (DLK_RECORDS_PAGE), so more than half of these go.
local LIMIT = 1200
local had = mine(id, below(lo), above(hi), LIMIT)
assign(id, had, lo, hi, ranges(ARGV[4]), true)
me.seq = seq
set_owner(me)
retire(id)
return { #had == LIMIT and 2 or 1, seq }
