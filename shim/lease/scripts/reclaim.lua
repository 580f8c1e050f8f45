#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RECLAIM] Put a lease back that a restarted server has forgotten (DESIGN L5).
-- Only its holder calls this, within its deadline and the server's restart
-- window.
--
-- KEYS[1] the lease.  ARGV 1 token  2 ttl (ms)  3 EX or SH
--         4 another's that expires by then (ms; or 0) was not renewed since the
--           server's memory began  5 how it lingers (linger.inc), or none
-- 1 it is there; 2 another lease is, which may be as old as the memory;
-- 0 what is none of dlock's
--include put_lease.inc
local token, ttl, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local outdated = tonumber(ARGV[4])
if mode == 'EX' and not ARGV[5]
   and redis.call('SET', key, token, 'NX', 'PX', ttl) then
	return 1
end

-- [PROOF] Another lease of the same host and file whose lock ours came after, put
-- back by a keeper that has not seen its end, or by who has it no more (as in
-- acquire.lua; a claim is of no lock yet, and so neither proves nor is disproved).
local identity, since = string.match(token, '^dlock1 %S+( %S+ %S+ )(%d+)')
since = since ~= NEVER and since or ''
--include dead.inc

local kind, all = redis.call('TYPE', key).ok, {}
if kind == 'string' then
	local left = redis.call('PTTL', key)
	local of = redis.call('STRLEN', key) < 768 and redis.call('GET', key)
	local old = left >= 0 and now + left <= outdated
	if not of or string.sub(of, 1, 7) ~= 'dlock1 ' then
		return 0
	elseif not old and not dead(of) then
		return 2
	end
	-- (A shared lock proves only that nobody has an exclusive one.)
	if mode == 'SH' and left > 0 and not old then
		put_lease(of, left, 'SH')
	end
elseif kind == 'hash' and redis.call('HGET', key, 'dlock') == '1' then
	-- Of a snapshot, others may linger there.
	all = redis.call('HGETALL', key)
elseif kind ~= 'none' then
	return 0
end
for i = 1, #all, 2 do
	local of, text = all[i], all[i + 1]
	local expiry = tonumber(string.match(text, '^(%d+)'))
	local writes = string.find(text, ' EX ', 1, true)
	local old = (expiry or now) <= outdated
	if of == 'dlock' then
		-- the mark
	elseif mode == 'SH' and writes and (expiry or 0) > now and dead(of)
	       and not old then
		redis.call('HSET', key, of, expiry)
	elseif (mode == 'EX' or writes) and (old or dead(of)) then
		redis.call('HDEL', key, of)
	elseif (mode == 'EX' or writes) and (expiry or now + 1) > now then
		return 2
	elseif writes then
		redis.call('HDEL', key, of)
	end
end
put_lease(token, ttl, mode, ARGV[5])
return 1
