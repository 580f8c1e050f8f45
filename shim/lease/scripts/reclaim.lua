#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RECLAIM] Put a lease back that a restarted server has forgotten (DESIGN L5).
-- Only its holder calls this, within its deadline and the server's restart
-- window.
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)  3 EX or SH
--         4 how it lingers (linger.inc), or none
-- 1 it is there; 0 another's is
--include now.inc
--include linger.inc
local token, ttl, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local lingering = lingers(ARGV[4])
if mode == 'EX' and not lingering
   and redis.call('SET', key, token, 'NX', 'PX', ttl) then
	return 1
end
if redis.call('EXISTS', key) == 1
   and (redis.call('TYPE', key).ok ~= 'hash'
	or redis.call('HGET', key, 'dlock') ~= '1') then
	return 0
end
-- Of a snapshot, others may linger there.
local all = redis.call('HGETALL', key)
for i = 1, #all, 2 do
	local expiry = tonumber(string.match(all[i + 1], '^(%d+) '))
	if all[i] ~= 'dlock' and mode == 'EX' and (expiry or now + 1) > now then
		return 0
	elseif string.find(all[i + 1], ' EX ', 1, true) then
		if expiry > now then
			return 0
		end
		redis.call('HDEL', key, all[i])
	end
end
if mode == 'EX' then
	redis.call('DEL', key)
	if not lingering then
		redis.call('SET', key, token, 'PX', ttl)
		return 1
	end
end
redis.call('HSET', key, 'dlock', '1', token, lingering
	   and string.format('%d %s %s', now + ttl, mode, lingering)
	   or now + ttl)
if lingering then
	ttl = ttl + tonumber(string.match(lingering, '^%d+'))
end
if redis.call('PTTL', key) < ttl then
	redis.call('PEXPIRE', key, ttl)
end
return 1
