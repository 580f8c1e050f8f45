#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RENEW] Carry a lease on: compare and expire; never re-create (PITFALLS).
-- [CONFIRM] Of a claim, it makes the lease.
--
-- KEYS    1 the lease
-- ARGV    1 token  2 ttl (ms)
-- {1, ''}     renewed
-- {0, token}  another's; '' if it is longer than any of ours or no string
-- {-1, ''}    there is none
local len = redis.pcall('STRLEN', KEYS[1])
if len == #ARGV[1] and redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return { 1, '' }
end
--include flock.inc
local token, ttl = ARGV[1], tonumber(ARGV[2])
if type(len) == 'number' then
	local of = holder('')
	if redis.call('EXISTS', key) == 0 then
		return { -1, '' }
	elseif not same(of, token) then
		return { 0, of }
	end
	redis.call('SET', key, token, 'PX', ttl)
	return { 1, '' }
elseif redis.call('TYPE', key).ok ~= 'hash' then
	return { 0, '' }
end
local expiry = redis.call('HGET', key, token)
if not expiry then
	local claim = claim_of(token)
	expiry = claim ~= token and redis.call('HGET', key, claim)
	redis.call('HDEL', key, claim)
end
-- Expired but not swept yet: an exclusive request may be on its way.
if not expiry or (tonumber(expiry) or 0) <= now then
	-- A newer token of our host and file replaced nothing: of readers there
	-- are many, each with a lock of its own.
	redis.call('HDEL', key, token)
	return { -1, '' }
end
add_reader(token, ttl)
return { 1, '' }
