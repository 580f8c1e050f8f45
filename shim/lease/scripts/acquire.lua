#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Ask for a whole-file exclusive lease: SET NX PX, and what stands in its way.
--
-- KEYS[1] the lease.
-- ARGV    1 token  2 ttl (ms)  3 "HOST FILE" of the asker, both spaces around
--         4 since (20 digits) as proof of death (DESIGN L3), or "" for none
--
-- {1, 0, ''}           granted (also: it was ours already; the ttl is new)
-- {1, 1, old token}    granted; a dead lease of the same host and file is gone
-- {0, ttl left, token} somebody holds it; -1: without a ttl; token '' if it
--                      is longer than any of ours
-- {2, 0, type}         the key is no string
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
	return {1, 0, ''}
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'string' then
	return {2, 0, kind}
end
-- A foreign value may be of any size (PITFALLS): do not carry it around.
local held = ''
if redis.call('STRLEN', KEYS[1]) < 768 then
	held = redis.call('GET', KEYS[1])
end
if held == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return {1, 0, ''}
end
-- dlock1 RANDOM HOST FILE SINCE ...: RANDOM ends at byte 39, and the digits
-- compare as text, for a Lua number is exact to 2^53 only.
local id = ARGV[3]
if ARGV[4] ~= '' and string.sub(held, 1, 7) == 'dlock1 '
   and string.sub(held, 40, 39 + #id) == id
   and string.sub(held, 40 + #id, 59 + #id) < ARGV[4] then
	redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
	return {1, 1, held}
end
return {0, redis.call('PTTL', KEYS[1]), held}
