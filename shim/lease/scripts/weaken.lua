#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- A downgrade that got no answer, once more: compare and make it shared; never
-- re-create.
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)
-- 1 it is a shared one now; 0 it is not there
local key, token, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
local len = redis.pcall('STRLEN', key)
if type(len) ~= 'number' then
	return redis.call('TYPE', key).ok == 'hash' and token ~= 'dlock'
	       and redis.call('HEXISTS', key, token) or 0
end
if len ~= #token or redis.call('GET', key) ~= token then
	return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('DEL', key)
redis.call('HSET', key, 'dlock', '1', token, now + ttl)
redis.call('PEXPIRE', key, ttl)
return 1
