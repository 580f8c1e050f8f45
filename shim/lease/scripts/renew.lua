#!lua flags=allow-oom
-- SPDX-License-Identifier: MIT
-- [RENEW] Carry a lease on: compare and expire; never re-create (DESIGN L5).
-- [CONFIRM] Of a claim, it makes the lease.  [RESUME] One that lingers is
-- carried on though it has expired, if nobody was granted it since (linger.inc).
--
-- KEYS    1 the lease
-- ARGV    1 token  2 ttl (ms)  3 how it lingers, or none
-- {1, ''}     renewed; 'EX': one that nobody shares
-- {0, token}  another's; '' if it is longer than any of ours or no string
-- {-1, ''}    there is none
local len = redis.pcall('STRLEN', KEYS[1])
if len == #ARGV[1] and not ARGV[3]
   and redis.call('GET', KEYS[1]) == ARGV[1] then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	return { 1, 'EX' }
end
--include flock.inc
local token, ttl, linger = ARGV[1], tonumber(ARGV[2]), ARGV[3]
if type(len) == 'number' then
	local _, of = holder('')
	if redis.call('EXISTS', key) == 0 then
		return { -1, '' }
	elseif not same(of, token) then
		return { 0, of }
	end
	put_lease(token, ttl, 'EX', linger)
	return { 1, 'EX' }
elseif redis.call('TYPE', key).ok ~= 'hash' then
	return { 0, '' }
end
local text = redis.call('HGET', key, token)
if not text then
	local claim = claim_of(token)
	text = claim ~= token and redis.call('HGET', key, claim)
	redis.call('HDEL', key, claim)
end
local expiry, mode, lingering = read_lease(text or '0')
-- Expired but not swept yet: an exclusive request may be on its way.
if expiry <= now and not resumes(expiry, lingering, lingers(linger)) then
	-- A newer token of our host and file replaced nothing: of readers there
	-- are many, each with a lock of its own.
	redis.call('HDEL', key, token)
	if held() == 'EX' then
		local _, of = holder('')
		return { 0, of }
	end
	return { -1, '' }
end
put_lease(token, ttl, mode, linger)
return { 1, mode == 'EX' and mode or '' }
