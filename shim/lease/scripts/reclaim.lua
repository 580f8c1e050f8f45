#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RECLAIM] Put a lease back that a restarted server has forgotten (DESIGN L5).
-- Only its holder calls this, within its deadline and the server's restart
-- window.
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)  3 EX or SH
-- 1 it is there; 0 another's is
local key, token, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
if ARGV[3] == 'EX' then
	return redis.call('SET', key, token, 'NX', 'PX', ttl) and 1 or 0
end
if redis.call('EXISTS', key) == 1
   and (redis.call('TYPE', key).ok ~= 'hash'
	or redis.call('HGET', key, 'dlock') ~= '1') then
	return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', key, 'dlock', '1', token, now + ttl)
if redis.call('PTTL', key) < ttl then
	redis.call('PEXPIRE', key, ttl)
end
return 1
