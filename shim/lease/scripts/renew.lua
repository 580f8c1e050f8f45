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
if type(len) == 'number' then
	if len >= 768 then
		return {0, ''}
	end
	local held = redis.call('GET', KEYS[1])
	if held == ARGV[1] then
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return {1, ''}
	end
	return {0, held}
end
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
	return {0, ''}
end
local expiry = redis.call('HGET', KEYS[1], ARGV[1])
if not expiry then
	-- A newer token of our host and file replaced nothing: of readers there
	-- are many, each with a lock of its own.
	return {-1, ''}
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- Expired but not swept yet: an exclusive asker may be on its way.
if tonumber(expiry) <= now then
	redis.call('HDEL', KEYS[1], ARGV[1])
	return {-1, ''}
end
redis.call('HSET', KEYS[1], ARGV[1], now + tonumber(ARGV[2]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, ''}
