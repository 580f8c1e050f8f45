#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Who would refuse a range?  For F_GETLK.
--
-- KEYS    1 the lease  2 its ranges
-- ARGV    1 token of the asker, or "" if it has none
--         2 type, start, end (R or W, 19 digits each)
--
-- {1, 0, '', ''}               nobody
-- {0, ttl left, token, range}  this one (as records_acquire.lua says it)
-- {2, 0, type, ''}             the key is no lease
--include records.inc
local id, want = id_of(ARGV[1]), range(ARGV[2], 1)

local kind, held = kind_of(id)
if kind == 'odd' then
	return { 2, 0, held, '' }
elseif kind == 'none' or (kind == 'string' and held == ARGV[1]
			  and held ~= '') then
	return { 1, 0, '', '' }
elseif kind == 'string' then
	return { 0, redis.call('PTTL', key), held, 'W' .. ZERO .. LAST }
end
local had = id == '' and {} or mine(id, want[1], want[2])
local hit, other = obstacle(id, had, want)
if not hit then
	return { 1, 0, '', '' }
end
return { 0, other and other.expiry - now or 0, other and other.token or '',
	 hit[3] .. hit[1] .. hit[2] }
