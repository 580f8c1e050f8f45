#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Carry a lease on: compare and expire; never re-create (PITFALLS).
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)
-- {1, ''}     renewed
-- {0, token}  another's; '' if it is longer than any of ours or no string
-- {-1, ''}    there is none
local len = redis.pcall('STRLEN', KEYS[1])
if len == 0 and redis.call('EXISTS', KEYS[1]) == 0 then
	return {-1, ''}
end
if type(len) ~= 'number' or len >= 768 then
	return {0, ''}
end
local held = redis.call('GET', KEYS[1])
if held == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return {1, ''}
end
return {0, held}
