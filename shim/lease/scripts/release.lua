#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- Give a lease back: compare and delete.
--
-- KEYS[1] the lease.  ARGV 1 token.
-- 1 it was ours and is gone; 0 it is not ours (not any more)
--
-- STRLEN first: a foreign value may be of any size, and a key of another type
-- is an error, which is no number either.
local len = redis.pcall('STRLEN', KEYS[1])
if len == #ARGV[1] and redis.call('GET', KEYS[1]) == ARGV[1] then
	return redis.call('DEL', KEYS[1])
end
if type(len) == 'number' or redis.call('TYPE', KEYS[1]).ok ~= 'hash'
   or ARGV[1] == 'dlock' or redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
	return 0
end
-- The mark alone holds nothing.
if redis.call('HLEN', KEYS[1]) == 1
   and redis.call('HEXISTS', KEYS[1], 'dlock') == 1 then
	redis.call('DEL', KEYS[1])
end
return 1
